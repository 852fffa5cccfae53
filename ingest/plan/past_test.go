package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// TestReadPast: ReadPast finds the spend of a ledger.
func TestReadPast(t *testing.T) {
	const both, day, month = "{per: 24h}, {per: day, zone: America/Los_Angeles}", "{per: day, zone: America/Los_Angeles}", "{per: day, zone: UTC}, {per: month, zone: UTC}"
	type spent map[time.Duration]int64 // ago
	for name, tt := range map[string]struct {
		windows string
		spent   spent
		blind   bool // the store's clock cannot be moved
		want    spent
	}{
		"nothing":                           {windows: both},
		"each minute that counts":           {both, spent{30 * time.Hour: 7, 20 * time.Hour: 5, time.Hour: 3}, false, spent{20 * time.Hour: 5, time.Hour: 3}},
		"now":                               {both, spent{0: 4}, false, spent{0: 4}},
		"without a sliding window":          {day, spent{20 * time.Hour: 5, time.Hour: 3}, false, spent{0: 3}},
		"a month":                           {month, spent{10 * 24 * time.Hour: 5, time.Hour: 3}, false, spent{20*time.Hour + 2*time.Minute: 5, 0: 3}},
		"what comes back next, and no more": {both, spent{20 * time.Hour: 5, time.Hour: 24}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams: {youtube: {pools: {units: {quota: 100, windows: [`+tt.windows+`]}}, methods: {videos.list: 1, search.list: 1}}}
`), &book.Options{Builtins: headroom.ReadBuiltin})
			if err != nil {
				t.Fatal(err)
			}
			clock := quota.NewSimClock(noon)
			l, err := quota.New(costs, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			pool := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
			for ago := 300 * time.Hour; ago >= 0; ago -= time.Hour {
				clock.Set(noon.Add(-ago))
				if units := tt.spent[ago]; units > 0 {
					if _, err := l.Admin().Adjust(t.Context(), pool, units, "x"); err != nil {
						t.Fatal(err)
					}
				}
			}
			moved := clock
			if tt.blind {
				moved = nil
			}
			past, err := plan.ReadPast(t.Context(), l, moved)
			if err != nil {
				t.Fatal(err)
			}
			if !clock.Now().Equal(noon) {
				t.Errorf("the clock stands at %s afterwards", clock.Now())
			}
			got, sum, late := spent{}, int64(0), int64(0)
			for _, s := range past.Spent {
				if noon.Sub(s.At) <= time.Minute { // at the end of their hour, or they come back too early
					late += s.Units
				}
				got[noon.Sub(s.At).Round(2*time.Minute)] += s.Units
				sum += s.Units
			}
			if tt.blind {
				if sum != 29 || late != 24 {
					t.Errorf("%d units are found, %d of them at the end of their hour; want 29 and 24: %v", sum, late, got)
				}
				return
			}
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLimitsOfThePast: a limit that a person has set holds in the plan until it ends.
func TestLimitsOfThePast(t *testing.T) {
	costs, err := book.Parse("costs.yaml", []byte("extends: builtin\nrevision: 2\nupstreams: {youtube: {pools: {units: {quota: 1000, headroom: 0}}}}\n"), &book.Options{Builtins: headroom.ReadBuiltin})
	if err != nil {
		t.Fatal(err)
	}
	config := &ingest.Config{Regions: []string{"US"}, Jobs: map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "@hourly", Pages: 2}}}
	if faults := config.Prepare(); len(faults) > 0 {
		t.Fatal(faults)
	}
	for name, c := range map[string]struct {
		limit  int64
		until  time.Duration // 0: it does not end
		fits   bool
		window string
	}{"none": {0, 0, true, ""}, "low": {10, 0, false, ""}, "ended": {10, time.Minute, true, ""}, "enough": {500, 0, true, ""}, "of a short window": {10, 0, true, " 10m0s"}} {
		t.Run(name, func(t *testing.T) {
			clock := quota.NewSimClock(noon)
			l, err := quota.New(costs, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			if c.limit > 0 {
				k := quota.KeyLimit{Family: quota.LimitsOfUpstream + "youtube", Key: "units" + c.window, Quota: c.limit, By: "anna", Reason: "the console"}
				if c.until > 0 {
					k.Until = noon.Add(c.until)
				}
				if _, err := l.Admin().SetLimit(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
			past, err := plan.ReadPast(t.Context(), l, clock)
			if err != nil {
				t.Fatal(err)
			}
			p, err := plan.Make(t.Context(), config, costs, &plan.Options{From: noon, Days: 1, Past: past})
			if err != nil {
				t.Fatal(err)
			}
			want := int64(1000)
			if c.limit > 0 && c.window == "" {
				want = c.limit
			}
			if p.Fits != c.fits || p.Pools[0].Limit != want {
				t.Errorf("fits %v, limit %d: want %v and %d", p.Fits, p.Pools[0].Limit, c.fits, want)
			}
		})
	}
}
