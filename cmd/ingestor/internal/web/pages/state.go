package pages

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// day is how much of the past a page shows. A window of 24h counts units a little longer
// than that, by its precision: slack adds as much to the runs that are read.
const (
	day   = 24 * time.Hour
	slack = 2 * time.Minute

	// spendRead is how far back spend is read by the hour: a day with its longest precision,
	// or one of 25 hours.
	spendRead = 26 * time.Hour
)

// state is the state of the ledger and the catalog, read once for a page.
type state struct {
	now    time.Time
	maxAge time.Duration
	acts   bool // whether people may act on the pages
	limits bool // whether they may set limits of clients, too
	fleet  bool // whether there is a fleet
	book   *quota.Book
	jobs   []*job
	ours   map[string]bool // the names of jobs, also of those that ran

	pools  []quota.Usage
	spend  []quota.Spent // that windows count, by pool, hour, job and method
	since  time.Time     // of spend
	outage error         // why the ledger could not be read
	counts view.CountState

	palettes *sync.Map // of *palette, by the label that they colour; nil remembers none

	feeds   []view.Feed
	runs    []catalog.RunRecord // of the last 24 hours, the latest first
	unread  error               // why the catalog could not be read
	partial bool                // whether the oldest runs are left out
}

// colours returns the colours of the values of a label. Callers are coloured as jobs are.
func (s *state) colours(by grouping) *palette {
	if s.palettes == nil {
		return new(palette)
	}
	if by == "caller" {
		by = byJob
	}
	p, _ := s.palettes.LoadOrStore(by, new(palette))
	return p.(*palette)
}

// blank returns the state for a page that reads neither the ledger nor the catalog.
func (b *Board) blank() *state {
	return &state{now: b.clock.Now(), fleet: b.sources().Fleet != nil}
}

// read reads the ledger and the catalog. An error stays in the state, for the page to say.
func (b *Board) read(ctx context.Context, src *view.Sources) *state {
	s := &state{now: b.clock.Now(), since: b.clock.Now(), maxAge: b.maxAge, acts: b.operated(), fleet: src.Fleet != nil, book: src.Ledger.Book(), ours: map[string]bool{}, palettes: &b.palettes}
	for _, j := range src.Jobs {
		s.jobs = append(s.jobs, s.newJob(j))
		s.ours[j.Name] = true
	}
	if src.Counting != nil {
		s.counts = src.Counting.State()
	}
	s.outage = b.withTimeout(ctx, func(ctx context.Context) error { return s.readLedger(ctx, src.Ledger) })
	s.unread = b.withTimeout(ctx, func(ctx context.Context) error { return s.readCatalog(ctx, src) })
	if s.outage != nil {
		s.pools, s.spend = s.poolsOfJobs(), s.spendOfRuns()
	}
	spenders := map[string]group{}
	for i := range s.spend {
		name, kind := s.spender(byJob, &s.spend[i].Labels)
		spenders[name] = group{name: name, kind: kind}
	}
	for _, name := range slices.Sorted(maps.Keys(spenders)) { // the same order after a restart, whatever page is read first
		s.colours(byJob).paint([]group{spenders[name]})
	}
	if s.outage != nil || s.unread != nil {
		partly(ctx)
	}
	if ctx.Err() == nil {
		if s.outage != nil {
			b.log.Warn("show the pools", "error", s.outage)
		}
		if s.unread != nil {
			b.log.Warn("show the catalog", "error", s.unread)
		}
	}
	return s
}

