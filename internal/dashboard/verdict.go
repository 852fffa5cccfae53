package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// level says how much something asks for somebody.
type level string

const (
	good level = "good"
	warn level = "warn"
	bad  level = "bad"
)

// Word is the level for those who see no colours.
func (l level) Word() string {
	return map[level]string{good: "All right", warn: "Look at it", bad: "Stopped"}[l]
}

// verdict answers the first question: can the next run go?
type verdict struct {
	Level level
	Word  string
	Says  sentence
	More  []sentence
}

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
	per, err := time.ParseDuration(w.Window)
	return err == nil && per < 12*time.Hour || strings.HasPrefix(w.Window, "minute ") || strings.HasPrefix(w.Window, "hour ")
}

// limit is what a job may use of a window of a pool.
func (s *state) limit(u *quota.Usage, i int, j *job) int64 {
	w := u.Allowances[i]
	return quota.Window{Quota: w.Quota, Headroom: w.Headroom}.Limit(j.class)
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

// verdict says whether the next run can go.
func (s *state) verdict() verdict {
	all := s.chances()
	if len(all) == 0 {
		return verdict{Level: warn, Word: "Nothing to do", Says: say("No run is to come: no job has a schedule")}
	}
	next := all[0]
	if s.outage != nil {
		return s.unknown(&next)
	}
	shut := func(c chance) bool { return c.shut() }
	switch {
	case next.never:
		return verdict{Level: bad, Word: "It cannot go", Says: say(append(s.run(&next), " can never go: its class may use ", number(next.limit), " of ",
			next.pool.Pool.String(), ", and its first call costs more")...)}
	case !slices.ContainsFunc(all, func(c chance) bool { return !c.shut() }):
		first := slices.MinFunc(all, func(a, b chance) int { return a.until.Compare(b.until) })
		return verdict{Level: bad, Word: "Nothing can go", Says: say("No run can go before ", s.at(first.until), ": ", first.why()), More: s.spenders(&first)}
	case next.shut():
		open := all[slices.IndexFunc(all, func(c chance) bool { return !shut(c) })]
		more := append(s.spenders(&next), say(open.job.Name, " can go, at ", s.at(open.at)))
		return verdict{Level: bad, Word: "It cannot go", Says: say(append(s.run(&next), " cannot go before ", s.at(next.until), ": ", next.why())...), More: more}
	case !next.whole():
		return verdict{
			Level: warn, Word: "It can go in part", Says: say(append(s.run(&next), " can go in part: it needs ", next.needs(), " and ", number(next.free), " are left of ",
				next.pool.Pool.String(), " ", within(next.window))...),
			More: append([]sentence{say("What is left over is deferred, and goes on by itself when units come back")}, s.spenders(&next)...),
		}
	}
	v := verdict{Level: good, Word: "It can go", Says: say(append(s.run(&next), " can go", next.enough())...)}
	if s.unread != nil {
		v.Level = warn
	}
	return v
}

// run names a run that is to come.
func (s *state) run(c *chance) []any {
	if c.resumes {
		return []any{"What was deferred of " + c.job.Name + ", to go on at ", s.at(c.at), ","}
	}
	return []any{"The next run, " + c.job.Name + " at ", s.at(c.at), ","}
}

// needs is what a run costs, as far as that is known.
func (c *chance) needs() string {
	units := c.job.cost.units
	if c.pool != nil {
		units = c.job.of(c.pool.Pool.String())
	}
	switch {
	case c.job.cost.unknown:
		return "nobody knows how much yet"
	case c.job.cost.runs == 0:
		return "up to " + count(units, "unit")
	}
	return "about " + count(units, "unit")
}

// enough says what is left for a run.
func (c *chance) enough() string {
	if c.pool == nil || c.window == nil {
		return ""
	}
	return fmt.Sprintf(": it needs %s and %s are left of %s", c.needs(), number(c.free), c.pool.Pool)
}

// why says what keeps a run from going.
func (c *chance) why() string {
	if c.blocked {
		return "the upstream has shut " + c.pool.Pool.String() + because(c.pool.Reason)
	}
	return fmt.Sprintf("%s is used up (%s of %s %s)", c.pool.Pool, number(c.window.Used), number(c.limit), within(c.window))
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// spenders says who spent what is missing.
func (s *state) spenders(c *chance) []sentence {
	if c.pool == nil || c.blocked && c.pool.Allowances == nil {
		return nil
	}
	var who []string
	for _, g := range s.hours(c.pool, byJob).groups {
		who = append(who, g.name+" "+number(g.units))
	}
	if len(who) == 0 {
		return nil
	}
	return []sentence{say("Who spent it in the last 24 hours: ", strings.Join(who, ", "))}
}

// unknown is the verdict while the ledger cannot be reached.
func (s *state) unknown(next *chance) verdict {
	v := verdict{Level: bad, Word: "Nobody knows", Says: say("Nobody can say whether the next run, "+next.job.Name+" at ", s.at(next.at), ", can go: the ledger cannot be reached")}
	calls := strings.Join(next.job.methods, " and ")
	if next.job.outage == quota.Admit {
		v.Level = warn
		v.More = append(v.More, say("Its calls (", calls, ") are admitted meanwhile within a small allowance, and charged when the ledger is back"))
	} else {
		v.More = append(v.More, say("Its calls (", calls, ") are refused until the ledger is back; what was fetched stays"))
	}
	v.More = append(v.More, say("ingestor check says what is wrong"))
	return v
}

// within says of what time a window is: in 24h, today in Los Angeles.
func within(w *quota.WindowUsage) string {
	name, zone, calendar := strings.Cut(w.Window, " ")
	if !calendar {
		return "in " + name
	}
	if name = "this " + name; name == "this day" {
		name = "today"
	}
	return name + " in " + strings.ReplaceAll(zone[strings.LastIndexByte(zone, '/')+1:], "_", " ")
}
