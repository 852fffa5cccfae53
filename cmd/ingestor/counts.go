package main

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

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/googlecount"
	"github.com/headroom-quota/headroom/quota"
)

// Reconciling are the settings about Google's own count. The name is exported because the
// decoders want that of an embedded type.
type Reconciling struct {
	GoogleProject      string        `yaml:"google_project,omitempty" restart:"yes" flag:"'id' of the Google project whose units are counted" jsonschema_description:"The Google project of the API key, for ingestor reconcile and watch. Empty is the project of the credentials."`
	GoogleCredentials  string        `yaml:"google_credentials,omitempty" restart:"yes" flag:"'file' of the service account that may read Google's own count" jsonschema_description:"A file with the key of a service account that has the role roles/monitoring.viewer. Empty means the default credentials of the environment."`
	Watch              bool          `yaml:"watch,omitempty" restart:"yes" flag:"compare the ledger with Google's own count every few minutes" jsonschema_description:"Compare the ledger with Google's own count every few minutes in ingestor run and serve, and record the units of others."`
	WatchEvery         time.Duration `yaml:"watch_every,omitempty" restart:"yes" zero:"no" jsonschema_description:"How often watch asks for Google's own count."`
	AdoptLimits        bool          `yaml:"adopt_limits,omitempty" restart:"yes" flag:"use the limits that Google reports, also those above the price book" jsonschema_description:"Use the limits of a day that Google reports in place of the quotas of the price book, also larger ones. Without it they are shown only."`
	MonitoringEndpoint string        `yaml:"monitoring_endpoint,omitempty" restart:"yes" jsonschema_description:"Another address of Cloud Monitoring, such as that of a proxy."`
}

const (
	// watchEvery is how often Google's own count is read. It comes about seven minutes late.
	watchEvery = 3 * time.Minute
	// countTimeout bounds one reading of all series of a project.
	countTimeout = 30 * time.Second
	// countedService is the API whose units Google counts.
	countedService = "youtube.googleapis.com"
)

// countedPools are the pools of the price book, by the metric that Google counts.
var countedPools = map[string]string{
	countedService + "/default":               "units",
	countedService + "/search_list":           "searches",
	countedService + "/video_insert":          "uploads",
	countedService + "/video_batch_get_stats": "batch_stats",
}

// pacific is the zone of Google's days.
var pacific = sync.OnceValues(func() (*time.Location, error) { return time.LoadLocation("America/Los_Angeles") })

// checkWatch checks the settings about Google's own count.
func (s *settings) checkWatch() (faults []ingest.Fault) {
	if s.WatchEvery < time.Minute || s.WatchEvery > 12*time.Hour {
		faults = append(faults, ingest.Fault{Path: "watch_every", Err: errors.New("it must be 1m to 12h: Google counts by the minute")})
	}
	return faults
}

// learnLimits makes the price book adopt larger limits, too, if the settings say so.
func (s *settings) learnLimits() {
	u := s.book.Upstreams[metered]
	if !s.AdoptLimits || u == nil {
		return
	}
	for _, name := range countedPools {
		if pool := u.Pools[name]; pool != nil {
			pool.LearnLimit = true
		}
	}
}

// counts reads Google's own counts, and compares them with the ledger.
type counts struct {
	ledger  *quota.Ledger
	adopt   bool
	readers map[string]*googlecount.Reader // by account
}

// newCounts prepares to read the count of each account whose project is known.
func (a *app) newCounts(ctx context.Context, s *settings, l *quota.Ledger) (*counts, error) {
	u := s.book.Upstreams[metered]
	if u == nil {
		return nil, config(fmt.Errorf("the price book has no upstream %s, and Google's own count is that of its units", metered))
	}
	c := &counts{ledger: l, adopt: s.AdoptLimits, readers: map[string]*googlecount.Reader{}}
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
		a.log.Warn("the account default is not compared with Google's own count; set google_project to its project")
	}
	for account, project := range projects {
		r, err := googlecount.Open(ctx, &googlecount.Options{
			Project: project, Credentials: s.GoogleCredentials, Endpoint: s.MonitoringEndpoint, Service: countedService,
		})
		if err != nil {
			return nil, err
		}
		c.readers[account] = r
	}
	return c, nil
}

// counted is Google's own count of a pool, beside that of the ledger.
type counted struct {
	pool    quota.Pool
	project string
	count   googlecount.Count
	asked   quota.UpstreamCount
	quota.Comparison
	quota    int64 // of the price book
	recorded int64
}

// known reports whether Google has counted anything today.
func (c *counted) known() bool { return !c.count.Until.IsZero() }

// today returns when Google's present day began and when it ends.
func today(now time.Time) (began, ends time.Time, err error) {
	zone, err := pacific()
	if err != nil {
		return began, ends, err
	}
	y, m, d := now.In(zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, d+1, 0, 0, 0, 0, zone), nil
}

