package verdict

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// notes returns the blocks and problems that neither the verdict nor the card of a pool
// says.
func (s *State) notes(v *Verdict) (all []Note) {
	if s.Unread != nil && v.Word != "Stopped" {
		all = append(all, Note{bad, Say("The catalog cannot be read, so runs and regions are missing. To look for damage: ingestor doctor"), ""})
	}
	if s.Unkept != nil && v.Word != "Stopped" {
		all = append(all, Note{bad, Say("The catalog can be read, but not written. To see what is wrong: ingestor check"), ""})
	}
	if says, remedy, _ := s.fault(nil); s.Outage != nil && !v.tells(says.String()) {
		all = append(all, Note{bad, Say(says, ". ", remedy), ""})
	}
	all = append(all, slices.DeleteFunc(OfFleet(s.Fleet, s.Unseen, ""), func(n Note) bool { return v.tells(n.Says.String()) })...)
	for _, d := range s.Disks {
		if !v.tells(d.String()) {
			all = append(all, Note{warn, Say(d.String()), ""})
		}
	}
	all = append(all, s.notesOfPools(v)...)
	if c := s.Counts; c.Err != nil {
		all = append(all, Note{bad, Say("Google's own count has not been compared since ", s.Moment(c.Failed), ", so units of others may be missing. To see why: ingestor reconcile"), ""})
	}
	all = append(all, s.neverRun()...)
	all = append(all, s.waiting(v)...)
	for _, j := range s.Jobs {
		all = append(all, s.notesOf(j, v)...)
	}
	ran := slices.ContainsFunc(s.Jobs, func(j *Job) bool { return j.Last != nil })
	if late := view.Late(s.Feeds); len(late) > 0 && (ran || len(s.Jobs) == 0) { // or another note says why
		for i, name := range late {
			late[i] = WorkName(name)
		}
		all = append(all, Note{warn, Say("Charts that are missing or older than ", Span(s.MaxAge), ": ", List(late)), "/regions"})
	}
	return all
}

// OfFleet returns a note for each finding of a fleet, or for why its state cannot be read, with the flags of the
// commands that it names.
func OfFleet(is *fleet.Status, err error, typed string) (all []Note) {
	defer func() {
		for i := range all {
			all[i].Says = all[i].Says.Typed(typed)
		}
	}()
	if err != nil {
		locked, some := errors.AsType[*fleet.LockedError](err)
		if !some {
			return []Note{{Level: bad, Says: Say("The database cannot be read now, so nothing is known of the fleet. To see why: ingestor check")}}
		}
		for _, l := range locked.Locks {
			all = append(all, Note{Level: bad, Says: Say(l.String())})
		}
		return all
	}
	if is == nil {
		return nil
	}
	for _, f := range is.Findings {
		how := warn
		if f.Bad {
			how = bad
		}
		all = append(all, Note{Level: how, Says: Say(f.Text)})
	}
	return all
}

