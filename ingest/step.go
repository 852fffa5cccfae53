package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// State is what the units of work of a run share. A [Runner] keeps it in memory. A fleet
// keeps it in rows.
type State struct {
	Began     time.Time // statistics are fetched if they are older
	Deadline  time.Time // zero: none
	Works     int       // units of work in the run
	Fails     int       // units of work in a row that the upstream failed
	Halted    error     // not nil: no more work is started
	Recovered time.Time // when failed work is tried again; zero: nothing failed
}

// Tally is what a run keeps of one unit of work between its steps.
type Tally struct {
	Turns    int           `json:"turns,omitempty"`    // pages so far, with those that had been saved before
	Complete bool          `json:"complete,omitempty"` // the last of them ended the pass
	Waited   time.Duration `json:"waited,omitempty"`   // for the units of the next page
	Attempts int           `json:"attempts,omitempty"` // failed calls of the next page
	Outages  int           `json:"outages,omitempty"`  // machines whose ledger did not answer for the next page
	Unsaved  int64         `json:"unsaved,omitempty"`  // units spent on the next page
	Lost     int64         `json:"lost,omitempty"`     // units of calls that returned no page
	Refused  int64         `json:"refused,omitempty"`  // calls that the ledger refused

	Pages      int   `json:"pages,omitempty"`
	New        int   `json:"new,omitempty"` // videos
	Updated    int   `json:"updated,omitempty"`
	Unchanged  int   `json:"unchanged,omitempty"`
	Statistics int   `json:"statistics,omitempty"`
	Gone       int   `json:"gone,omitempty"`
	Units      int64 `json:"units,omitempty"`

	Charges catalog.Charges `json:"charges,omitempty"` // the units by pool
	Owed    catalog.Charges `json:"owed,omitempty"`    // those of them that the catalog has not
}

// Next says what follows a step.
type Next int

// The values of Next.
const (
	Done   Next = iota // the work of this run is complete
	Again              // the time of the step, or its context, has ended: take another step
	At                 // take another step at a time
	Failed             // an error ended the work of this run; it may be a deferral
)

// Step is the result of a step.
type Step struct {
	Next Next
	At   time.Time // for At
	Err  error     // for Failed; for At, the refusal that it waits for
}

// Run is a run of a job in progress. Its driver takes the steps of each unit of work: a
// [Runner] in a loop, a fleet one after the other on any machine.
type Run struct {
	*Runner
	job    *Job
	record catalog.Run
	log    *slog.Logger
	works  []*Work
	budget *meter.Budget // of the whole run

	mu     sync.Mutex
	state  State
	report Report
}

func (r *Runner) newRun(j *Job, s State) *Run {
	return &Run{Runner: r, job: j, log: r.log.With("job", j.Name), budget: meter.NewBudget(j.MaxUnits), state: s}
}

// Join returns a run in progress, whose state is kept elsewhere. Record saves its pages.
func (r *Runner) Join(j *Job, s State, record catalog.Run) *Run {
	run := r.newRun(j, s)
	run.record = record
	return run
}

// State returns what the work of the run shares.
func (r *Run) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Learn takes what other processes did: the state of the run, and the units that they spent.
func (r *Run) Learn(s State, units int64) {
	r.mu.Lock()
	r.state = s
	r.mu.Unlock()
	r.budget.Add(units)
}

// Trace follows the next step of a unit of work, as a run of its own. The returned function
// ends it, with the state of the work after the step.
func (r *Run) Trace(w *Work, scheduled time.Time) (ended func(catalog.State, error)) {
	calls, run := r.tracer.Run(r.abort, r.job, scheduled)
	calls, work := r.tracer.Work(calls, w.Name, w.Region)
	w.calls = calls
	return func(s catalog.State, err error) {
		work(&WorkReport{Work: w.Name, Region: w.Region, Tally: w.Tally, State: s, Err: err})
		run(&Report{Job: r.job.Name, Scheduled: scheduled, Units: w.Units, State: s, Err: err})
	}
}

