package sdktest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/server"
)

const secondBook = `
revision: 1
upstreams:
  api:
    hosts: [HOST]
    pools: {requests: {quota: 20, windows: [{per: 1s}]}}
    methods: {messages: {route: POST /v1/messages, charge: {requests: 1}}}
`

// shortWindows has servers that grant 20 calls a second.
func shortWindows(t *testing.T, figures *table) {
	for _, kind := range []server.Kind{server.Fixed, server.Sliding} {
		synctest.Test(t, func(t *testing.T) {
			span := pick(30*time.Second, 10*time.Minute)
			limit := server.Limit{Kind: kind, Quota: 20, Per: time.Second, Phase: 300 * time.Millisecond}
			s := server.NewLLM(server.LLMOptions{Form: server.Anthropic, Requests: limit})
			n := newNetwork()
			addr := n.serve(t, s)
			fleet := newFleet(t, parse(t, secondBook, addr), 2, func() http.RoundTripper { return n.transport(t) })
			var granted int64
			load{callers: 32, span: span, call: func(ctx context.Context, p *process, r *rand.Rand) error {
				task := server.Task{Output: 10, Latency: 200*time.Millisecond + time.Duration(r.Int64N(int64(300*time.Millisecond)))}
				_, err := newModel(server.Anthropic, p.client, addr).ask(ctx, ask{task: task, most: 20})
				return err
			}}.drive(t, fleet, func() { granted = s.Counts().Charged["requests"] })
			c := s.Counts()
			name := "{per: 1s}, " + kind.String() + " windows: "
			figures.zero(t, name+"refusals", int64(c.Refused))
			figures.least(t, name+"share of the quota", float64(granted)/float64(limit.Oracle(span)), 0.9)
			ours, _ := fleet[0].spent(t, "api")
			figures.zero(t, name+"ledger less server", ours["requests"]-c.Charged["requests"])
		})
	}
}
