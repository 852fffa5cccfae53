package pages

import (
	"slices"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// note is a message of the page.
type note struct {
	Level level
	Says  sentence
	Link  string // address of more, or empty
}

// notes returns the blocks and problems that neither the verdict nor the card of a pool
// says.
func (s *state) notes(v *verdict) (all []note) {
	if s.unread != nil {
		all = append(all, note{bad, say("The catalog cannot be read, so runs and regions are missing. To look for damage: ingestor doctor"), ""})
	}
	all = append(all, s.notesOfPools(v)...)
	if c := s.counts; c.Err != nil {
		all = append(all, note{bad, say("Google's own count has not been compared since ", s.moment(c.Failed), ", so units of others may be missing. To see why: ingestor reconcile"), ""})
	}
	all = append(all, s.neverRun()...)
	all = append(all, s.waiting(v)...)
	for _, j := range s.jobs {
		all = append(all, s.notesOf(j, v)...)
	}
	ran := slices.ContainsFunc(s.jobs, func(j *job) bool { return j.last != nil })
	if late := view.Late(s.feeds); len(late) > 0 && (ran || len(s.jobs) == 0) { // or another note says why
		for i, name := range late {
			late[i] = workName(name)
		}
		all = append(all, note{warn, say("Charts that are missing or older than ", span(s.maxAge), ": ", list(late)), "/regions"})
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
		return []note{{warn, say(names[0], " has not run yet. To run it now: ingestor run --once"), "/runs"}}
	}
	return []note{{warn, say(list(names), " have not run yet. To run them now: ingestor run --once"), "/runs"}}
}

// waiting returns a note for each cause that keeps jobs from starting.
func (s *state) waiting(v *verdict) (all []note) {
	type cause struct {
		until time.Time
		why   string
	}
	var causes []cause
	names := map[cause][]string{}
	for _, j := range s.jobs {
		c := s.chanceOf(j)
		if s.outage != nil || !c.shut() || c.never || !j.resume.IsZero() || slices.Contains(v.names, j.Name) {
			continue
		}
		why := cause{c.until, c.why()}
		if names[why] == nil {
			causes = append(causes, why)
		}
		names[why] = append(names[why], j.Name)
	}
	for _, c := range causes {
		says := say(list(names[c]), " cannot start before ", s.moment(c.until))
		if !v.tells(c.why) {
			says = say(says, ": ", c.why)
		}
		all = append(all, note{warn, says, "/runs"})
	}
	return all
}

func (s *state) notesOf(j *job, v *verdict) (all []note) {
	c := s.chanceOf(j)
	about := v.about != nil && v.about.job == j
	switch shut := s.outage == nil && c.shut() && !c.never; {
	case s.outage == nil && c.never && !about:
		all = append(all, note{bad, say(j.Name, " can never start: ", c.tooExpensive()), ""})
	case j.resume.IsZero() || slices.Contains(v.names, j.Name):
	case shut:
		all = append(all, note{warn, say(j.Name, " resumes at ", s.moment(c.until), " with ", count(int64(j.waiting), "unit"), " of work: ", c.why()), "/runs"})
	default:
		all = append(all, note{warn, say(j.Name, " resumes at ", s.moment(j.resume), " with ", count(int64(j.waiting), "unit"), " of work"), "/runs"})
	}
	if j.last == nil {
		return all
	}
	run := runPath(j.last.ID)
	if !j.missed.IsZero() && !about {
		all = append(all, note{bad, say(j.Name, s.due(j), " and has not run. Check that ingestor run, or its timer, is up"), "/runs"})
	}
	switch j.last.State {
	case catalog.Running:
		all = append(all, note{good, say(j.Name, " has been running since ", s.moment(j.last.StartedAt), ", with ", count(view.Total(j.last).Units, "unit"), " so far"), run})
	case catalog.Failed:
		all = append(all, note{warn, say("The last run of ", j.Name, ", ", s.moment(j.last.StartedAt), ", failed", failed(j.last)), run})
	}
	return all
}

// due says when a job was due that has not run: how often since its last run, if more than once.
func (s *state) due(j *job) sentence {
	since := latestOf(j.last.StartedAt, j.last.Scheduled)
	if skips := j.Skips(since, s.now); skips.Times > 1 {
		return say(" was due ", count(int64(skips.Times), "time"), " since ", s.moment(skips.First))
	}
	return say(" was due at ", s.moment(j.missed))
}

// failed names the failed work of a run.
func failed(r *catalog.RunRecord) string {
	var names []string
	for _, w := range r.Work {
		if w.State == catalog.Failed {
			names = append(names, workName(w.Work))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " for " + list(names)
}