// read reads the count of an account, and compares it. Strange are metrics of units that no
// pool of the price book counts.
func (c *counts) read(ctx context.Context, account string, now time.Time) (all []*counted, strange []googlecount.Count, err error) {
	began, _, err := today(now)
	if err != nil {
		return nil, nil, err
	}
	within, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	r := c.readers[account]
	found, err := r.Read(within, began, now)
	if err != nil {
		return nil, nil, err
	}
	pools := c.ledger.Book().Upstreams[metered].Pools
	for _, count := range found {
		name := countedPools[count.Metric]
		pool := pools[name]
		if pool == nil {
			if count.Units > 0 {
				strange = append(strange, count)
			}
			continue
		}
		one := &counted{pool: quota.Pool{Upstream: metered, Account: account, Name: name}, project: r.Project(), count: count}
		windows := pool.Windows
		if own, has := pool.Accounts[account]; has {
			windows = own
		}
		for _, w := range windows {
			one.quota = max(one.quota, w.Quota)
		}
		one.asked = quota.UpstreamCount{Pool: one.pool, Units: count.Units, From: began, Until: count.Until}
		if !one.known() { // ours are told all the same
			one.asked.Until = now
		}
		compared, failed := c.ledger.Compare(ctx, one.asked)
		if failed != nil { // the other pools count all the same
			err = errors.Join(err, uncountable(failed))
			continue
		}
		one.Comparison = compared
		if !one.known() { // there is nothing to compare with
			one.Late, one.Missing = 0, 0
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *counted) int { return cmp.Compare(a.pool.String(), b.pool.String()) })
	return all, strange, err
}

// uncountable adds what to do about a pool that does not count Google's days.
func uncountable(err error) error {
	if errors.Is(err, quota.ErrBadInput) {
		return fmt.Errorf("%w\nGoogle counts days of California: give the pool the window {per: day, zone: America/Los_Angeles}", err)
	}
	return err
}

// record records the units of others, and adopts the limit.
func (c *counts) record(ctx context.Context, one *counted, down bool) (err error) {
	if one.known() {
		if one.recorded, err = c.ledger.Reconcile(ctx, one.asked, down); err != nil {
			return uncountable(err)
		}
	}
	if !c.adopt || one.count.Limit <= 0 {
		return nil
	}
	_, ends, err := today(one.asked.From)
	if err != nil {
		return err
	}
	_, err = c.ledger.Observe(ctx, quota.Observation{Pool: one.pool, Per: 24 * time.Hour, Limit: one.count.Limit, Reset: ends})
	return err
}

// round reads and records the counts of all accounts once. The fault of one does not keep
// the others.
func (c *counts) round(ctx context.Context, now time.Time) (all []*counted, err error) {
	for _, account := range slices.Sorted(maps.Keys(c.readers)) {
		some, _, failed := c.read(ctx, account, now)
		for _, one := range some {
			failed = errors.Join(failed, c.record(ctx, one, false))
		}
		all, err = append(all, some...), errors.Join(err, failed)
	}
	return all, err
}

// watcher compares the ledger with Google's own count again and again.
type watcher struct {
	every time.Duration
	round func(context.Context) ([]*counted, error)
	log   *slog.Logger

	failed string               // the last error that was logged
	limits map[quota.Pool]int64 // that were logged
}

// watchCounts begins to watch, if the settings say so. What cannot work is told at once.
func (a *app) watchCounts(ctx context.Context, s *settings, l *quota.Ledger, done *closers) error {
	w, err := a.newWatcher(ctx, s, l)
	if w == nil || err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx)
	}()
	done.add(func() error { stop(); <-ended; return nil })
	return nil
}

// countOnce compares once before runs that do not stay.
func (a *app) countOnce(ctx context.Context, s *settings, l *quota.Ledger) error {
	w, err := a.newWatcher(ctx, s, l)
	if w != nil && err == nil {
		w.once(ctx)
	}
	return err
}

func (a *app) newWatcher(ctx context.Context, s *settings, l *quota.Ledger) (*watcher, error) {
	if !s.Watch {
		return nil, nil
	}
	c, err := a.newCounts(ctx, s, l)
	if err != nil {
		return nil, err
	}
	return &watcher{every: s.WatchEvery, log: a.log, round: func(ctx context.Context) ([]*counted, error) { return c.round(ctx, a.now()) }}, nil
}

func (w *watcher) run(ctx context.Context) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		w.once(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// once compares once. It logs an error when it is news, and each limit once.
func (w *watcher) once(ctx context.Context) {
	all, err := w.round(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && err.Error() != w.failed:
		w.failed = err.Error()
		w.log.Warn("Google's own count cannot be read", "error", err, "again_in", span(w.every))
	case err == nil && w.failed != "":
		w.failed = ""
		w.log.Info("Google's own count can be read again")
	}
	for _, one := range all {
		if limit := one.count.Limit; one.count.Limited && limit != one.quota && w.limits[one.pool] != limit {
			if w.limits == nil {
				w.limits = map[quota.Pool]int64{}
			}
			w.limits[one.pool] = limit
			w.log.Warn("Google reports another limit than the price book", "pool", one.pool.String(), "limit", limit, "quota", one.quota)
		}
	}
}
