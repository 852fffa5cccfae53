// Package counting compares the ledger with Google's own count of the units.
package counting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/googlecount"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

const (
	// countTimeout bounds one reading of all series of a project.
	countTimeout = 30 * time.Second
	// countedService is the API whose units Google counts.
	countedService = "youtube.googleapis.com"
)

// pacific is the zone of Google's days.
var pacific = sync.OnceValues(func() (*time.Location, error) { return time.LoadLocation("America/Los_Angeles") })

// counts reads Google's own counts, and compares them with the ledger.
type counts struct {
	ledger  *quota.Ledger
	adopt   bool
	Readers map[string]*googlecount.Reader // by account
}

// NewCounts prepares to read the count of each account whose project is known.
func NewCounts(ctx context.Context, a *session.Session, s *settings.Settings, l *quota.Ledger) (*counts, error) {
	u := s.Book.Upstreams[settings.Metered]
	if u == nil {
		return nil, console.Config(fmt.Errorf("the price book has no upstream %s, and Google's own count is that of its units", settings.Metered))
	}
	c := &counts{ledger: l, adopt: s.AdoptLimits, Readers: map[string]*googlecount.Reader{}}
	projects := map[string]string{}
	for name, own := range s.Accounts {
		if own.Project != "" {
			projects[name] = own.Project
		}
	}
	if _, has := projects[quota.DefaultAccount]; !has && slices.Contains(u.Accounts, quota.DefaultAccount) && (s.GoogleProject != "" || len(projects) == 0) {
		projects[quota.DefaultAccount] = s.GoogleProject
	}
	if _, has := projects[quota.DefaultAccount]; !has && slices.Contains(u.Accounts, quota.DefaultAccount) {
		a.Log.Warn("the account default is not compared with Google's own count; set google_project to its project")
	}
	for account, project := range projects {
		r, err := googlecount.Open(ctx, &googlecount.Options{
			Project: project, Credentials: s.GoogleCredentials, Endpoint: s.MonitoringEndpoint, Service: countedService,
		})
		if err != nil {
			return nil, err
		}
		c.Readers[account] = r
	}
	return c, nil
}

// Counted is Google's own count of a pool, beside that of the ledger.
type Counted struct {
	Pool    quota.Pool
	Project string
	Count   googlecount.Count
	Asked   quota.UpstreamCount
	quota.Comparison
	Quota    int64 // of the price book
	Recorded int64
}

// HasCount reports whether Google has counted anything today.
func (c *Counted) HasCount() bool { return !c.Count.Until.IsZero() }

// Today returns when Google's present day began and when it ends.
func Today(now time.Time) (began, ends time.Time, err error) {
	zone, err := pacific()
	if err != nil {
		return began, ends, err
	}
	y, m, d := now.In(zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, d+1, 0, 0, 0, 0, zone), nil
}

// Read reads the count of an account, and compares it. Strange are metrics of units that no
// pool of the price book counts.
func (c *counts) Read(ctx context.Context, account string, now time.Time) (all []*Counted, strange []googlecount.Count, err error) {
	began, _, err := Today(now)
	if err != nil {
		return nil, nil, err
	}
	within, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	r := c.Readers[account]
	found, err := r.Read(within, began, now)
	if err != nil {
		return nil, nil, err
	}
	pools := map[string]*book.Pool{}
	for _, pool := range c.ledger.Book().Upstreams[settings.Metered].Pools {
		pools[pool.Metric] = pool
	}
	for _, count := range found {
		pool := pools[count.Metric]
		if pool == nil {
			if count.Units > 0 {
				strange = append(strange, count)
			}
			continue
		}
		one := &Counted{Pool: quota.Pool{Upstream: settings.Metered, Account: account, Name: pool.Name}, Project: r.Project(), Count: count}
		windows := pool.Windows
		if own, has := pool.Accounts[account]; has {
			windows = own
		}
		for _, w := range windows {
			one.Quota = max(one.Quota, w.Quota)
		}
		one.Asked = quota.UpstreamCount{Pool: one.Pool, Units: count.Units, From: began, Until: count.Until}
		if !one.HasCount() { // ours are told all the same
			one.Asked.Until = now
		}
		compared, failed := c.ledger.View().Compare(ctx, one.Asked)
		if failed != nil { // the other pools count all the same
			err = errors.Join(err, uncountable(failed))
			continue
		}
		one.Comparison = compared
		if !one.HasCount() { // there is nothing to compare with
			one.Late, one.Missing = 0, 0
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *Counted) int { return cmp.Compare(a.Pool.String(), b.Pool.String()) })
	return all, strange, err
}

