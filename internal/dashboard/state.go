package dashboard

import (
	"context"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/view"
	"github.com/headroom-quota/headroom/quota"
)

// day is how much of the past is shown. A window of 24h forgets a little later, by its
// precision: what runs took is looked for that much longer.
const (
	day   = 24 * time.Hour
	slack = 2 * time.Minute
)

// state is what ledger and catalog say, read once for a page.
type state struct {
	now    time.Time
	maxAge time.Duration
	book   *quota.Book
	jobs   []*job

	pools  []quota.Usage
	spend  []quota.Spent // of the days that the last 24 hours touch, by pool, job and method
	outage error         // why there is nothing of the ledger

	feeds   []view.Feed
	runs    []catalog.RunRecord // of the last 24 hours, the latest first
	unread  error               // why there is nothing of the catalog
	partial bool                // there were more runs than are shown
}

// read asks ledger and catalog. What fails is kept as what is known: nothing.
func (b *Board) read(ctx context.Context, src *view.Sources) *state {
	s := &state{now: b.clock.Now(), maxAge: b.maxAge, book: src.Ledger.Book()}
	for _, j := range src.Jobs {
		s.jobs = append(s.jobs, s.newJob(j))
	}
	s.outage = b.within(ctx, func(ctx context.Context) error { return s.readLedger(ctx, src.Ledger) })
	s.unread = b.within(ctx, func(ctx context.Context) error { return s.readCatalog(ctx, src) })
	if s.outage != nil {
		s.pools, s.spend = s.fromBook(), nil
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
	if s.pools, err = l.Usage(ctx, "", ""); err != nil {
		return err
	}
	s.spend, err = l.Spend(ctx, quota.SpendQuery{Since: s.now.Add(-day)}, quota.ByAccount, quota.ByJob, quota.ByMethod)
	return err
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
	return nil
}

// mostRuns are read for a page: one a minute, and some.
const mostRuns = 2000

// history reads runs.
type history interface {
	Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error)
}

// readRuns reads the runs that did something within the last 24 hours.
func (s *state) readRuns(ctx context.Context, c history) error {
	const page = 100
	since := s.now.Add(-day - slack)
	for before := int64(0); len(s.runs) < mostRuns; {
		all, err := c.Runs(ctx, catalog.RunsQuery{Before: before, Limit: page})
		if err != nil {
			return fmt.Errorf("read the runs: %w", err)
		}
		past := 0
		for _, r := range all {
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

// pool returns how a pool stands, or nil.
func (s *state) pool(name string) *quota.Usage {
	for i := range s.pools {
		if s.pools[i].Pool.String() == name {
			return &s.pools[i]
		}
	}
	return nil
}

// open reports whether a pool is open, for all that is known.
func (s *state) open(name string) bool {
	u := s.pool(name)
	return u != nil && s.outage == nil && !u.Blocked.After(u.Now)
}

// units are what a run cost in all.
func units(r *catalog.RunRecord) (sum int64) {
	for _, w := range r.Work {
		sum += w.Units
	}
	return sum
}

// job returns a job of the configuration, or nil.
func (s *state) job(name string) *job {
	for _, j := range s.jobs {
		if j.Name == name {
			return j
		}
	}
	return nil
}
