package sdktest

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/server"
)

// faults has answers that end early or lie. The estimate stands, and it is above what
// the server counted.
func faults(t *testing.T, figures *table) {
	for _, form := range []server.Form{server.OpenAI, server.Anthropic} {
		for _, stream := range []bool{false, true} {
			for _, fault := range []server.Fault{server.Cut, server.Lost, server.Mute, server.Huge, server.Negative, server.Text, server.Nested, "unclosed"} {
				if fault == "unclosed" && !stream || fault == server.Nested && stream {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					s := server.NewLLM(llmServer(form, server.Sliding))
					n := newNetwork()
					addr := n.serve(t, s)
					p := newFleet(t, parse(t, llmBook(form), addr), 1, func() http.RoundTripper { return n.transport(t) })[0]
					task := server.Task{Output: 100, Latency: time.Second, Fault: fault}
					if fault == "unclosed" {
						task.Fault = ""
					}
					_, err := newModel(form, p.client, addr).ask(t.Context(), ask{task: task, most: 1000, stream: stream, leave: fault == "unclosed"})
					time.Sleep(5 * time.Second)
					pool, _ := scarce(llmServer(form, server.Sliding))
					ours, _ := p.spent(t, "llm")
					theirs := s.Counts().Charged[pool]
					name := string(fault) + map[bool]string{false: "", true: " stream"}[stream]
					if fault == server.Nested { // what stands behind it is still read, or the estimate stands
						if ours[pool] < theirs || ours[pool] > 1200 {
							t.Errorf("%s: %d units in the ledger, %d at the server (%v)", name, ours[pool], theirs, err)
						}
						return
					}
					if ours[pool] < 1000 || ours[pool] > 1200 {
						t.Errorf("%s: %d units in the ledger, want the estimate; the SDK says %v", name, ours[pool], err)
					}
				})
			}
		}
	}
	if !t.Failed() {
		figures.note("cut, lost and unclosed answers, and JSON that lies: the estimate stands", "always")
	} else {
		figures.note("cut, lost and unclosed answers, and JSON that lies: the estimate stands", "NOT always")
	}
}