// Step fetches and saves pages of a unit of work, until its work of this run has ended, a
// time has passed, or the context ends. It never waits for units, nor for the time at which
// the work starts. A step takes longer than until by a call at most. Zero sets no time.
func (r *Run) Step(ctx context.Context, w *Work, until time.Time) (s Step) {
	defer func() {
		if p := recover(); p != nil { // the other work continues
			r.log.Error("panic", "work", w.Name, "panic", p, "stack", string(debug.Stack()))
			s = Step{Next: Failed, Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	w.began, w.until = r.state.Began, until
	if w.calls == nil {
		w.calls = r.abort
	}
	if wait := w.Start.Sub(r.clock.Now()); wait > 0 {
		if r.late(wait) {
			return Step{Next: Failed, Err: errMaxRuntime}
		}
		return Step{Next: At, At: w.Start}
	}
	if w.budget == nil {
		w.budget = r.budget.Part()
	}
	switch { // its last page was saved, and its driver was killed before it recorded the end
	case w.Complete:
		return Step{Next: Done}
	case w.resumable && w.Turns >= r.job.Pages:
		return Step{Next: Failed, Err: ErrMorePages}
	}
	for {
		if err := r.stopped(ctx); err != nil {
			return Step{Next: Failed, Err: err}
		}
		if ctx.Err() != nil || r.passed(until) {
			return Step{Next: Again}
		}
		page, err := r.fetch(ctx, w)
		done := false
		if err == nil {
			done, err = r.keep(w, page)
		}
		var refused *quota.RefusedError
		switch {
		case errors.Is(err, errAgain):
			return Step{Next: Again}
		case errors.As(err, &refused):
			w.Refused++
			if at, ok := r.patience(w, refused); ok {
				return Step{Next: At, At: at, Err: err}
			}
			return Step{Next: Failed, Err: err}
		case err != nil:
			return Step{Next: Failed, Err: err}
		case done:
			return Step{Next: Done}
		}
	}
}

// errAgain says that a step has ended before its page was fetched.
var errAgain = errors.New("the step has ended")

// patience returns when refused work can go on, or false if that is too late for this run.
func (r *Run) patience(w *Work, refused *quota.RefusedError) (at time.Time, ok bool) {
	wait := r.jittered(refused.RetryAfter)
	if w.Waited += refused.RetryAfter; w.Waited > r.maxWait || r.late(wait) {
		return at, false
	}
	r.log.Info("waiting for units", "work", w.Name, "pool", refused.Pool.String(), "for", wait.Round(time.Second))
	return r.clock.Now().Add(wait), true
}

// keep saves a page, and reports whether the work has its pages of this run.
func (r *Run) keep(w *Work, page *catalog.Page) (done bool, err error) {
	w.Turns++
	page.Cursor, page.Region, page.Units, page.Charges = w.cursor, w.Region, w.Unsaved, w.Owed
	last := w.resumable && w.Turns >= r.job.Pages
	if !w.resumable && w.cursor.Page+1 >= int64(r.job.Pages) {
		page.Next, page.Done = "", true
	}
	// It ignores the end of the run's context, because the page is paid for.
	saved, err := r.record.Save(context.WithoutCancel(r.abort), page)
	if err != nil {
		w.Lost, w.Unsaved = w.Lost+w.Unsaved, 0
		if errors.Is(err, catalog.ErrOutOfStep) && !w.restarted {
			w.restarted = true
			return false, r.restart(w, err)
		}
		return false, unsaved(err)
	}
	w.Saved(page, saved)
	w.cursor = saved.Cursor
	r.progress(Progress{Job: r.job.Name, Work: w.Name, Region: w.Region, Works: r.state.Works, Page: w.Turns, Pages: r.job.Pages, Saved: saved, Units: w.Units})
	if last && !page.Done {
		return false, ErrMorePages
	}
	return page.Done || last, nil
}

// Saved counts a page that was saved.
func (t *Tally) Saved(p *catalog.Page, s catalog.Saved) {
	switch {
	case s.Repeated:
		t.Lost += t.Unsaved
	case p.Units > 0:
		t.Pages++
	}
	if !s.Repeated {
		t.Owed = nil
	}
	t.Waited, t.Attempts, t.Outages, t.Unsaved, t.Complete = 0, 0, 0, 0, p.Done
	t.New += s.New
	t.Updated += s.Updated
	t.Unchanged += s.Unchanged
	t.Statistics += s.Statistics
	t.Gone += s.Gone
}

// halt stops new work and new pages.
func (r *Run) halt(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Halted == nil {
		r.state.Halted = why
	}
}

// stopped returns why no new work or page may start, or nil.
func (r *Run) stopped(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil // which is no result of the work
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.state.Deadline.IsZero() && r.passed(r.state.Deadline):
		return errMaxRuntime
	case r.state.Halted != nil:
		return &kindError{fmt.Errorf("not started: %w", r.state.Halted), errLeft}
	}
	return nil
}

// passed reports whether a time has passed. Zero never has.
func (r *Run) passed(t time.Time) bool { return !t.IsZero() && !r.clock.Now().Before(t) }

// late reports whether a wait would end after the deadline of the run.
func (r *Run) late(wait time.Duration) bool {
	return !r.state.Deadline.IsZero() && r.clock.Now().Add(wait).After(r.state.Deadline)
}

// jittered returns d and up to a tenth more, so that waiting calls are not all made at
// once.
func (r *Runner) jittered(d time.Duration) time.Duration { return d + r.jitter(d/10) }
