package sdktest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/server"
)

// others has another program that spends 30% of the quota directly, in bursts of 1%, in
// the first 20 s of each window. The headroom is kept free beside what the other takes, so
// with 10% at most 60% of the quota is ours, which is 0.857 of what the other leaves. That
// there is more comes from units of the other that are heard of late, which the headroom is
// for. A headroom of 4% is enough for that, but for one call now and then.
func others(t *testing.T, figures *table) {
	for _, form := range []server.Form{server.OpenAI, server.Anthropic} {
		for _, headroom := range []int64{10, 4, 0} {
			o := llmServer(form, server.Fixed)
			o.Tokens.Phase, o.Output.Phase = 0, 0
			feedback := map[server.Form]string{server.OpenAI: openaiFeedback, server.Anthropic: anthropicFeedback}[form]
			l := llmRun{
				book:   llmBook(form, "FEEDBACK", feedback, "HEADROOM", fmt.Sprint(quotaOfLLM*headroom/100)),
				server: o, processes: 3, callers: 12, span: pick(3*time.Minute, 10*time.Minute),
				// answers come late and out of order, because calls last differently long
				draw:  func(r *rand.Rand) ask { a := short(r); a.most = a.task.Output; return a },
				other: &server.Spender{Burst: quotaOfLLM / 100, Every: 650 * time.Millisecond, Most: quotaOfLLM * 3 / 10, Per: time.Minute},
			}
			res := l.run(t)
			_, otherRefused := l.other.Took()
			name := fmt.Sprintf("%s, another takes 30%%, headroom %d%%", [...]string{"openai", "anthropic"}[form], headroom)
			windows := l.span / time.Minute
			if headroom > 0 {
				if headroom == 4 {
					figures.most(t, name+": refusals a window", float64(res.counts.Refused)/float64(windows), 1)
				} else {
					figures.zero(t, name+": refusals", int64(res.counts.Refused))
				}
				free := res.oracle - int64(windows)*quotaOfLLM*headroom/100
				figures.least(t, name+": share of the limit less the other's", float64(res.granted)/float64(free), 0.95)
			} else {
				figures.most(t, name+": refusals a window, of 12 calls in flight", float64(res.counts.Refused)/float64(windows), 12)
			}
			if left := name + ": share of the quota less the other's"; headroom == 4 {
				figures.least(t, left, res.share(), 0.95)
			} else {
				figures.note(left, fmt.Sprintf("%.3f", res.share()))
			}
			figures.note(name+": others in the ledger, and what they took", fmt.Sprintf("%d, %d", res.others, res.counts.Charged[res.pool]-res.ours))
			figures.note(name+": bursts of the other that found too little left", fmt.Sprint(otherRefused))
			if t.Failed() {
				t.Logf("%s: %+v", name, res)
			}
		}
	}
}
