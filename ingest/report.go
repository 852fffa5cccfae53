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
	Work   string
	Region string
	Tally
	State     catalog.State
	ResumeAt  time.Time
	BlockedOn string // the pool whose block defers it; may be empty
	Err       error
}

// Outcome returns what the catalog records of the work.
func (w *WorkReport) Outcome() catalog.Outcome {
	o := catalog.Outcome{
		State: w.State, ResumeAt: w.ResumeAt, Error: message(w.Err), BlockedOn: w.BlockedOn, Units: w.Lost + w.Unsaved,
		Charges: w.Owed, Cause: causeWord(w.Err), Refused: w.Refused,
	}
	if refused, is := errors.AsType[*quota.RefusedError](w.Err); is {
		o.Pool = refused.Pool.String()
	}
	return o
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

// The kinds of a [kindError].
var (
	// errCatalog marks an error of the catalog. It stops all work of the run.
	errCatalog = errors.New("the catalog failed")
	// errLeft marks work that was not started because of an error of other work.
	errLeft = errors.New("not started")
)

// kindError is an error of a kind that its text does not name.
type kindError struct {
	error
	kind error
}

func (e *kindError) Unwrap() []error { return []error{e.error, e.kind} }

func unsaved(err error) error {
	if errors.Is(err, catalog.ErrFenced) {
		return fmt.Errorf("%w: %w", ErrLostLock, err)
	}
	return &kindError{err, errCatalog}
}

// downAfter is how many units of work must fail in a row before the upstream counts as
// down.
const downAfter = 5

// Ended returns how a unit of work ended in this run. Its driver counts that in the run's
// [State], and records it.
func (r *Run) Ended(w *Work, err error) *WorkReport {
	done := &WorkReport{Work: w.Name, Region: w.Region, Tally: w.Tally, State: catalog.Deferred, Err: err}
	var refused *quota.RefusedError
	now := r.clock.Now()
	switch {
	case err == nil:
		done.State = catalog.Done
	case errors.As(err, &refused):
		if done.ResumeAt = refused.RetryAt; refused.Blocked {
			done.BlockedOn = refused.Pool.String()
		}
	case isAny(err, ErrInterrupted, ErrLostLock):
		done.ResumeAt = now
	case isAny(err, errMaxRuntime, meter.ErrBudget, ErrMorePages): // it resumes when it is due again
	case errors.Is(err, quota.ErrOutage), errors.Is(err, ErrHeld): // by ingestor exec, of the program of a fleet
		done.ResumeAt = now.Add(recovery)
	case errors.Is(err, ErrUpstreamDown):
		done.ResumeAt = r.recoverAt()
	case errors.Is(err, errLeft): // it has no result of its own
	case errors.Is(err, errCatalog), stopsAll(err):
		done.State = catalog.Failed
	default:
		done.State = catalog.Failed
		if youtube.Temporary(err) {
			done.ResumeAt = r.recoverAt()
		}
	}
	return done
}

// Count counts a unit of work that ended. It halts the run if the other work would end the
// same way, or if the upstream is down.
func (s *State) Count(done *WorkReport) {
	halt := done.State == catalog.Deferred && !errors.Is(done.Err, ErrMorePages) || errors.Is(done.Err, errCatalog) || stopsAll(done.Err)
	if halt && s.Halted == nil && !errors.Is(done.Err, errLeft) {
		s.Halted = done.Err
	}
	switch {
	case done.State == catalog.Done:
		s.Fails = 0
	case done.State == catalog.Failed && youtube.Temporary(done.Err):
		s.Fails++
	}
	if done.State == catalog.Failed && s.Fails >= min(downAfter, s.Works) && s.Halted == nil {
		s.Halted = fmt.Errorf("%w: %w", ErrUpstreamDown, done.Err)
	}
}

// finish counts, records and reports how a unit of work ended.
func (r *Run) finish(w *Work, err error) *WorkReport {
	done := r.Ended(w, err)
	r.mu.Lock()
	r.state.Count(done)
	r.mu.Unlock()
	if !errors.Is(done.Err, errCatalog) {
		if err := r.record.EndWork(context.WithoutCancel(r.abort), w.Name, w.Region, done.Outcome()); err != nil {
			r.halt(unsaved(err))
		}
	}
	r.Tell(done)
	r.mu.Lock()
	r.report.Work = append(r.report.Work, *done)
	r.mu.Unlock()
	return done
}

// Tell logs how a unit of work ended, and reports it as progress.
func (r *Run) Tell(done *WorkReport) {
	r.logEnd(done)
	r.progress(Progress{Job: r.job.Name, Work: done.Work, Region: done.Region, Works: r.state.Works, Page: done.Pages, Pages: r.job.Pages, Units: done.Units, Ended: done})
}

func (r *Run) logEnd(done *WorkReport) {
	var refused *quota.RefusedError
	switch {
	case done.State == catalog.Done:
	case errors.Is(done.Err, errLeft):
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
	if isAny(why, quota.ErrOutage, ErrUpstreamDown, ErrLostLock) {
		return slog.LevelWarn
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

// Sum sums up a run from what its work did.
func (r *Run) Sum(rep *Report) {
	rep.Ended, rep.State = r.clock.Now(), catalog.Done
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
	rep.Err = cmp.Or(rep.Err, r.state.Halted)
	switch {
	case rep.Err != nil && rep.State == catalog.Done:
		rep.State = catalog.Failed
	case rep.Err == nil && len(rep.Work) == 0 && !rep.Scheduled.IsZero():
		rep.State = catalog.Skipped
	}
	if errors.Is(rep.Err, errCatalog) && rep.ResumeAt.IsZero() {
		rep.ResumeAt = rep.Ended.Add(recovery)
	}
	if rep.Err != nil {
		level := slog.LevelWarn
		if rep.State == catalog.Deferred {
			level = deferralLevel(rep.Err)
		}
		r.log.Log(context.Background(), level, "stopped before all work was done", "error", rep.Err, "done", done, "of", r.state.Works, resumeAt(rep.ResumeAt))
	}
}

// Outcome returns what the catalog records of the run.
func (r *Report) Outcome() catalog.Outcome {
	o := catalog.Outcome{State: r.State, ResumeAt: r.ResumeAt, Error: message(r.Err)}
	if r.State == catalog.Skipped {
		o.Error = DoneSince
	}
	return o
}

// After does what a run does when all its work has ended.
func (r *Run) After() error {
	if after := r.job.Kind.row().after; after != nil {
		return after(r)
	}
	return nil
}

func (r *Run) end() *Report {
	rep := &r.report
	rep.Units = r.budget.Spent()
	order := make(map[string]int, len(r.works))
	for i, w := range r.works {
		order[w.Name] = i
	}
	slices.SortFunc(rep.Work, func(a, b WorkReport) int { return cmp.Compare(order[a.Work], order[b.Work]) })
	r.Sum(rep)
	if err := r.record.End(context.WithoutCancel(r.abort), rep.Outcome()); err != nil {
		if rep.Err = unsaved(errors.Join(rep.Err, err)); errors.Is(err, catalog.ErrFenced) {
			rep.State = catalog.Deferred
		} else {
			rep.State = catalog.Failed
		}
	}
	return rep
}

// stopsAll reports whether a person has to change the credential, the price book or the
// configuration.
func stopsAll(err error) bool {
	return isAny(err, meter.ErrCredential, quota.ErrImpossible, quota.ErrUnpriced, quota.ErrStaleBook, quota.ErrBadInput)
}

func isAny(err error, kinds ...error) bool {
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// How long to wait after an outage, or after an upstream failed. For an upstream the wait
// doubles with each failed run, because the upstream charges for errors.
const (
	recovery  = 5 * time.Minute
	doublings = 5 // so up to 160 minutes
)

// recoverAt returns when the upstream is called again. It is one time for all work of the
// run.
func (r *Run) recoverAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Recovered.IsZero() {
		r.state.Recovered = r.clock.Now().Add(recovery << r.setbacks())
	}
	return r.state.Recovered
}

// setbacks returns how many runs before this one failed in a row, up to doublings.
func (r *Run) setbacks() (n int) {
	runs, err := r.catalog.Runs(context.WithoutCancel(r.abort), catalog.RunsQuery{Job: r.job.Name, Limit: 1 + doublings, Made: true})
	if err != nil {
		r.log.Warn("read the runs before this one", "error", err)
	}
	for _, run := range runs {
		switch {
		case run.State == catalog.Running, len(run.Work) == 0: // this one, or one that made no calls
		case run.State == catalog.Failed:
			n++
		default:
			return n
		}
	}
	return n
}
