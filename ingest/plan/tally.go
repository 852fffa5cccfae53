package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// Pool is the planned spend of a pool.
type Pool struct {
	Pool  string `json:"pool"`
	Zone  string `json:"zone"`  // of the days
	Limit int64  `json:"limit"` // of a day; 0 if no window is that long
	Days  []Day  `json:"days"`
}

// Day is the planned spend of a pool on a day of its calendar.
type Day struct {
	Day      string           `json:"day"`
	Hours    float64          `json:"hours"`  // 23, 24 or 25, or the rest of the first day
	Before   int64            `json:"before"` // spent before the plan begins
	Units    int64            `json:"units"`  // spent by the plan
	Left     int64            `json:"left"`   // the lowest number during the day
	Jobs     map[string]int64 `json:"jobs"`
	Deferred int              `json:"deferred"` // number of times that work was deferred
}

// Deferral is work that has to wait for units.
type Deferral struct {
	At     time.Time `json:"at"`
	Job    string    `json:"job"`
	Work   string    `json:"work"`
	Region string    `json:"region,omitempty"`
	Pool   string    `json:"pool"`
	Window string    `json:"window,omitempty"`
	// Blocked says that a block of the pool defers it, not a lack of units.
	Blocked bool      `json:"blocked,omitempty"`
	Until   time.Time `json:"until"`
}

// Why returns the reason in words: the pool has no units, or is blocked.
func (d *Deferral) Why() string {
	if d.Blocked {
		return d.Pool + " is shut"
	}
	return fmt.Sprintf("%s has no units in %s", d.Pool, d.Window)
}

// Deferred counts the deferrals of a unit of work by a pool. It holds the first one.
type Deferred struct {
	Deferral
	Times int `json:"times"`
}

type tally struct {
	s   *scenario
	rig *rig
	end func(error) // ends the plan

	runs     int
	last     time.Time // the spend until then is recorded
	failed   error
	pools    map[quota.Pool]*Pool
	first    *Deferral
	deferred map[deferredKey]*Deferred
	stale    map[Work]*Stale

	impossible error // work that no quota can pay for
}

type deferredKey struct{ job, work, pool string }

func (t *tally) add(j *ingest.Job, rep *ingest.Report, err error) {
	if err != nil {
		t.failed = errors.Join(t.failed, err)
		return
	}
	ctx := context.Background()
	t.runs++
	last, err := t.rig.sketch.Runs(ctx, catalog.RunsQuery{Job: j.Name, Limit: 1})
	if err != nil {
		t.failed = errors.Join(t.failed, err)
		return
	}
	var scheduled time.Time // zero if it resumed deferred work
	if len(last) > 0 {
		scheduled = last[0].Scheduled
	}
	for i := range rep.Work {
		t.addWork(j, &rep.Work[i], rep.Ended, scheduled)
	}
	t.failed = errors.Join(t.failed, t.readUsage(ctx), t.readSpend(ctx, rep.Ended))
}

func (t *tally) addWork(j *ingest.Job, w *ingest.WorkReport, now, scheduled time.Time) {
	t.checkDue(j, w, now, scheduled)
	if t.impossible == nil && errors.Is(w.Err, quota.ErrImpossible) {
		t.impossible = fmt.Errorf("%s of %s: %w", w.Work, j.Name, w.Err)
	}
	var refused *quota.RefusedError
	if w.State != catalog.Deferred || !errors.As(w.Err, &refused) {
		return
	}
	d := Deferral{
		At: now.UTC(), Job: j.Name, Work: w.Work, Region: w.Region,
		Pool: refused.Pool.String(), Window: refused.Window, Blocked: refused.Blocked, Until: refused.RetryAt.UTC(),
	}
	if d.Blocked {
		d.Window = ""
	}
	if t.first == nil {
		t.first = &d
	}
	t.s.deferred(&d, t.end)
	key := deferredKey{d.Job, d.Work, d.Pool}
	if t.deferred[key] == nil {
		t.deferred[key] = &Deferred{Deferral: d}
	}
	t.deferred[key].Times++
	t.day(refused.Pool, dayOf(now, t.zone(refused.Pool))).Deferred++
}

// readUsage records the units that the pools have left now.
func (t *tally) readUsage(ctx context.Context) error {
	for _, name := range t.rig.upstreams {
		all, err := t.rig.ledger.View().Usage(ctx, name, "")
		if err != nil {
			return err
		}
		for _, u := range all {
			for _, w := range u.Allowances {
				if u.Known && u.Pool.Key == "" && w.Spec.Span() >= day {
					d := t.day(u.Pool, dayOf(u.Now, t.zone(u.Pool)))
					d.Left = min(d.Left, w.Remaining)
				}
			}
		}
	}
	return nil
}

func (t *tally) zone(pool quota.Pool) *time.Location {
	return book.Zone(t.rig.ledger.Book().Upstreams[pool.Upstream].Pools[pool.Name].WindowsFor(pool.Account))
}

func dayOf(t time.Time, zone *time.Location) string { return t.In(zone).Format(time.DateOnly) }

