package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Progress reports a saved page, or a unit of work that ended.
type Progress struct {
	Job, Work, Region string
	Works             int // of the run
	Page, Pages       int // of the unit of work in this run: so far, and at most
	Saved             catalog.Saved
	Units             int64       // of the unit of work so far
	Ended             *WorkReport // nil until it ends
}

// Report is the result of a run.
type Report struct {
	Job       string
	Scheduled time.Time // when it was due; zero: it was not scheduled
	Started   time.Time
	Ended     time.Time
	State     catalog.State
	ResumeAt  time.Time    // the earliest time at which work resumes or is retried; zero: when the job is due
	Work      []WorkReport // stalest first
	Units     int64
	Err       error // why the run ended before its work was done
}

// WorkReport is the result of a unit of work.
type WorkReport struct {
	Work       string
	Region     string
	Pages      int
	New        int // videos
	Updated    int
	Unchanged  int
	Statistics int
	Gone       int
	Units      int64
	State      catalog.State
	ResumeAt   time.Time
	Err        error

	blockedOn string // the pool whose block defers it; may be empty
	lost      int64  // units of calls that returned no page
}

func (w *WorkReport) add(s catalog.Saved) {
	w.New += s.New
	w.Updated += s.Updated
	w.Unchanged += s.Unchanged
	w.Statistics += s.Statistics
	w.Gone += s.Gone
}

// The errors that end a run before its work is done.
var (
	// ErrHeld says that another process runs the same job.
	ErrHeld = lease.ErrHeld
	// ErrLostLock says that the lease of the job was lost: another process may have it.
	ErrLostLock = errors.New("the lease of the job was lost")
	// ErrInterrupted says that the run was told to stop.
	ErrInterrupted = errors.New("told to stop")
	// ErrUpstreamDown says that several units of work in a row failed at the upstream.
	ErrUpstreamDown = errors.New("the upstream is down")

	// ErrMorePages says that work has fetched its pages of this run, and that there are
	// more. Its pass continues in the next run.
	ErrMorePages = errors.New("fetched the pages of this run; the next run goes on with the rest")

	errMaxRuntime = errors.New("max_runtime has passed")
)

// interrupted returns why the context of a run has ended.
func interrupted(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrLostLock) {
		return cause
	}
	return ErrInterrupted
}

// catalogError is an error of the catalog. It stops all work of the run.
type catalogError struct{ err error }

func (e *catalogError) Error() string { return e.err.Error() }
func (e *catalogError) Unwrap() error { return e.err }

// unsaved classifies an error of saving.
func unsaved(err error) error {
	if errors.Is(err, catalog.ErrFenced) {
		return fmt.Errorf("%w: %w", ErrLostLock, err)
	}
	return &catalogError{err}
}

// leftError marks work that was not started because of an error of other work.
type leftError struct{ err error }

func (e *leftError) Error() string { return "not started: " + e.err.Error() }
func (e *leftError) Unwrap() error { return e.err }

// downAfter is how many units of work must fail in a row before the upstream counts as
// down.
const downAfter = 5

// finish decides how a unit of work ended, and whether the others may continue.
func (r *run) finish(w *Work, done WorkReport) *WorkReport {
	var refused *quota.RefusedError
	var broken *catalogError
	var left *leftError
	now := r.clock.Now()
	halt := true
	done.State = catalog.Deferred
	switch err := done.Err; {
	case err == nil:
		done.State, halt = catalog.Done, false
	case errors.As(err, &refused):
		if done.ResumeAt = refused.RetryAt; refused.Blocked {
			done.blockedOn = refused.Pool.String()
		}
	case errors.Is(err, ErrInterrupted), errors.Is(err, ErrLostLock):
		done.ResumeAt = now
	case errors.Is(err, errMaxRuntime), errors.Is(err, meter.ErrBudget): // it resumes when it is due again
	case errors.Is(err, ErrMorePages):
		halt = false // it resumes when it is due again
	case errors.Is(err, quota.ErrOutage):
		done.ResumeAt = now.Add(recovery)
	case errors.Is(err, ErrUpstreamDown):
		done.ResumeAt = r.recoverAt()
	case errors.As(err, &left): // it has no result of its own
	case errors.As(err, &broken), errors.Is(err, meter.ErrCredential), isConfig(err):
		done.State = catalog.Failed
	default:
		done.State, halt = catalog.Failed, false
		if youtube.Temporary(err) {
			done.ResumeAt = r.recoverAt()
		}
	}
	if halt && !errors.As(done.Err, &left) {
		r.halt(done.Err)
	}
	r.count(&done)
	if !errors.As(done.Err, &broken) {
		outcome := catalog.Outcome{State: done.State, ResumeAt: done.ResumeAt, Error: message(done.Err), BlockedOn: done.blockedOn, Units: done.lost}
		if err := r.record.EndWork(context.WithoutCancel(r.abort), w.Name, w.Region, outcome); err != nil {
			r.halt(unsaved(err))
		}
	}
	r.logEnd(&done)
	r.mu.Lock()
	r.report.Work = append(r.report.Work, done)
	r.mu.Unlock()
	r.progress(Progress{Job: r.job.Name, Work: w.Name, Region: w.Region, Works: len(r.works), Page: done.Pages, Pages: r.job.Pages, Units: done.Units, Ended: &done})
	return &done
}

