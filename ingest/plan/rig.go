package plan

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

type rig struct {
	clock  *quota.SimClock
	sim    *youtubesim.Sim
	ledger *quota.Ledger
	sketch *Sketch
	runner *ingest.Runner

	upstreams []string         // that the jobs may call
	charged   youtubesim.Count // calls of earlier spend
	began     []quota.Usage    // when the plan begins
}

// limit returns the lowest limit of a pool's windows of at least a length when the plan begins, or 0 if it has none.
func (r *rig) limit(pool quota.Pool, span time.Duration) (limit int64) {
	i := slices.IndexFunc(r.began, func(u quota.Usage) bool { return u.Pool == pool })
	if i < 0 { // of an account that the price book does not list
		for _, w := range r.ledger.Book().Upstreams[pool.Upstream].Pools[pool.Name].WindowsFor(pool.Account) {
			if l := w.Limit(book.Class{}); w.Span() >= span && (limit == 0 || l < limit) {
				limit = l
			}
		}
		return limit
	}
	for _, w := range r.began[i].Allowances {
		if w.Spec.Span() >= span && (limit == 0 || w.Limit < limit) {
			limit = w.Limit
		}
	}
	return limit
}

// seed makes every simulated upstream the same.
const seed = 1

func newRig(ctx context.Context, s *scenario, costs *quota.Book, clock *quota.SimClock) (*rig, error) {
	r := &rig{clock: clock, sketch: NewSketch(clock)}
	observe := func(e quota.Event) {
		if e.Kind == quota.EventRefused || e.Kind == quota.EventBlocked {
			s.refused()
		}
	}
	var err error
	if s.options.History != nil {
		if r.sketch, err = ReadSketch(ctx, s.options.History, s.config.List(), clock); err != nil {
			return nil, err
		}
	}
	if r.ledger, err = quota.New(costs, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock, Observer: quota.ObserverFunc(observe)}); err != nil {
		return nil, err
	}
	for _, j := range s.config.List() {
		r.upstreams = append(r.upstreams, j.MayCall(costs)...)
	}
	if slices.ContainsFunc(r.upstreams, func(name string) bool { return costs.Upstreams[name] != nil && len(costs.Upstreams[name].Budgets) > 0 }) {
		r.upstreams = append(r.upstreams, book.Budgets)
	}
	slices.Sort(r.upstreams)
	r.upstreams = slices.Compact(r.upstreams)
	quiet := slog.New(slog.DiscardHandler)
	simulated, keys := simulate(costs.Upstreams[upstream])
	simulated.Seed, simulated.Clock, simulated.Faults = seed, clock.Now, []youtubesim.Fault{failing}
	r.sim = youtubesim.New(simulated)
	if err := s.spend(ctx, r); err != nil {
		return nil, err
	}
	if err := s.limit(ctx, r); err != nil {
		return nil, err
	}
	if r.began, err = r.ledger.View().Usage(ctx, "", ""); err != nil {
		return nil, err
	}
	r.charged = r.sim.Counts().Total()
	metered, err := meter.New(r.ledger, &meter.Options{Base: &transport{sim: r.sim, clock: clock}, Keys: keys, Logger: quiet})
	if err != nil {
		return nil, err
	}
	client, err := youtube.New(&http.Client{Transport: metered}, nil)
	if err != nil {
		return nil, err
	}
	u := &rehearsed{client: client, sim: r.sim, records: s.options.Records}
	c := *s.config
	c.Workers = 1
	r.runner = ingest.NewRunner(&c, r.ledger, r.sketch, u, unlocked{}, &ingest.Options{
		Program: func(ctx, _ context.Context, j *ingest.Job) error { return s.spendOf(j, costs).by(ctx, r, j, c.MaxWait) },
		Clock:   clock, Log: quiet, Jitter: func(time.Duration) time.Duration { return 0 },
	})
	return r, nil
}

// simulate returns the options of a simulated upstream with the quotas of a price book, and
// a key for each account.
func simulate(u *book.Upstream) (*youtubesim.Options, map[string]meter.KeySource) {
	o := &youtubesim.Options{Projects: map[string]youtubesim.Quota{}, Keys: map[string]youtubesim.Key{}}
	if u == nil { // only programs run, and call others
		return o, nil
	}
	if onlyPool(u, "search.list") != "" && onlyPool(u, "search.list") == onlyPool(u, "videos.list") {
		o.Generation = youtubesim.OnePool
	}
	keys := map[string]meter.KeySource{}
	accounts := u.Accounts
	if len(accounts) == 0 {
		accounts = []string{quota.DefaultAccount}
	}
	for _, account := range accounts {
		name := upstream
		if account != quota.DefaultAccount {
			name += "@" + account
		}
		keys[name] = meter.Key(keyOf(account))
		o.Keys[keyOf(account)] = youtubesim.Key{Project: account}
		granted := youtubesim.Quota{}
		for pool, method := range simulatedPools {
			if calls, ok := grants(u, account, method.name); ok {
				granted[pool] = calls
			}
		}
		o.Projects[account] = granted
	}
	return o, keys
}

func keyOf(account string) string { return "the-key-of-" + account }

// simulatedPools are the pools of the simulated upstream, each with a method that it
// charges.
var simulatedPools = map[youtubesim.Pool]struct{ name, path string }{
	youtubesim.Default:            {"videos.list", "/youtube/v3/videos"},
	youtubesim.SearchList:         {"search.list", "/youtube/v3/search"},
	youtubesim.VideoBatchGetStats: {"videos.batchGetStats", "/youtube/v3/videos:batchGetStats"},
}

// onlyPool returns the pool of a method, or "" if the method is charged to several.
func onlyPool(u *book.Upstream, method string) string {
	m := u.Methods[method]
	if m == nil || len(m.Charges) != 1 {
		return ""
	}
	for pool := range m.Charges {
		return pool
	}
	return ""
}

// grants returns the number of calls of a method that a day's quota pays for.
func grants(u *book.Upstream, account, method string) (calls int64, ok bool) {
	m := u.Methods[method]
	if m == nil {
		return 0, false
	}
	for pool, units := range m.Charges {
		if units == 0 {
			continue
		}
		for _, w := range u.Pools[pool].WindowsFor(account) {
			if w.Span() < day || w.Span() > 2*day {
				continue
			}
			if n := w.Quota / units; !ok || n < calls {
				calls, ok = n, true
			}
		}
	}
	return calls, ok
}

const day = 24 * time.Hour

// unlocked is a lock that does nothing, because no one else runs the jobs of a plan.
type unlocked struct{}

func (unlocked) Lock(context.Context, string) (lease.Lock, error) { return unlocked{}, nil }
func (unlocked) Token() int64                                     { return 0 }
func (unlocked) Lost() <-chan struct{}                            { return nil }
func (unlocked) Unlock() error                                    { return nil }
