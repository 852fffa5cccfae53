package sdktest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/server"
)

// llmRun is one run against one model.
type llmRun struct {
	name      string
	book      string
	upstream  string // in the book; "" is llm
	server    server.LLMOptions
	span      time.Duration
	processes int
	callers   int // in all processes together
	draw      func(r *rand.Rand) ask
	other     *server.Spender // nil: nobody else spends
}

// llmResult is what a run came to.
type llmResult struct {
	counts  server.LLMCounts // when all is quiet
	granted int64            // units charged within the span
	oracle  int64            // and with perfect knowledge
	pool    string           // the scarce one
	ours    int64            // units in the ledger when all is quiet
	others  int64            // of them by others
}

func (r llmResult) share() float64 { return float64(r.granted) / float64(r.oracle) }

// scarce returns the limit that callers compete for.
func scarce(o server.LLMOptions) (pool string, l server.Limit) {
	if o.Form == server.Anthropic {
		return "output_tokens", o.Output
	}
	return "tokens", o.Tokens
}

// run drives the callers, in a bubble of its own.
func (l llmRun) run(t *testing.T) (res llmResult) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pool, limit := scarce(l.server)
		s := server.NewLLM(l.server)
		n := newNetwork()
		addr := n.serve(t, s)
		fleet := newFleet(t, parse(t, l.book, addr), l.processes, func() http.RoundTripper { return n.transport(t) })
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		if l.other != nil {
			l.other.Take = func(units int64) bool { return s.Take(pool, units) }
			go l.other.Run(ctx)
		}
		var took int64
		load{callers: l.callers / l.processes, span: l.span, call: func(ctx context.Context, p *process, r *rand.Rand) error {
			_, err := newModel(l.server.Form, p.client, addr).ask(ctx, l.draw(r))
			if refusedByModel(err) {
				return nil // the server counts it
			}
			return err
		}}.drive(t, fleet, func() {
			res.granted = s.Counts().Charged[pool]
			stop()
			if l.other != nil {
				took, _ = l.other.Took()
			}
		})
		time.Sleep(5 * time.Second) // for settlements that the caller need not wait for
		res.pool, res.counts, res.granted, res.oracle = pool, s.Counts(), res.granted-took, limit.Oracle(l.span)-took
		ours, others := fleet[0].spent(t, cmp.Or(l.upstream, "llm"))
		res.ours, res.others = ours[pool], others[pool]
	})
	return res
}

// short draws calls of 0.2 to 3 s, some of them streams. MaxTokens is up to twice of
// what is used.
func short(r *rand.Rand) ask {
	out := 100 + r.Int64N(400)
	return ask{
		task:   server.Task{Output: out, Latency: 200*time.Millisecond + time.Duration(r.Int64N(int64(2800*time.Millisecond))), Filler: r.IntN(400)},
		most:   out + r.Int64N(out), // it thinks of all that it might need
		stream: r.IntN(2) == 0,
	}
}

// long draws streams of 30 s that use what they ask for, and a few that are shorter, so
// that the calls of different windows end together.
func long(r *rand.Rand) ask {
	out := 1800 + r.Int64N(400)
	d := 30 * time.Second
	if r.IntN(4) == 0 {
		d = time.Duration(r.Int64N(int64(d)))
	}
	return ask{task: server.Task{Output: out, Latency: d}, most: out, stream: true}
}

const quotaOfLLM = 60000

// llmServer returns a model with a limit of a kind.
func llmServer(form server.Form, kind server.Kind) server.LLMOptions {
	l := server.Limit{Kind: kind, Quota: quotaOfLLM, Per: time.Minute, Phase: 13 * time.Second}
	if form == server.Anthropic {
		return server.LLMOptions{Form: form, Output: l, Input: server.Limit{Quota: 1e6, Per: time.Minute}}
	}
	return server.LLMOptions{Form: form, Tokens: l}
}

func llmBook(form server.Form, words ...string) string {
	text := openaiBook
	if form == server.Anthropic {
		text = anthropicBook
	}
	return fill(text, append(words, "QUOTA", fmt.Sprint(quotaOfLLM))...)
}

// models has servers that count in every way, with short calls and long streams.
func models(t *testing.T, figures *table) {
	for _, form := range []server.Form{server.OpenAI, server.Anthropic} {
		for _, kind := range []server.Kind{server.Fixed, server.Sliding, server.Bucket} {
			for _, atEnd := range []bool{false, true} {
				if !soak && (kind == server.Bucket) != (form == server.OpenAI) || !soak && atEnd != (kind == server.Sliding) {
					continue // some of them will do
				}
				o := llmServer(form, kind)
				o.AtEnd = atEnd
				counted := map[bool]string{false: "start", true: "end"}[atEnd]
				name := fmt.Sprintf("%s, %s, counted at the %s", [...]string{"openai", "anthropic"}[form], kind, counted)
				l := llmRun{
					book: llmBook(form, "COUNTED", counted), server: o, processes: 2, callers: 128,
					span: pick(2*time.Minute, 10*time.Minute), draw: short,
				}
				res := l.run(t)
				figures.zero(t, name+": refusals", int64(res.counts.Refused))
				figures.zero(t, name+": most above the quota", res.counts.Overrun[res.pool])
				figures.least(t, name+": share of the oracle", res.share(), 0.93)
				figures.zero(t, name+": ledger less server", res.ours-res.counts.Charged[res.pool])

				l.draw = long
				res = l.run(t)
				figures.zero(t, name+", streams of 30 s: refusals", int64(res.counts.Refused))
				figures.zero(t, name+", streams of 30 s: most above the quota", res.counts.Overrun[res.pool])
				figures.least(t, name+", streams of 30 s: share of the oracle", res.share(), pick(0.85, 0.95)*60/90) // a short run varies more
				figures.zero(t, name+", streams of 30 s: ledger less server", res.ours-res.counts.Charged[res.pool])
				if t.Failed() {
					t.Logf("%s: %+v", name, res)
				}
			}
		}
	}
}