func (s *state) readLedger(ctx context.Context, l *quota.Ledger) (err error) {
	if s.pools, err = l.View().Usage(ctx, "", ""); err != nil {
		return err
	}
	if s.acts && len(s.book.Families) > 0 {
		_, err := l.Admin().KeyLimits(ctx, math.MaxInt64, 1)
		s.limits = err == nil // not every store keeps limits
	}
	// Of each upstream it is read from the start of the longest window that a card can show.
	since := map[string]time.Time{}
	for i := range s.pools {
		u := &s.pools[i]
		from, is := since[u.Pool.Upstream]
		if !is {
			from = s.now.Add(-spendRead)
		}
		for k := range u.Allowances {
			if w := &u.Allowances[k]; !w.Spec.InFlight() && w.Used > 0 {
				from = earlier(from, startOf(w, s.now))
			}
		}
		since[u.Pool.Upstream], s.since = from, earlier(from, s.since)
	}
	for _, upstream := range slices.Sorted(maps.Keys(since)) {
		spend, err := l.View().Spend(ctx, quota.SpendQuery{Upstream: upstream, Since: since[upstream]}, quota.ByAccount, quota.ByHour, quota.ByJob, quota.ByMethod)
		if err != nil {
			return err
		}
		s.spend = append(s.spend, spend...)
	}
	return nil
}

// nameJobs learns which jobs ran since then, if an unknown name has spent units. The name may be
// that of a removed job, which is not a caller.
func (s *state) nameJobs(ctx context.Context, c view.Catalog, spend []quota.Spent, since time.Time) error {
	if !slices.ContainsFunc(spend, func(sp quota.Spent) bool {
		_, kind := s.spender(byJob, &sp.Labels)
		return kind == kindCaller
	}) {
		return nil
	}
	ran, err := c.Spent(ctx, since.Add(-day)) // runs that began then, and may have taken long
	for name := range ran {
		s.ours[name] = true
	}
	return err
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (s *state) readCatalog(ctx context.Context, src *view.Sources) error {
	feeds, err := src.Catalog.Feeds(ctx)
	if err != nil {
		return fmt.Errorf("read the feeds: %w", err)
	}
	s.feeds = view.Feeds(feeds, src.Jobs, s.now, s.maxAge)
	if err := s.readRuns(ctx, src.Catalog); err != nil {
		return err
	}
	for _, j := range s.jobs {
		if err := j.read(ctx, src, s); err != nil {
			return err
		}
	}
	for _, name := range s.jobNames() {
		s.ours[name] = true
	}
	if !s.since.Before(s.now.Add(-spendRead)) {
		return nil // the runs that were read name them
	}
	return s.nameJobs(ctx, src.Catalog, s.spend, s.since)
}

// maxRuns bounds the runs of a page: more than one a minute.
const maxRuns = 2000

// history reads runs.
type history interface {
	Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error)
}

// readRuns reads the runs that did something within the last 24 hours.
func (s *state) readRuns(ctx context.Context, c history) error {
	const page = 100
	since := s.now.Add(-day - slack)
	for before := int64(0); len(s.runs) < maxRuns; {
		all, err := c.Runs(ctx, catalog.RunsQuery{Before: before, Limit: page})
		if err != nil {
			return fmt.Errorf("read the runs: %w", err)
		}
		past := 0
		for _, r := range view.Runs(all) {
			if before = r.ID; !r.EndedAt.IsZero() && r.EndedAt.Before(since) || r.EndedAt.IsZero() && r.StartedAt.Before(since) {
				past++
				continue
			}
			s.runs = append(s.runs, r)
		}
		if len(all) < page || past == len(all) {
			return nil
		}
	}
	s.partial = true
	return nil
}

// pool returns the usage of a pool, or nil if the price book has none of that name.
func (s *state) pool(name string) *quota.Usage {
	for i := range s.pools {
		if s.pools[i].Pool.String() == name {
			return &s.pools[i]
		}
	}
	return nil
}

// open reports whether a pool is known to be open.
func (s *state) open(name string) bool {
	u := s.pool(name)
	return u != nil && s.outage == nil && !u.Blocked.After(u.Now)
}

// job returns a configured job, or nil.
func (s *state) job(name string) *job {
	for _, j := range s.jobs {
		if j.Name == name {
			return j
		}
	}
	return nil
}