// uncountable adds what to do about a pool that does not count Google's days.
func uncountable(err error) error {
	if errors.Is(err, quota.ErrBadInput) {
		return fmt.Errorf("%w\nGoogle counts days of California: give the pool the window {per: day, zone: America/Los_Angeles}", err)
	}
	return err
}

// Record records the units of others, compares anew, and adopts the limit.
func (c *counts) Record(ctx context.Context, one *Counted, down bool) (err error) {
	if one.HasCount() {
		if one.Recorded, err = c.ledger.Admin().Reconcile(ctx, one.Asked, down); err != nil {
			return uncountable(err)
		}
		if one.Recorded != 0 { // what is shown is of one moment
			if one.Comparison, err = c.ledger.View().Compare(ctx, one.Asked); err != nil {
				return err
			}
		}
	}
	if !c.adopt || one.Count.Limit <= 0 {
		return nil
	}
	_, ends, err := Today(one.Asked.From)
	if err != nil {
		return err
	}
	_, err = c.ledger.Observe(ctx, quota.Observation{Pool: one.Pool, Per: 24 * time.Hour, Limit: one.Count.Limit, Reset: ends})
	return err
}

// Round reads and records the counts of all accounts once. The fault of one does not keep
// the others.
func (c *counts) Round(ctx context.Context, now time.Time) (all []*Counted, err error) {
	for _, account := range slices.Sorted(maps.Keys(c.Readers)) {
		some, _, failed := c.Read(ctx, account, now)
		for _, one := range some {
			failed = errors.Join(failed, c.Record(ctx, one, false))
		}
		all, err = append(all, some...), errors.Join(err, failed)
	}
	return all, err
}

// watcher compares the ledger with Google's own count again and again.
type watcher struct {
	every time.Duration
	round func(context.Context) ([]*Counted, error)
	log   *slog.Logger
	clock func() time.Time
	tells *view.Counting // gets the outcome of each round

	failed string               // the last error that was logged
	limits map[quota.Pool]int64 // that were logged
}

// WatchCounts begins to watch, if the settings say so. A setting that cannot work is an error at once.
func WatchCounts(ctx context.Context, a *session.Session, s *settings.Settings, l *quota.Ledger, done *console.Closers) error {
	w, err := newWatcher(ctx, a, s, l)
	if w == nil || err != nil {
		return err
	}
	done.Go(ctx, w.run)
	return nil
}

// CountOnce compares once before runs that do not stay.
func CountOnce(ctx context.Context, a *session.Session, s *settings.Settings, l *quota.Ledger) error {
	w, err := newWatcher(ctx, a, s, l)
	if w != nil && err == nil {
		w.once(ctx)
	}
	return err
}

func newWatcher(ctx context.Context, a *session.Session, s *settings.Settings, l *quota.Ledger) (*watcher, error) {
	if !s.Watch {
		return nil, nil
	}
	c, err := NewCounts(ctx, a, s, l)
	if err != nil {
		return nil, err
	}
	return &watcher{
		every: s.WatchEvery, log: a.Log, clock: a.Now, tells: &a.Counting,
		round: func(ctx context.Context) ([]*Counted, error) { return c.Round(ctx, a.Now()) },
	}, nil
}

func (w *watcher) run(ctx context.Context) {
	for {
		w.once(ctx)
		if (quota.SystemClock{}).Sleep(ctx, w.every) != nil {
			return
		}
	}
}

// once compares once. It logs an error when it is news, and each limit once.
func (w *watcher) once(ctx context.Context) {
	all, err := w.round(ctx)
	if ctx.Err() != nil {
		return
	}
	w.tells.Counted(w.clock(), err)
	switch {
	case err != nil && err.Error() != w.failed:
		w.failed = err.Error()
		w.log.Warn("Google's own count cannot be read", "error", err, "again_in", console.Span(w.every))
	case err == nil && w.failed != "":
		w.failed = ""
		w.log.Info("Google's own count can be read again")
	}
	for _, one := range all {
		if limit := one.Count.Limit; one.Count.Limited && limit != one.Quota && w.limits[one.Pool] != limit {
			if w.limits == nil {
				w.limits = map[quota.Pool]int64{}
			}
			w.limits[one.Pool] = limit
			w.log.Warn("Google reports another limit than the price book", "pool", one.Pool.String(), "limit", limit, "quota", one.Quota)
		}
	}
}