// count counts failures in a row, and halts the run if the upstream is down.
func (r *run) count(done *WorkReport) {
	r.mu.Lock()
	switch {
	case done.State == catalog.Done:
		r.fails = 0
	case done.State == catalog.Failed && youtube.Temporary(done.Err):
		r.fails++
	}
	down := r.fails >= min(downAfter, len(r.works))
	r.mu.Unlock()
	if down && done.State == catalog.Failed {
		r.halt(fmt.Errorf("%w: %w", ErrUpstreamDown, done.Err))
	}
}

// logEnd logs how a unit of work ended, unless it is done.
func (r *run) logEnd(done *WorkReport) {
	var refused *quota.RefusedError
	var left *leftError
	switch {
	case done.State == catalog.Done:
	case errors.As(done.Err, &left):
		r.log.Debug("left", "work", done.Work, "region", done.Region, resumeAt(done.ResumeAt))
	case errors.As(done.Err, &refused):
		r.log.Info("deferred", "work", done.Work, "region", done.Region, "pool", refused.Pool.String(), "left", refused.Remaining, resumeAt(done.ResumeAt))
	case done.State == catalog.Deferred:
		r.log.Log(context.Background(), deferralLevel(done.Err), "deferred", "work", done.Work, "region", done.Region, "error", done.Err, resumeAt(done.ResumeAt))
	default:
		r.log.Error("failed", "work", done.Work, "region", done.Region, "error", done.Err)
	}
}

// deferralLevel returns the level at which a deferral is logged. Work that the quota or a person
// deferred resumes by itself. An outage or a lost lease needs attention.
func deferralLevel(why error) slog.Level {
	for _, bad := range []error{quota.ErrOutage, ErrUpstreamDown, ErrLostLock} {
		if errors.Is(why, bad) {
			return slog.LevelWarn
		}
	}
	return slog.LevelInfo
}

// resumeAt returns the attribute for the time at which work resumes, if it is known.
func resumeAt(t time.Time) slog.Attr {
	if t.IsZero() {
		return slog.Attr{}
	}
	return slog.Time("resume_at", t)
}

// end sums up the run and records it.
func (r *run) end() *Report {
	rep := &r.report
	rep.Ended, rep.Units, rep.State = r.clock.Now(), r.budget.Spent(), catalog.Done
	order := make(map[string]int, len(r.works))
	for i, w := range r.works {
		order[w.Name] = i
	}
	slices.SortFunc(rep.Work, func(a, b WorkReport) int { return cmp.Compare(order[a.Work], order[b.Work]) })
	done := 0
	for _, w := range rep.Work {
		switch {
		case w.State == catalog.Done:
			done++
		case w.State == catalog.Failed:
			rep.State = catalog.Failed
		case w.State == catalog.Deferred && rep.State == catalog.Done:
			rep.State = catalog.Deferred
		}
		if !w.ResumeAt.IsZero() && (rep.ResumeAt.IsZero() || w.ResumeAt.Before(rep.ResumeAt)) {
			rep.ResumeAt = w.ResumeAt
		}
	}
	rep.Err = cmp.Or(rep.Err, r.halted)
	if rep.Err != nil && rep.State == catalog.Done {
		rep.State = catalog.Failed
	}
	var broken *catalogError
	if errors.As(rep.Err, &broken) && rep.ResumeAt.IsZero() {
		rep.ResumeAt = rep.Ended.Add(recovery)
	}
	if rep.Err != nil {
		level := slog.LevelWarn
		if rep.State == catalog.Deferred {
			level = deferralLevel(rep.Err)
		}
		r.log.Log(context.Background(), level, "stopped before all work was done", "error", rep.Err, "done", done, "of", len(r.works), resumeAt(rep.ResumeAt))
	}
	err := r.record.End(context.WithoutCancel(r.abort), catalog.Outcome{State: rep.State, ResumeAt: rep.ResumeAt, Error: message(rep.Err)})
	if err != nil {
		if rep.Err = unsaved(errors.Join(rep.Err, err)); errors.Is(err, catalog.ErrFenced) {
			rep.State = catalog.Deferred
		} else {
			rep.State = catalog.Failed
		}
	}
	return rep
}

// isConfig reports whether the price book or the configuration has to change.
func isConfig(err error) bool {
	for _, kind := range []error{quota.ErrImpossible, quota.ErrUnpriced, quota.ErrStaleBook, quota.ErrBadInput} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
