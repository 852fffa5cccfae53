package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// chance is whether a job can go at a time.
type chance struct {
	job     *job
	at      time.Time
	resumes bool
	pool    *quota.Usage
	window  *quota.WindowUsage // that decides
	free    int64              // of it, at that time
	limit   int64              // of it, for the class of the job
	until   time.Time          // it cannot go before, or zero
	blocked bool
	never   bool // its class may spend less than the first call costs
}

// whole reports whether what is left is enough for all of a run.
func (c *chance) whole() bool {
	return c.pool == nil || c.window == nil || c.free >= c.job.of(c.pool.Pool.String())
}

// shut reports whether not even the first call can be made.
func (c *chance) shut() bool { return !c.until.IsZero() || c.never }

// chanceOf looks at what a job charges, as it will be when the job goes.
func (s *state) chanceOf(j *job) chance {
	c := chance{job: j}
	c.at, c.resumes = j.goes(s.now)
	for _, name := range j.pools() {
		u := s.pool(name)
		if u == nil {
			continue
		}
		if u.Blocked.After(c.at) && u.Blocked.After(c.until) {
			c.pool, c.window, c.until, c.blocked = u, nil, u.Blocked, true
		}
		for i := range u.Allowances {
			c.consider(u, &u.Allowances[i], s.limit(u, i, j), j.first[name])
		}
	}
	return c
}

// consider lets a window decide, if it is worse than those before.
func (c *chance) consider(u *quota.Usage, w *quota.WindowUsage, limit, first int64) {
	used := w.Used
	switch {
	case !w.ResetAt.IsZero() && !c.at.Before(w.ResetAt):
		used = 0
	case !w.NextAt.IsZero() && !c.at.Before(w.NextAt):
		used -= w.NextUnits
	}
	free := max(limit-used, 0)
	switch {
	case free < first && limit < first:
		c.pool, c.window, c.free, c.limit, c.never = u, w, free, limit, true
	case free < first:
		if w.NextAt.After(c.until) && !c.never {
			c.pool, c.window, c.free, c.limit, c.until, c.blocked = u, w, free, limit, w.NextAt, false
		}
	case guard(w) && free >= c.job.of(u.Pool.String()): // says little about the day
	case !c.shut() && (c.window == nil || free < c.free):
		c.pool, c.window, c.free, c.limit = u, w, free, limit
	}
}

// guard reports whether a window is a short one, beside those of a day or more.
func guard(w *quota.WindowUsage) bool {
	return w.Spec.Length() < 12*time.Hour
}

// limit is what a job may use of a window of a pool.
func (s *state) limit(u *quota.Usage, i int, j *job) int64 {
	w := u.Allowances[i]
	return book.Window{Quota: w.Quota, Headroom: w.Headroom}.Limit(j.class)
}

// chances are those of all jobs, the next first.
func (s *state) chances() []chance {
	all := make([]chance, 0, len(s.jobs))
	for _, j := range s.jobs {
		if at, _ := j.goes(s.now); !at.IsZero() {
			all = append(all, s.chanceOf(j))
		}
	}
	slices.SortStableFunc(all, func(a, b chance) int { return a.at.Compare(b.at) })
	return all
}

// needs says what a run costs, as far as that is known.
func (c *chance) needs() string {
	units := c.job.cost.units
	if c.pool != nil {
		units = c.job.of(c.pool.Pool.String())
	}
	switch {
	case c.job.cost.unknown:
		return "nobody knows yet what it needs"
	case c.job.cost.runs == 0:
		return "it needs up to " + count(units, "unit")
	case units == 0:
		return "by its last runs it needs nothing"
	}
	return "it needs about " + count(units, "unit")
}

// why says what keeps a run from going.
func (c *chance) why() string {
	if c.blocked {
		return c.pool.Pool.String() + " " + view.Shut(c.pool.BlockedBy) + because(c.pool.Reason)
	}
	return fmt.Sprintf("%s is used up (%s of %s %s)", c.pool.Pool, view.Number(c.window.Used), view.Number(c.limit), within(c.window))
}

// tooDear says why a run can never go.
func (c *chance) tooDear() sentence {
	return say("its class may use ", view.Number(c.limit), " of ", c.pool.Pool, ", and its first call costs more")
}

// within says of what time a window is: in 24h, today in Los Angeles.
func within(w *quota.WindowUsage) string {
	if !w.Spec.Calendar() {
		return "in " + w.Window
	}
	name, zone := "this "+string(w.Spec.Period), w.Spec.Zone.String()
	if w.Spec.Period == window.Day {
		name = "today"
	}
	return name + " in " + strings.ReplaceAll(zone[strings.LastIndexByte(zone, '/')+1:], "_", " ")
}
