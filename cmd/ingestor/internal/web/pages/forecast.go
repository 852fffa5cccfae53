package pages

import (
	"slices"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// forecast says what runs will use of a pool until its next reset: for each job, the runs
// that are due until then times the cost of one.
type forecast struct {
	Until    moment
	Lines    []forecastLine
	Units    int64
	Free     int64
	Fits     bool
	RunsOut  *moment // time of the first run that does not fit
	RunsJob  string
	Lacks    string // the window that run does not fit into
	Window   string
	window   string // its name
	pool     string
	Guessed  []string // jobs without a finished run; they count with their highest cost
	Resuming []string // jobs with deferred work, which counts as one more run
}

type forecastLine struct {
	pool  string
	Job   string
	Runs  int
	Each  int64
	Units int64
	Guess bool // the highest cost, because no run is done yet

	Unknown bool // the cost is not known, and does not count
}

type tick struct {
	at  time.Time
	job *job
}

// maxTicks bounds the future runs of one job.
const maxTicks = 3000

// forecast returns the forecast of a pool, or nil if it has no windows.
func (s *state) forecast(u *quota.Usage) *forecast {
	w := forecastWindow(u)
	if w == nil {
		return nil
	}
	until := s.Now.Add(day)
	f := &forecast{Window: period(w), window: w.Window, Free: w.Remaining, Fits: true, pool: u.Pool.String()}
	if w.Spec.Calendar() && w.ResetAt.After(s.Now) {
		until = w.ResetAt
	}
	f.Until = s.Moment(until)
	pool := u.Pool.String()
	var ticks []tick
	for _, j := range s.Jobs {
		if j.Share[pool] == 0 {
			continue
		}
		if j.CostIn(pool) == 0 && !j.Cost.Unknown {
			continue
		}
		line := forecastLine{pool: pool, Job: j.Name, Each: j.CostIn(pool), Guess: j.Cost.Runs == 0 && !j.Cost.Unknown, Unknown: j.Cost.Unknown}
		if !j.Resume.IsZero() && j.Resume.Before(until) {
			at, _ := j.Start(s.Now)
			ticks = append(ticks, tick{at, j})
			f.Resuming = append(f.Resuming, j.Name)
			line.Runs++
		}
		for at := j.Next; !at.IsZero() && at.Before(until) && line.Runs < maxTicks; at = j.Schedule().Next(at) {
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

// runsOut finds the first run that does not fit: into the window of the forecast, or into
// another one before its units come back.
func (s *state) runsOut(f *forecast, u *quota.Usage, ticks []tick) {
	slices.SortStableFunc(ticks, func(a, b tick) int { return a.at.Compare(b.at) })
	var spent int64
	for _, t := range ticks {
		spent += t.job.CostIn(u.Pool.String())
		for i := range u.Allowances {
			w := &u.Allowances[i]
			if verdict.IsShort(w) || spent <= w.Remaining || w.Window != f.window && !t.at.Before(w.NextAt) {
				continue
			}
			f.Fits, f.RunsOut, f.RunsJob, f.Lacks = false, s.at(t.at), t.job.Name, period(w)
			return
		}
	}
}

// forecastWindow returns the window that a forecast is made for: the calendar window of a
// day or more that resets next, else the window with the highest limit.
func forecastWindow(u *quota.Usage) *quota.WindowUsage {
	var best *quota.WindowUsage
	for i := range u.Allowances {
		w := &u.Allowances[i]
		if w.Spec.Calendar() && !verdict.IsShort(w) {
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

// sum returns the units to come, in words.
func (f *forecast) sum() string {
	if len(f.Guessed) > 0 {
		return "up to " + view.Units(f.pool, f.Units)
	}
	return "about " + view.Units(f.pool, f.Units)
}

// lack says which run does not fit.
func (f *forecast) lack() sentence {
	return say(f.RunsJob, " at ", *f.RunsOut, " is the first run that lacks units ", f.Lacks)
}

func (f *forecast) left() string { return view.Amount(f.pool, f.Free) }

func (l *forecastLine) says() string {
	if l.Runs == 0 {
		return "no run"
	}
	if l.Unknown {
		return count(int64(l.Runs), "run") + "; the cost of one is not known until one is done"
	}
	text := count(int64(l.Runs), "run") + " × " + view.Amount(l.pool, l.Each) + " = " + view.Amount(l.pool, l.Units)
	if l.Guess {
		text += ", at most: no run of it is done yet"
	}
	return text
}
