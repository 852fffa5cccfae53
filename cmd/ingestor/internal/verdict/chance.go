package verdict

import (
	"fmt"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// chance says whether a job can start at a time.
type chance struct {
	job     *Job
	at      time.Time
	resumes bool
	pool    *quota.Usage
	window  *quota.WindowUsage // the one that decides
	free    int64              // units left in it at that time
	limit   int64              // of it, for the class of the job
	until   time.Time          // the job cannot start before, or zero
	blocked bool
	lost    bool // it is not known what its pools have left
	idle    bool // the first call would be refused, but there may be none
	never   bool // the limit of its class is below the cost of its first call
}

// enough reports whether the units left pay for the whole run.
func (c *chance) enough() bool {
	return !c.idle && (c.pool == nil || c.window == nil || c.free >= c.job.CostIn(c.pool.Pool.String()))
}

// shut reports whether the first call would be refused, as far as that is known.
func (c *chance) shut() bool { return !c.until.IsZero() || c.never || c.lost }

// chanceOf looks at the pools that a job charges, as they will be when it starts.
func (s *State) chanceOf(j *Job) chance {
	c := chance{job: j, lost: s.outageOf(j) != nil}
	c.at, c.resumes = j.Start(s.Now)
	for _, name := range j.Pools() {
		u := s.Pool(name)
		if u == nil {
			continue
		}
		if u.Blocked.After(c.at) && u.Blocked.After(c.until) {
			c.pool, c.window, c.until, c.blocked = u, nil, u.Blocked, true
		}
		for i := range u.Allowances {
			c.consider(u, &u.Allowances[i], limitFor(&u.Allowances[i], j, c.at), j.first[name])
		}
	}
	if j.Cost.Unknown || j.Cost.Runs > 0 && j.Cost.Units == 0 { // as that of retention, which may find nothing too old
		c.idle, c.until = c.shut() && !c.never, time.Time{}
	}
	return c
}

// consider takes a window as the one that decides if it is worse than those before.
func (c *chance) consider(u *quota.Usage, w *quota.WindowUsage, limit, first int64) {
	free := max(limit-usedAt(w, c.at), 0)
	switch {
	case free < first && limit < first:
		c.pool, c.window, c.free, c.limit, c.never = u, w, free, limit, true
	case free < first:
		if w.NextAt.After(c.until) && !c.never {
			c.pool, c.window, c.free, c.limit, c.until, c.blocked = u, w, free, limit, w.NextAt, false
		}
	case IsShort(w) && free >= c.job.CostIn(u.Pool.String()): // it says little about the day
	case !c.shut() && (c.window == nil || free < c.free):
		c.pool, c.window, c.free, c.limit = u, w, free, limit
	}
}

// usedAt returns how many units still count in a window at a time to come.
func usedAt(w *quota.WindowUsage, at time.Time) int64 {
	switch {
	case !w.ResetAt.IsZero() && !at.Before(w.ResetAt):
		return 0
	case !w.NextAt.IsZero() && !at.Before(w.NextAt):
		return w.Used - w.NextUnits
	}
	return w.Used
}

// IsShort reports whether a window is much shorter than a day.
func IsShort(w *quota.WindowUsage) bool {
	return w.Spec.Length() < 12*time.Hour
}

// limitFor returns how many units of a window a job may use at a time.
func limitFor(w *quota.WindowUsage, j *Job, at time.Time) int64 {
	is := book.Window{Quota: w.Quota, Headroom: w.Headroom}
	if w.Reported > 0 && (w.ReportedUntil.IsZero() || at.Before(w.ReportedUntil)) {
		is.Quota, is.Headroom = w.Reported, w.ReportedHeadroom
	}
	return max(is.Limit(j.class), 0)
}

// chances returns the chance of every job, the next job first.
func (s *State) chances() []chance {
	all := make([]chance, 0, len(s.Jobs))
	for _, j := range s.Jobs {
		if at, _ := j.Start(s.Now); !at.IsZero() {
			all = append(all, s.chanceOf(j))
		}
	}
	slices.SortStableFunc(all, func(a, b chance) int { return a.at.Compare(b.at) })
	return all
}

// before names the jobs whose runs are still to come before a run, and leave nothing of its pool.
func (s *State) before(c *chance) (names []string) {
	if c.window == nil {
		return nil
	}
	pool, left := c.pool.Pool.String(), c.free
	for _, j := range s.Jobs {
		if cost := j.CostIn(pool); j != c.job && j.comes && !j.Paused && cost > 0 {
			names, left = append(names, j.Name), left-cost
		}
	}
	if left >= c.job.first[pool] {
		return nil
	}
	return names
}

// needs says what a run costs, if that is known.
func (c *chance) needs() Sentence {
	units := c.job.Cost.Units
	if c.pool != nil {
		units = c.job.CostIn(c.pool.Pool.String())
	}
	switch {
	case c.job.Cost.Unknown:
		return Say("Its cost is not known yet")
	case c.job.Cost.Runs == 0:
		return Say("It needs up to ", Count(units, "unit"))
	case units == 0:
		return Say("Its last runs needed no units")
	}
	return Say("It needs about ", Count(units, "unit"))
}

// left says how many units are left in the window that decides.
func (c *chance) left() string {
	return fmt.Sprintf("%s has %s of %s left %s", c.pool.Pool, view.Number(c.free), view.Number(c.limit), Period(c.window))
}

// why says what keeps a run from starting.
func (c *chance) why() string {
	if c.blocked {
		return blockedBy(c.pool)
	}
	return fmt.Sprintf("%s has %s of %s left %s", c.pool.Pool, view.Number(max(c.limit-c.window.Used, 0)), view.Number(c.limit), Period(c.window))
}

// tooExpensive says why a run can never start.
func (c *chance) tooExpensive() Sentence {
	return Say("Its class may use ", view.Number(c.limit), " of ", c.pool.Pool, ", and its first call costs more")
}

// Outlook says when a job runs next, and whether it can.
type Outlook struct {
	At      time.Time // when it can start; zero if that is not known, or never
	Resumes bool      // deferred work
	Says    Sentence
}

// Outlook says when a job runs next, and whether it can. Every page shows this. The verdict and
// its notes say why.
func (s *State) Outlook(j *Job) Outlook {
	c := s.chanceOf(j)
	o := Outlook{At: c.at, Resumes: c.resumes}
	switch {
	case j.Paused:
		o.Says = Say("is paused")
	case c.at.IsZero():
		o.Says = Say("has no schedule")
	case s.Unread != nil, s.Unkept != nil, s.locked() != nil:
		o.Says = Say("does no work then")
	case c.lost:
		o.Says = Say("not known")
	case s.Stuck != nil:
		o.Says = Say("does no work then")
	case s.silence() != nil:
		o.At, o.Says = time.Time{}, Say("nobody runs it")
	case c.never:
		o.At, o.Says = time.Time{}, Say("never")
	case c.idle: // also while its pool is blocked
		o.Says = Say("yes, without a call")
	case c.blocked:
		o.At, o.Says = c.until, Say("waits for the end of a block")
	case c.shut():
		o.At, o.Says = c.until, Say("waits for units")
	case !c.enough():
		o.Says = Say("yes, but not to its end")
	default:
		o.Says = Say("yes")
	}
	if !j.Missed.IsZero() && j.Last != nil {
		missed := j.Skips(Later(j.Last.StartedAt, j.Last.Scheduled), s.Now)
		o.Says = Say(o.Says, ". Missed: ", Count(int64(missed.Times), "run"), " since ", s.Clock(missed.First))
	}
	return o
}
