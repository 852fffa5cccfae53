package pages

import (
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// note is a message of the page.
type note struct {
	Level level
	Says  sentence
}

// notes returns the blocks, outages and other problems, or that there are none.
func (s *state) notes() []note {
	var all []note
	all = append(all, s.outages()...)
	all = append(all, s.blocks()...)
	all = append(all, s.shortages()...)
	all = append(all, s.neverRun()...)
	all = append(all, s.waiting()...)
	for _, j := range s.jobs {
		all = append(all, s.notesOf(j)...)
	}
	if late := view.Late(s.feeds); len(late) > 0 {
		all = append(all, note{warn, say("Charts that are missing or older than ", span(s.maxAge), ": ", list(late))})
	}
	if !slices.ContainsFunc(all, func(n note) bool { return n.Level != good }) {
		all = append(all, note{good, say("No pool is shut, the ledger and the catalog answer, and every chart is fresh")})
	}
	return all
}

func (s *state) outages() (all []note) {
	if s.outage != nil {
		all = append(all, note{bad, append(append(say("The state of the pools is not known: "), s.lost()...), say(". The catalog still has the history of runs")...)})
	}
	if s.unread != nil {
		all = append(all, note{bad, say("The catalog cannot be read, so runs and regions are missing. To look for damage: ingestor doctor")})
	}
	return all
}

func (s *state) blocks() (all []note) {
	for i := range s.pools {
		if u := &s.pools[i]; u.Blocked.After(u.Now) {
			all = append(all, note{bad, say(u.Pool, " ", view.Shut(u.BlockedBy), " for everybody until ", s.moment(u.Blocked), because(u.Reason),
				". It opens by itself; to open it now: ingestor quota unblock ", u.Pool)})
		}
	}
	return all
}

// shortages returns a note for each pool whose units do not last for the runs to come.
func (s *state) shortages() (all []note) {
	for i := range s.pools {
		u := &s.pools[i]
		if s.outage != nil || !s.used(u) || u.Blocked.After(u.Now) || slices.ContainsFunc(u.Allowances, func(w quota.WindowUsage) bool { return w.Remaining == 0 }) {
			continue
		}
		if f := s.forecast(u); f != nil && !f.Fits {
			all = append(all, note{warn, append(say(u.Pool, " will not last until ", f.Until, ": "), f.Lack()...)})
		}
	}
	return all
}

// neverRun returns a note that names the jobs that were due and never ran.
func (s *state) neverRun() []note {
	var names []string
	for _, j := range s.jobs {
		if !j.missed.IsZero() && j.last == nil {
			names = append(names, j.Name)
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return []note{{warn, say(names[0], " has not run yet. ingestor run runs it when it is due; ingestor run --once runs it now")}}
	}
	return []note{{warn, say(list(names), " have not run yet. ingestor run runs them when they are due; ingestor run --once runs them now")}}
}

// waiting returns a note for each cause that keeps jobs from starting.
func (s *state) waiting() (all []note) {
	type cause struct {
		until time.Time
		why   string
	}
	var causes []cause
	names := map[cause][]string{}
	for _, j := range s.jobs {
		c := s.chanceOf(j)
		if s.outage != nil || !c.shut() || c.never || !j.resume.IsZero() {
			continue
		}
		why := cause{c.until, c.why()}
		if names[why] == nil {
			causes = append(causes, why)
		}
		names[why] = append(names[why], j.Name)
	}
	for _, c := range causes {
		all = append(all, note{warn, say(list(names[c]), " cannot start before ", s.moment(c.until), ": ", c.why)})
	}
	return all
}

func (s *state) notesOf(j *job) (all []note) {
	c := s.chanceOf(j)
	switch shut := s.outage == nil && c.shut() && !c.never; {
	case s.outage == nil && c.never:
		all = append(all, note{bad, append(say(j.Name, " can never start: "), c.tooExpensive()...)})
	case shut && !j.resume.IsZero():
		all = append(all, note{warn, say(j.Name, " resumes by itself at ", s.moment(c.until), ", with ", count(int64(j.waiting), "unit"), " of work that ", waits(j.waiting), ": ", c.why(), ". Fetched data stays")})
	case !j.resume.IsZero():
		all = append(all, note{warn, say(j.Name, " resumes by itself at ", s.moment(j.resume), ", with ", count(int64(j.waiting), "unit"), " of work that ", waits(j.waiting), ". Fetched data stays")})
	}
	if !j.missed.IsZero() && j.last != nil {
		all = append(all, note{bad, say(j.Name, " was due at ", s.moment(j.missed), " and has not run: check that ingestor run, or its timer, is up")})
	}
	if j.last != nil && j.last.State == catalog.Running {
		all = append(all, note{good, say(j.Name, " has been running since ", s.moment(j.last.StartedAt), ", with ", count(view.Total(j.last).Units, "unit"), " so far")})
	}
	if j.last != nil && j.last.State == catalog.Failed {
		all = append(all, note{warn, say("The last run of ", j.Name, ", ", s.moment(j.last.StartedAt), ", failed", failed(j.last))})
	}
	return all
}

func waits(n int) string {
	if n == 1 {
		return "was deferred or will be retried"
	}
	return "were deferred or will be retried"
}

// failed names the failed work of a run, and why the first of it failed.
func failed(r *catalog.RunRecord) string {
	var names []string
	why := r.Error
	for _, w := range r.Work {
		if w.State == catalog.Failed {
			names = append(names, w.Work)
			if why == "" {
				why = w.Error
			}
		}
	}
	text := ""
	if len(names) > 0 {
		text = " for " + list(names)
	}
	if why = strings.TrimSpace(why); why != "" {
		text += ": " + why
	}
	return text
}
