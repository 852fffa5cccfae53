package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/googlecount"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
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
	if u == nil {
		return
	}
	nameMetrics(u)
	for _, pool := range u.Pools {
		if pool.Metric != "" && s.AdoptLimits {
			pool.LearnLimit = true
		}
	}
}

// nameMetrics gives the pools of a price book that names no metrics those of the built-in
// book: earlier books have none.
func nameMetrics(u *book.Upstream) {
	for _, pool := range u.Pools {
		if pool.Metric != "" {
			return
		}
	}
	builtin, err := headroom.Load("")
	if err != nil { // a test reads it
		return
	}
	for name, pool := range u.Pools {
		if known := builtin.Upstreams[metered].Pools[name]; known != nil {
			pool.Metric = known.Metric
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
	pools := map[string]*book.Pool{}
	for _, pool := range c.ledger.Book().Upstreams[metered].Pools {
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
		one := &counted{pool: quota.Pool{Upstream: metered, Account: account, Name: pool.Name}, project: r.Project(), count: count}
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

// record records the units of others, compares anew, and adopts the limit.
func (c *counts) record(ctx context.Context, one *counted, down bool) (err error) {
	if one.known() {
		if one.recorded, err = c.ledger.Reconcile(ctx, one.asked, down); err != nil {
			return uncountable(err)
		}
		if one.recorded != 0 { // what is shown is of one moment
			if one.Comparison, err = c.ledger.Compare(ctx, one.asked); err != nil {
				return err
			}
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

// counts reports whether the settings say how to read Google's own count.
func (s *settings) counts() bool {
	if s.Watch || s.GoogleProject != "" || s.GoogleCredentials != "" {
		return true
	}
	for _, own := range s.Accounts {
		if own.Project != "" {
			return true
		}
	}
	return false
}

// checkCounts reads Google's own count of each account, and compares it. It records nothing.
func (a *app) checkCounts(ctx context.Context, f *findings, s *settings, l *quota.Ledger) {
	const what = "google's count"
	c, err := a.newCounts(ctx, s, l)
	if err != nil {
		f.fault(what, err)
		return
	}
	for _, account := range slices.Sorted(maps.Keys(c.readers)) {
		all, strange, err := c.read(ctx, account, a.now())
		project := c.readers[account].Project()
		if err != nil {
			f.fault(what, fmt.Errorf("project %s: %w", project, err))
		}
		for _, one := range strange {
			f.warn(what, "project %s: Google counts %s, which no pool of the price book counts\nTo count it, give the pool its metric: %[2]s", project, plain(one.Metric))
		}
		if err == nil {
			f.ok(what, "project %s: it can be read, for %s", project, countedNames(all))
		}
	}
}

// countedNames lists the pools that Google counts.
func countedNames(all []*counted) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.pool.String()
	}
	return cmp.Or(strings.Join(names, ", "), "no pool")
}
