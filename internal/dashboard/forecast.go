package dashboard

import (
	"slices"
	"time"

	"github.com/headroom-quota/headroom/internal/view"
	"github.com/headroom-quota/headroom/quota"
)

// forecast is what a pool will be used by until its next reset: the runs that are due
// until then, times what one of them has cost.
type forecast struct {
	Until    moment
	Reset    bool // it is a reset, and not a day from now
	Lines    []forecastLine
	Units    int64
	Free     int64
	Fits     bool
	RunsOut  *moment // the first run that does not fit
	RunsJob  string
	Lacks    string // the window that it does not fit into
	Window   string
	Guessed  []string // jobs of which no run was done yet: they count with what they may cost at most
	Resuming []string // jobs with work that was deferred: it counts as one more run
}

// forecastLine is what one job adds.
type forecastLine struct {
	Job   string
	Runs  int
	Each  int64
	Units int64
	Guess bool // at most so much: no run was done yet

	Unknown bool // nobody knows; it does not count
}

// tick is a run that is to come.
type tick struct {
	at  time.Time
	job *job
}

// mostTicks of one job are looked at.
const mostTicks = 3000

// forecast looks ahead to the next reset of a pool.
func (s *state) forecast(u *quota.Usage) *forecast {
	w := ahead(u)
	if w == nil {
		return nil
	}
	until := s.now.Add(day)
	f := &forecast{Window: within(w), Free: w.Remaining, Fits: true}
	if w.Spec.Calendar() && w.ResetAt.After(s.now) {
		until, f.Reset = w.ResetAt, true
	}
	f.Until = s.at(until)
	pool := u.Pool.String()
	var ticks []tick
	for _, j := range s.jobs {
		if j.share[pool] == 0 {
			continue
		}
		if j.of(pool) == 0 && !j.cost.unknown {
			continue
		}
		line := forecastLine{Job: j.Name, Each: j.of(pool), Guess: j.cost.runs == 0 && !j.cost.unknown, Unknown: j.cost.unknown}
		if !j.resume.IsZero() && j.resume.Before(until) {
			at, _ := j.goes(s.now)
			ticks = append(ticks, tick{at, j})
			f.Resuming = append(f.Resuming, j.Name)
			line.Runs++
		}
		for at := j.next; !at.IsZero() && at.Before(until) && line.Runs < mostTicks; at = j.Schedule().Next(at) {
			ticks = append(ticks, tick{at, j})
			line.Runs++
		}
		line.Units = int64(line.Runs) * line.Each
		if line.Guess && line.Runs > 0 {
			f.Guessed = append(f.Guessed, j.Name)
		}
		f.Lines = append(f.Lines, line)
		f.Units += line.Units
	}
	s.runsOut(f, u, ticks)
	return f
}

// runsOut finds the first run that does not fit any more: into the window that the
// forecast is of, or into another one before anything of that comes back.
func (s *state) runsOut(f *forecast, u *quota.Usage, ticks []tick) {
	slices.SortStableFunc(ticks, func(a, b tick) int { return a.at.Compare(b.at) })
	var spent int64
	for _, t := range ticks {
		spent += t.job.of(u.Pool.String())
		for i := range u.Allowances {
			w := &u.Allowances[i]
			if guard(w) || spent <= w.Remaining || within(w) != f.Window && !t.at.Before(w.NextAt) {
				continue
			}
			at := s.at(t.at)
			f.Fits, f.RunsOut, f.RunsJob, f.Lacks = false, &at, t.job.Name, within(w)
			return
		}
	}
}

// ahead is the window that a forecast is made for: the calendar that resets next and
// is a day at least, else the one whose units come back last.
func ahead(u *quota.Usage) *quota.WindowUsage {
	var best *quota.WindowUsage
	for i := range u.Allowances {
		w := &u.Allowances[i]
		if w.Spec.Calendar() && !guard(w) {
			if best == nil || !best.Spec.Calendar() || w.ResetAt.Before(best.ResetAt) {
				best = w
			}
			continue
		}
		if best == nil || !best.Spec.Calendar() && w.Limit > best.Limit {
			best = w
		}
	}
	return best
}

// Sum is what is to come, in words.
func (f *forecast) Sum() string {
	if len(f.Guessed) > 0 {
		return "up to " + count(f.Units, "unit")
	}
	return "about " + count(f.Units, "unit")
}

// Short is what does not fit, in words.
func (f *forecast) Short() sentence {
	return say(f.RunsJob, " at ", *f.RunsOut, " is the first that finds too little ", f.Lacks)
}

// Left is what there is for it.
func (f *forecast) Left() string { return view.Number(f.Free) }

// Says is a line in words.
func (l *forecastLine) Says() string {
	if l.Runs == 0 {
		return "no run"
	}
	if l.Unknown {
		return count(int64(l.Runs), "run") + ", and nobody knows yet what one needs: none was done"
	}
	text := count(int64(l.Runs), "run") + " × " + view.Number(l.Each) + " = " + view.Number(l.Units)
	if l.Guess {
		text += ", at most: no run of it was done yet"
	}
	return text
}