// day returns a day of a pool. A day after the plan's end, of a run that continues beyond
// it, is not kept.
func (t *tally) day(pool quota.Pool, name string) *Day {
	p := t.pools[pool]
	if p == nil {
		limit, zone := t.rig.limit(pool, day), t.zone(pool)
		p = &Pool{Pool: pool.String(), Zone: zone.String(), Limit: limit}
		for at := t.s.from; at.Before(t.s.until); at = midnight(at, zone, 1) {
			p.Days = append(p.Days, Day{
				Day: dayOf(at, zone), Hours: math.Round(midnight(at, zone, 1).Sub(at).Hours()*100) / 100, Left: limit, Jobs: map[string]int64{},
			})
		}
		t.pools[pool] = p
	}
	i, found := slices.BinarySearchFunc(p.Days, name, func(d Day, name string) int { return cmp.Compare(d.Day, name) })
	if !found {
		return &Day{Jobs: map[string]int64{}}
	}
	return &p.Days[i]
}

// readSpend records the spend of days that have ended, before the ledger forgets it.
func (t *tally) readSpend(ctx context.Context, now time.Time) error {
	if dayOf(now, t.s.zone) == dayOf(t.last, t.s.zone) && now.Before(t.s.until) {
		return nil
	}
	spent, err := t.rig.ledger.View().Spend(ctx, quota.SpendQuery{Since: t.last, Until: now}, quota.ByDay, quota.ByJob, quota.ByMethod, quota.ByAccount)
	if err != nil {
		return err
	}
	for pool, p := range t.pools {
		first := dayOf(t.last, t.zone(pool))
		for i := range p.Days {
			if d := &p.Days[i]; d.Day >= first {
				d.Units, d.Before, d.Jobs = 0, 0, map[string]int64{}
			}
		}
	}
	for _, one := range spent {
		d := t.day(one.Pool, one.Day)
		if one.Labels.Reason != "" {
			d.Before += one.Units
			continue
		}
		d.Units += one.Units
		d.Jobs[one.Labels.Job] += one.Units
	}
	t.last = now
	t.s.progress(now)
	return nil
}

func (t *tally) plan(ctx context.Context) (*Plan, error) {
	if err := t.readSpend(ctx, t.s.until); err != nil {
		return nil, err
	}
	counted := t.rig.sim.Counts().Total()
	p := &Plan{
		From: t.s.from.UTC(), Until: t.s.until.UTC(), Zone: t.s.zone.String(), Fits: t.first == nil && t.impossible == nil,
		Runs: t.runs, Calls: counted.Calls - t.rig.charged.Calls, Refused: counted.Refused - t.rig.charged.Refused, First: t.first,
		Pools: []Pool{}, Deferred: []Deferred{}, Compared: []Compared{}, Notes: []string{},
	}
	t.s.programNotes(t.rig.ledger.Book(), p)
	if t.impossible != nil {
		p.Impossible = t.impossible.Error()
	}
	for _, one := range t.pools {
		p.Pools = append(p.Pools, *one)
	}
	slices.SortFunc(p.Pools, func(a, b Pool) int { return cmp.Compare(a.Pool, b.Pool) })
	for _, d := range t.deferred {
		p.Deferred = append(p.Deferred, *d)
	}
	slices.SortFunc(p.Deferred, func(a, b Deferred) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Work, b.Work), cmp.Compare(a.Pool, b.Pool))
	})
	p.Stale = t.delays()
	return p, nil
}

// Stale is a unit of work, such as the chart of a region, that falls behind its schedule.
type Stale struct {
	Job    string    `json:"job"`
	Work   string    `json:"work"`
	Region string    `json:"region,omitempty"`
	Since  time.Time `json:"since"`           // the beginning of the longest delay
	Behind int64     `json:"behind_seconds"`  // length of the longest delay
	Error  string    `json:"error,omitempty"` // the first cause, if it was not the quota
	Missed int       `json:"missed"`          // number of times that it was due and not done

	start time.Time // of the current delay, or zero
}

// checkDue records whether a unit of work was done when it was due.
func (t *tally) checkDue(j *ingest.Job, w *ingest.WorkReport, now, scheduled time.Time) {
	key := Work{j.Name, w.Work}
	s := t.stale[key]
	switch {
	case w.State == catalog.Done, errors.Is(w.Err, ingest.ErrMorePages):
		s.end(now)
		return
	case scheduled.IsZero():
		return
	case s == nil:
		s = &Stale{Job: j.Name, Work: w.Work, Region: w.Region}
		if w.Err != nil && !errors.As(w.Err, new(*quota.RefusedError)) {
			s.Error = w.Err.Error()
		}
		t.stale[key] = s
	}
	s.Missed++
	if s.start.IsZero() {
		s.start = scheduled
	}
}

func (s *Stale) end(now time.Time) {
	if s == nil || s.start.IsZero() {
		return
	}
	if behind := int64(now.Sub(s.start) / time.Second); behind > s.Behind {
		s.Since, s.Behind = s.start.UTC(), behind
	}
	s.start = time.Time{}
}

// delays returns the work that was behind, the worst first.
func (t *tally) delays() []Stale {
	all := []Stale{}
	for _, s := range t.stale {
		s.end(t.s.until)
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Stale) int {
		return cmp.Or(cmp.Compare(b.Behind, a.Behind), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Work, b.Work))
	})
	return all
}
