package plan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// scene is a configuration, the days to plan, and what happened before.
type scene struct {
	name    string
	seed    uint64
	config  *ingest.Config
	book    *quota.Book
	from    time.Time
	days    int
	failing string // a region
	before  func(*real)
}

// outcome is the part of a plan that must agree with the run.
type outcome struct {
	Units    map[string]int64 // by pool and day
	Deferred []string
	Behind   map[string]string
}

// TestPlanAgreesWithTheRun plans generated configurations and then runs them. The run keeps
// ledger and catalog in SQLite files. It calls its own simulated upstream over HTTP, which
// sends full responses.
func TestPlanAgreesWithTheRun(t *testing.T) {
	count := 10
	if soak() {
		count = 100
	}
	var deferred, behind atomic.Int64
	t.Run("seeds", func(t *testing.T) { // returns when all seeds have ended
		for i := range count {
			s := generate(t, i)
			t.Run(fmt.Sprintf("%d_%s", i, s.name), func(t *testing.T) {
				t.Parallel()
				r := newReal(t, s)
				if s.before != nil {
					s.before(r)
				}
				planned := outcomeOf(r.plan(s))
				ran := r.run(s)
				if diff := cmp.Diff(ran, planned); diff != "" {
					t.Errorf("seed %d: (-ran +planned)\n%s", s.seed, diff)
				}
				if refused := r.sim.Counts().Total().Refused; refused > 0 {
					t.Errorf("the upstream refused %d calls", refused)
				}
				deferred.Add(int64(len(ran.Deferred)))
				behind.Add(int64(len(ran.Behind)))
				t.Logf("%d pool-days, %d deferrals, %d behind", len(ran.Units), len(ran.Deferred), len(ran.Behind))
			})
		}
	})
	if deferred.Load() == 0 || behind.Load() == 0 {
		t.Error("nothing was deferred or behind, so nothing was shown")
	}
}

// soak reports whether this is a soak test, with full counts.
func soak() bool { return os.Getenv("HEADROOM_SOAK") == "1" }

// generate makes a configuration. Each of the first ten has a special case.
func generate(t *testing.T, i int) *scene {
	t.Helper()
	seed := uint64(i + 1)
	rnd := rand.New(rand.NewPCG(seed, 7))
	s := &scene{seed: seed, name: "random", days: 2, from: noon.Add(time.Duration(rnd.IntN(1440)) * time.Minute)}
	if soak() {
		s.days = 3
	}
	regions := []string{"US", "GB", "DE", "FR", "IN", "BR"}
	rnd.Shuffle(len(regions), func(i, j int) { regions[i], regions[j] = regions[j], regions[i] })
	c := &ingest.Config{Regions: regions[:2+rnd.IntN(3)], Jobs: map[string]ingest.Job{
		"trending": {Kind: ingest.Trending, Cron: pick(rnd, "15 * * * *", "0 */6 * * *", "30 9 * * *", "0 2 * * *"), Pages: 1 + rnd.IntN(4)},
		"stats":    {Kind: ingest.Stats, Cron: pick(rnd, "40 */12 * * *", "5 1 * * *")},
	}}
	if rnd.IntN(2) == 0 {
		c.Jobs["news"] = ingest.Job{Kind: ingest.Search, Cron: pick(rnd, "20 */4 * * *", "50 7 * * *"), Queries: []string{"music"}, Pages: 1 + rnd.IntN(2), Class: pick(rnd, "", "backfill")}
	}
	if rnd.IntN(3) == 0 {
		c.MaxWait = time.Hour
	}
	units := 8 + rnd.IntN(30)
	switch i % 10 {
	case 0:
		s.name, units = "deferral", 9
	case 1:
		s.name, s.from = "a day of 25 hours", time.Date(2026, 10, 31, 20, 0, 0, 0, time.UTC)
		c.Jobs["daily"] = ingest.Job{Kind: ingest.Trending, Cron: "30 1 * * *", Zone: "America/Los_Angeles", Pages: 2}
	case 2:
		s.name, s.from = "a day of 23 hours", time.Date(2027, 3, 13, 20, 0, 0, 0, time.UTC)
		c.Jobs["daily"] = ingest.Job{Kind: ingest.Trending, Cron: "30 2 * * *", Zone: "America/Los_Angeles", Pages: 2}
	case 3:
		s.name, s.failing, units = "a region that fails", c.Regions[0], 40
	case 4:
		s.name = "spend already there"
		s.before = func(r *real) { r.spend(rnd) }
	case 5:
		s.name, units = "the day after a day of runs", 12
		s.before = func(r *real) { r.daemon(s.from.Add(-27*time.Hour), s.from) }
	case 6:
		s.name = "what is old is fetched again"
		c.Jobs["retention"] = ingest.Job{Kind: ingest.Retention, Cron: "45 */6 * * *"}
		s.before = func(r *real) { r.daemon(s.from.Add(-27*24*time.Hour), s.from.Add(-26*24*time.Hour)) }
	case 7:
		s.name = "uploads"
		c.Jobs["uploads"] = ingest.Job{Kind: ingest.Uploads, Cron: "10 */3 * * *", Channels: []string{youtubesim.New(&youtubesim.Options{Seed: 1}).StandIn("any")}, Pages: 2}
	case 8:
		s.name = "budgets"
		j := c.Jobs["trending"]
		j.MaxUnits, j.Stagger = 3, 20*time.Second
		c.Jobs["trending"] = j
	}
	for _, fault := range c.Prepare() {
		t.Fatal(fault)
	}
	s.config, s.book = c, bookOf(t, units)
	return s
}

