package pages

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
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

// state is what a page shows, read once for it.
type state struct {
	*verdict.State
	src    view.Sources
	acts   bool            // whether people may act on the pages
	limits bool            // whether they may set limits of clients and budgets, too
	ours   map[string]bool // the names of jobs, also of those that ran

	spend    []quota.Spent // that windows count, by pool, hour, job and method
	since    time.Time     // of spend
	palettes *sync.Map     // of *palette, by the label that they colour; nil remembers none

	runs    []catalog.RunRecord // of the last 24 hours, the latest first
	partial bool                // whether the oldest runs are left out
	whole   bool                // whether there are no earlier runs
}

// colours returns the colours of the values of a label. Callers are coloured as jobs are.
func (s *state) colours(by grouping) *palette {
	if s.palettes == nil {
		return new(palette)
	}
	p, _ := s.palettes.LoadOrStore(by.dimension(), new(palette))
	return p.(*palette)
}

// blank returns the state for a page that reads neither the ledger nor the catalog.
func (b *Board) blank() *state {
	return &state{State: &verdict.State{Now: b.o.Clock.Now()}, src: b.sources()}
}

// read reads the ledger and the catalog. An error stays in the state, for the page to say.
func (b *Board) read(ctx context.Context) *state {
	src := b.sources()
	s := &state{State: b.o.Facts.Read(ctx, &src), src: src, acts: b.o.Operated(), ours: map[string]bool{}, palettes: &b.palettes}
	s.since = s.Now
	for _, j := range s.Jobs {
		s.ours[j.Name] = true
	}
	if s.Outage == nil {
		s.Outage = b.o.Facts.Within(ctx, s.readSpend)
	}
	if s.Unread == nil {
		s.Unread = b.o.Facts.Within(ctx, s.readRuns)
	}
	if s.Outage != nil {
		s.spend = s.spendOfRuns()
	}
	spenders := map[string]group{}
	for i := range s.spend {
		name, kind := s.spender(byJob, &s.spend[i].Labels)
		spenders[name] = group{name: name, kind: kind}
	}
	for _, name := range slices.Sorted(maps.Keys(spenders)) { // the same order after a restart, whatever page is read first
		s.colours(byJob).paint([]group{spenders[name]})
	}
	if s.Outage != nil || s.Stuck != nil || s.Unread != nil || s.Unkept != nil || s.Unseen != nil {
		partly(ctx)
	}
	if ctx.Err() == nil {
		for what, err := range map[string]error{"read the ledger": s.Outage, "write the ledger": s.Stuck, "read the catalog": s.Unread, "write the catalog": s.Unkept, "read the fleet": s.Unseen} {
			if err != nil {
				b.o.Log.Warn("a page shows less: cannot "+what, "error", err)
			}
		}
	}
	return s
}

// ask asks the ledger or the catalog a question, within the time that a page has for one.
func ask[T any](ctx context.Context, b *Board, question func(context.Context) (T, error)) (answer T, err error) {
	err = b.o.Facts.Within(ctx, func(ctx context.Context) error {
		answer, err = question(ctx)
		return err
	})
	return answer, err
}

// chart reads a chart.
func (b *Board) chart(ctx context.Context, s *state, region, category string) (view.Chart, error) {
	c, err := ask(ctx, b, func(ctx context.Context) (catalog.Chart, error) { return s.src.Catalog.Chart(ctx, region, category) })
	return view.OneChart(c, s.Now, s.MaxAge), err
}

// actions reads what people did on the pages.
func (b *Board) actions(ctx context.Context, s *state, most int) ([]catalog.Action, error) {
	return ask(ctx, b, func(ctx context.Context) ([]catalog.Action, error) { return s.src.Catalog.Actions(ctx, most) })
}

// readSpend reads who spent what of each upstream, from the start of the longest window that a card can show.
func (s *state) readSpend(ctx context.Context) error {
	if s.acts && (len(s.Book.Families) > 0 || s.Book.Upstreams[book.Budgets] != nil) {
		_, err := s.src.Ledger.Admin().KeyLimits(ctx, math.MaxInt64, 1)
		s.limits = err == nil // not every store keeps limits
	}
	since := map[string]time.Time{}
	for i := range s.Pools {
		u := &s.Pools[i]
		from, is := since[u.Pool.Upstream]
		if !is {
			from = s.Now.Add(-spendRead)
		}
		for k := range u.Allowances {
			if w := &u.Allowances[k]; !w.Spec.InFlight() && w.Used > 0 {
				from = earlier(from, startOf(w, s.Now))
			}
		}
		since[u.Pool.Upstream], s.since = from, earlier(from, s.since)
	}
	for _, upstream := range slices.Sorted(maps.Keys(since)) {
		spend, err := s.src.Ledger.View().Spend(ctx, quota.SpendQuery{Upstream: upstream, Since: since[upstream]}, quota.ByAccount, quota.ByHour, quota.ByJob, quota.ByMethod)
		if err != nil {
			return err
		}
		s.spend = append(s.spend, spend...)
	}
	return nil
}

// nameJobs learns which jobs ran since then, if an unknown name has spent units. The name may be
// that of a removed job, which is not a caller.
func (s *state) nameJobs(ctx context.Context, spend []quota.Spent, since time.Time) error {
	if !slices.ContainsFunc(spend, func(sp quota.Spent) bool {
		_, kind := s.spender(byJob, &sp.Labels)
		return kind == kindCaller
	}) {
		return nil
	}
	ran, err := s.src.Catalog.Spent(ctx, since.Add(-day)) // runs that began then, and may have taken long
	for name := range ran {
		s.ours[name] = true
	}
	return err
}

// at returns a time for a page, or nil for zero.
func (s *state) at(t time.Time) *moment {
	if t.IsZero() {
		return nil
	}
	m := s.Moment(t)
	return &m
}

func earlier(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }

// maxRuns bounds the runs of a page: more than one a minute.
const maxRuns = 2000

// readRuns reads the runs that did something within the last 24 hours, and names the jobs.
func (s *state) readRuns(ctx context.Context) error {
	if err := s.readDay(ctx); err != nil {
		return err
	}
	for _, name := range s.jobNames() {
		s.ours[name] = true
	}
	if !s.since.Before(s.Now.Add(-spendRead)) {
		return nil // the runs that were read name them
	}
	return s.nameJobs(ctx, s.spend, s.since)
}

func (s *state) readDay(ctx context.Context) error {
	const page = 100
	since := s.Now.Add(-day - slack)
	for before := int64(0); len(s.runs) < maxRuns; {
		all, err := s.src.Catalog.Runs(ctx, catalog.RunsQuery{Before: before, Limit: page})
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
			s.whole = past == 0
			return nil
		}
	}
	s.partial = true
	return nil
}

func (s *state) job(name string) *job {
	for _, j := range s.Jobs {
		if j.Name == name {
			return j
		}
	}
	return nil
}