// learning compares an estimate by max_tokens with one by recent calls.
func learning(t *testing.T, figures *table) {
	draws := map[string]func(r *rand.Rand) ask{
		"short answers": func(r *rand.Rand) ask {
			return ask{task: server.Task{Output: 50 + r.Int64N(150), Latency: time.Second + time.Duration(r.Int64N(int64(2*time.Second)))}, most: 4096, stream: r.IntN(2) == 0}
		},
		"bimodal answers": func(r *rand.Rand) ask {
			a := ask{task: server.Task{Output: 50 + r.Int64N(50), Latency: time.Second + time.Duration(r.Int64N(int64(2*time.Second)))}, most: 4096, stream: r.IntN(2) == 0}
			if r.IntN(10) == 0 {
				a.task.Output = 1500 + r.Int64N(500)
			}
			return a
		},
	}
	for _, name := range []string{"short answers", "bimodal answers"} {
		o := llmServer(server.OpenAI, server.Sliding)
		o.AtEnd = true
		l := llmRun{server: o, processes: 2, callers: 128, span: pick(2*time.Minute, 10*time.Minute), draw: draws[name]}
		l.book = llmBook(server.OpenAI, "COUNTED", "end")
		bound := l.run(t)
		l.book = llmBook(server.OpenAI, "COUNTED", "end", "OPENAI", "{body: max_completion_tokens, default: 4096, learn: p95, first: 1000}")
		learned := l.run(t)
		figures.note(name+", estimate by max_tokens: share of the oracle", fmt.Sprintf("%.3f", bound.share()))
		figures.note(name+", learn: p95: share of the oracle", fmt.Sprintf("%.3f", learned.share()))
		calls := float64(learned.counts.Granted + learned.counts.Refused)
		figures.most(t, name+", learn: p95: share of calls refused", float64(learned.counts.Refused)/calls, 0.001)
		if name == "short answers" {
			figures.least(t, name+", learn: p95: times the throughput by max_tokens", learned.share()/bound.share(), 1.5)
		}
		figures.zero(t, name+", learn: p95: ledger less server", learned.ours-learned.counts.Charged["tokens"])
		if t.Failed() {
			t.Logf("%s: %+v\n%+v", name, bound, learned)
		}
	}
}

// compatible has eight processes with the built-in book for servers that speak as OpenAI does, and
// a server that keeps a bucket and counts the tokens of an answer when it ends. Lengths are
// Pareto-distributed, and requests ask for 4,096 tokens.
func compatible(t *testing.T, figures *table) {
	o := llmServer(server.OpenAI, server.Bucket)
	o.AtEnd = true
	l := llmRun{
		server: o, processes: 8, callers: 128, span: pick(4*time.Minute, 20*time.Minute),
		draw: func(r *rand.Rand) ask {
			out := int64(min(100/math.Pow(1-r.Float64(), 1/1.5), 4096))
			return ask{task: server.Task{Output: out, Latency: 200*time.Millisecond + time.Duration(out)*10*time.Millisecond}, most: 4096, stream: r.IntN(2) == 0}
		},
	}
	for name, limit := range map[string]string{"builtin/openai-compatible": "windows: [{algorithm: bucket, quota: QUOTA, per: 1m}]", "builtin/openai": "quota: QUOTA"} {
		upstream := strings.TrimPrefix(name, "builtin/")
		l.upstream, l.book = upstream, fill("extends: "+name+"\nupstreams: {"+upstream+": {hosts: [HOST], api_key: {pass: true}, pools: {requests: {quota: 100000}, tokens: {"+limit+"}}}}", "QUOTA", fmt.Sprint(quotaOfLLM))
		res := l.run(t)
		figures.note(name+" with a server that counts at the end: refusals", fmt.Sprintf("%d of %d", res.counts.Refused, res.counts.Granted+res.counts.Refused))
		if name == "builtin/openai" {
			figures.note(name+" with a server that counts at the end: share of the oracle", fmt.Sprintf("%.3f", res.share()))
			continue
		}
		figures.least(t, name+": share of the oracle", res.share(), 0.85)
		figures.most(t, name+": share of calls refused", float64(res.counts.Refused)/float64(res.counts.Granted+res.counts.Refused), 0.001)
	}
}