// neverRun returns a note that names the jobs that were due and never ran.
func (s *State) neverRun() []Note {
	var names []string
	for _, j := range s.Jobs {
		if !j.Missed.IsZero() && j.Last == nil {
			names = append(names, j.Name)
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return []Note{{warn, Say(names[0], " has not run yet. To run it now: ingestor run --once"), "/runs"}}
	}
	return []Note{{warn, Say(List(names), " have not run yet. To run them now: ingestor run --once"), "/runs"}}
}

// waiting returns a note for each cause that keeps jobs from starting.
func (s *State) waiting(v *Verdict) (all []Note) {
	type cause struct {
		until time.Time
		why   string
	}
	var causes []cause
	names := map[cause][]string{}
	for _, j := range s.Jobs {
		c := s.chanceOf(j)
		if c.lost || j.Paused || !c.shut() || c.never || !j.Resume.IsZero() || slices.Contains(v.names, j.Name) {
			continue
		}
		why := cause{c.until, c.why()}
		if names[why] == nil {
			causes = append(causes, why)
		}
		names[why] = append(names[why], j.Name)
	}
	for _, c := range causes {
		says := Say(List(names[c]), " cannot start before ", s.Moment(c.until))
		if !v.tells(c.why) {
			says = Say(says, ": ", c.why)
		}
		all = append(all, Note{warn, says, "/runs"})
	}
	return all
}

func (s *State) notesOf(j *Job, v *Verdict) (all []Note) {
	c := s.chanceOf(j)
	about := v.about != nil && v.about.job == j
	switch shut := !c.lost && c.shut() && !c.never; {
	case !c.lost && c.never && !about:
		all = append(all, Note{bad, Say(j.Name, " can never start: ", c.tooExpensive()), ""})
	case j.Resume.IsZero() || slices.Contains(v.names, j.Name):
	case shut:
		all = append(all, Note{warn, Say(j.Name, " resumes at ", s.Moment(Later(c.until, j.Resume)), " with ", Count(int64(j.Waiting), "unit"), " of work: ", c.why()), "/runs"})
	default:
		all = append(all, Note{warn, Say(j.Name, " resumes at ", s.Moment(j.Resume), " with ", Count(int64(j.Waiting), "unit"), " of work"), "/runs"})
	}
	if j.Last == nil {
		return all
	}
	run := "/runs/" + strconv.FormatInt(j.Last.ID, 10)
	if !j.Missed.IsZero() && !v.tells(j.Name+" was due") {
		all = append(all, Note{bad, Say(j.Name, s.due(j), " and has not run. Check that ingestor run, or its timer, is up"), "/runs"})
	}
	if j.Last.State == catalog.Running {
		all = append(all, Note{good, Say(j.Name, " has been running since ", s.Moment(j.Last.StartedAt), ", with ", Count(view.Total(j.Last).Units, "unit"), " so far"), run})
	}
	if j.failed() {
		how := failed(j.Ended)
		if j.Ended.State == catalog.Deferred {
			how = " until it lacked units"
		}
		all = append(all, Note{warn, Say("The last run of ", j.Name, ", ", s.Moment(j.Ended.StartedAt), ", failed", how, ". To see why: ingestor runs"), "/runs/" + strconv.FormatInt(j.Ended.ID, 10)})
	}
	return all
}

// due says when a job was due that has not run: how often since its last run, if more than once.
func (s *State) due(j *Job) Sentence {
	since := Later(j.Last.StartedAt, j.Last.Scheduled)
	if skips := j.Skips(since, s.Now); skips.Times > 1 {
		return Say(" was due ", Count(int64(skips.Times), "time"), " since ", s.Moment(skips.First))
	}
	return Say(" was due at ", s.Moment(j.Missed))
}

// failed reports whether the last run that has ended failed, or was deferred when each of its calls had failed. That
// another one has begun says nothing yet.
func (j *Job) failed() bool {
	return j.Ended != nil && (j.Ended.State == catalog.Failed || j.Ended.State == catalog.Deferred && view.Total(j.Ended).Pages == 0)
}

// failing reports whether the next run may meet what the last one of a job met. A job that is paused says so only until
// another job has called the same upstream, and did not fail.
func (s *State) failing(j *Job) bool {
	return j.failed() && !(j.Paused && slices.ContainsFunc(s.Jobs, func(o *Job) bool {
		return o.Ended != nil && !o.failed() && o.Ended.StartedAt.After(j.Ended.StartedAt) && view.Total(o.Ended).Units > 0 && o.shares(j)
	}))
}

// shares reports whether two jobs charge a pool of the same upstream.
func (j *Job) shares(with *Job) bool {
	upstream := func(pool string) string { name, _, _ := strings.Cut(pool, "/"); return name }
	return slices.ContainsFunc(j.Pools(), func(a string) bool {
		return slices.ContainsFunc(with.Pools(), func(b string) bool { return upstream(a) == upstream(b) })
	})
}

func failed(r *catalog.RunRecord) string {
	var names []string
	for _, w := range r.Work {
		if w.State == catalog.Failed {
			names = append(names, WorkName(w.Work))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " for " + List(names)
}
