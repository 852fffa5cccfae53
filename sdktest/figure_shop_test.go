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

// leaky has a leaky bucket of 1,000 points that restores 50 a second.
func leaky(t *testing.T, figures *table) {
	synctest.Test(t, func(t *testing.T) {
		span := pick(3*time.Minute, 10*time.Minute)
		limit := server.Limit{Kind: server.Bucket, Quota: 50, Per: time.Second, Burst: 1000}
		s := server.NewGraphQL(limit, nil)
		n := newNetwork()
		addr := n.serve(t, s)
		fleet := newFleet(t, parse(t, shopBook, addr), 2, func() http.RoundTripper { return n.transport(t) })
		var granted int64
		load{callers: 16, span: span, call: func(ctx context.Context, p *process, r *rand.Rand) error {
			first := 10 + r.Int64N(90)
			_, err := shop{p.client, addr}.products(ctx, first, r.Int64N(first), (200*time.Millisecond + time.Duration(r.Int64N(int64(time.Second)))).String())
			return err
		}}.drive(t, fleet, func() { granted = s.Counts().Charged })
		time.Sleep(5 * time.Second)
		c := s.Counts()
		figures.zero(t, "graphql, leaky bucket: refusals", int64(c.Refused))
		figures.least(t, "graphql, leaky bucket: share of the oracle", float64(granted)/float64(limit.Oracle(span)), 0.9)
		ours, _ := fleet[0].spent(t, "shop")
		figures.zero(t, "graphql, leaky bucket: ledger less server", ours["points"]-c.Charged)
	})
}