func pick(rnd *rand.Rand, all ...string) string { return all[rnd.IntN(len(all))] }

// bookOf returns the built-in book with a number of units and six searches a day.
func bookOf(t *testing.T, units int) *quota.Book {
	t.Helper()
	costs, err := book.Parse("costs.yaml", fmt.Appendf(nil, `
extends: builtin
revision: 2
upstreams: {youtube: {pools: {units: {quota: %d, headroom: 2}, searches: {quota: 6, headroom: 1}}}}
`, units+2), &book.Options{Builtins: headroom.ReadBuiltin})
	if err != nil {
		t.Fatal(err)
	}
	return costs
}

// outcomeOf returns the outcome of a plan.
func outcomeOf(p *plan.Plan) outcome {
	o := outcome{Units: map[string]int64{}, Behind: map[string]string{}}
	for _, pool := range p.Pools {
		for _, d := range pool.Days {
			if d.Units > 0 {
				o.Units[pool.Pool+" "+d.Day] = d.Units
			}
		}
	}
	for _, d := range p.Deferred {
		o.Deferred = append(o.Deferred, fmt.Sprintf("%s %s %s %s until %s, %d times", d.Job, d.Work, d.Pool, stamp(d.At), stamp(d.Until), d.Times))
	}
	slices.Sort(o.Deferred)
	for _, s := range p.Stale {
		o.Behind[s.Job+" "+s.Work] = fmt.Sprintf("%d s since %s, %d missed", s.Behind, stamp(s.Since), s.Missed)
	}
	return o
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// plan makes a plan that continues from the ledger and the catalog.
func (r *real) plan(s *scene) *plan.Plan {
	r.t.Helper()
	ctx := context.Background()
	o := &plan.Options{From: s.from, Days: s.days, Alone: true}
	if s.before != nil {
		r.known(ctx, s, o)
	}
	if s.failing != "" {
		o.Records = map[plan.Work]plan.Record{}
		for name, j := range s.config.Jobs {
			if j.Kind == ingest.Trending {
				o.Records[plan.Work{Job: name, Work: s.failing}] = plan.Record{Failing: true}
			}
		}
	}
	p, err := plan.Make(ctx, s.config, s.book, o)
	r.must(err)
	return p
}
