package ingest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// LastScheduled returns when the last scheduled run of a job was due, or zero. It ignores
// runs for a time in the future, which a clock that was ahead may have left, and those that could not take their lock.
func (r *Runner) LastScheduled(ctx context.Context, j *Job) (time.Time, error) {
	last, err := r.last(ctx, catalog.RunsQuery{Job: j.Name, Due: r.clock.Now()})
	return last.Scheduled, err
}

// last returns the last run that a query selects, without its work. Without one it returns the zero record.
func (r *Runner) last(ctx context.Context, q catalog.RunsQuery) (last catalog.RunRecord, err error) {
	q.Limit, q.Bare = 1, true
	runs, err := r.catalog.Runs(ctx, q)
	if err != nil {
		return last, fmt.Errorf("read the runs of %s: %w", q.Job, err)
	}
	if len(runs) > 0 {
		last = runs[0]
	}
	return last, nil
}

// Due returns the scheduled run that a job should make now, and whether there is one. It
// is the run for the latest time of the schedule, if no run was made for that time, or if
// its run broke off. Due is for programs that cron starts. Two programs may ask at the same
// time: a run skips work that was completed since its scheduled time.
func (r *Runner) Due(ctx context.Context, j *Job) (why Occasion, due bool, err error) {
	why, _, due, err = r.due(ctx, j)
	return why, due, err
}

// Overdue returns the first time of the schedule for which a job should have made a run and
// has not, and whether there is one. The time is zero if the job never had a scheduled run.
func (r *Runner) Overdue(ctx context.Context, j *Job) (first time.Time, due bool, err error) {
	why, last, due, err := r.due(ctx, j)
	if first = last; !last.IsZero() && why.Scheduled.After(last) {
		first = j.schedule.Next(last)
	}
	return first, due, err
}

// due is [Runner.Due], with the last scheduled time.
func (r *Runner) due(ctx context.Context, j *Job) (why Occasion, last time.Time, due bool, err error) {
	if last, err = r.LastScheduled(ctx, j); err != nil {
		return why, last, false, err
	}
	if at := j.schedule.Last(r.clock.Now()); at.After(last) {
		return Occasion{Scheduled: at}, last, true, nil
	}
	was, err := r.broken(ctx, j)
	return Occasion{Scheduled: last}, last, was && !last.IsZero(), err
}

// broken reports whether the job's last run broke off. Either its process was killed, or
// still runs, which the lock decides. Or the run failed, the time to retry has come, and no
// cursor has that time because nothing could be saved.
func (r *Runner) broken(ctx context.Context, j *Job) (bool, error) {
	switch last, err := r.last(ctx, catalog.RunsQuery{Job: j.Name, Made: true}); {
	case err != nil:
		return false, err
	case last.State == catalog.Running:
		return true, nil
	case last.Unlocked(): // its time is still due, by the schedule
		return false, nil
	case last.State != catalog.Failed || last.ResumeAt.IsZero() || last.ResumeAt.After(r.clock.Now()):
		return false, nil
	}
	deferred, err := r.ResumeAt(ctx, j, func(string) bool { return false }) // whether there is work, not when
	return deferred.IsZero(), err
}

// Work that the quota deferred resumes at the time that the ledger named. A block ends at a
// known time, too, but a person may lift it earlier. So work that a block deferred resumes
// as soon as the ledger reports the pool as open, in every process. Asking costs no units.

// ResumeAt returns when the first deferred work of a job can resume, or zero if no work was
// deferred. Open reports whether a pool is open. If open is nil, ResumeAt asks the ledger.
func (r *Runner) ResumeAt(ctx context.Context, j *Job, open func(pool string) bool) (first time.Time, err error) {
	works := r.works(j)
	if err := r.stalest(ctx, j, works); err != nil {
		return first, fmt.Errorf("read the cursors of %s: %w", j.Name, err)
	}
	if open == nil {
		open = r.Opened(ctx, j)
	}
	now := r.clock.Now()
	for _, w := range works {
		if at := w.ResumeAt(now, open); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, nil
}

// NextAt returns when a job resumes deferred work or is due again, whichever is first.
func (r *Runner) NextAt(ctx context.Context, j *Job) (time.Time, error) {
	next, err := r.ResumeAt(ctx, j, nil)
	if due := j.schedule.Next(r.clock.Now()); next.IsZero() || due.Before(next) {
		next = due
	}
	return next, err
}

// ResumeAt returns when deferred work can resume, or zero if it was not deferred.
func (w *Work) ResumeAt(now time.Time, open func(pool string) bool) time.Time {
	if at := w.cursor.ResumeAt; w.cursor.BlockedOn == "" || !at.After(now) || !open(w.cursor.BlockedOn) {
		return at
	}
	return now
}

// Opened returns a function that reports whether a pool of the job's account is open. At
// its first call it reads all pools from the ledger. If the ledger does not answer, no pool
// is open.
func (r *Runner) Opened(ctx context.Context, j *Job) func(pool string) bool {
	ask := sync.OnceValue(func() (pools []quota.Usage) {
		for _, upstream := range j.MayCall(r.ledger.Book()) {
			some, _ := r.ledger.View().Usage(ctx, upstream, account(j)) // without an answer no pool is open
			pools = append(pools, some...)
		}
		return pools
	})
	return func(pool string) bool {
		return slices.ContainsFunc(ask(), func(u quota.Usage) bool { return u.Pool.String() == pool && !u.Blocked.After(u.Now) })
	}
}

// DoneSince is why a run had nothing to do.
const DoneSince = "an earlier run did its work after it was due"

// Skips are times of a schedule that have no run.
type Skips struct {
	Times       int
	First, Last time.Time
}

// mostSkips bounds how many times are counted: two months of every minute.
const mostSkips = 100_000

// Skips returns the times between two others at which the job was due, by the schedule that it has now.
func (j *Job) Skips(after, before time.Time) (s Skips) {
	for at := j.schedule.Next(after); at.Before(before) && s.Times < mostSkips; at = j.schedule.Next(at) {
		s.Add(at)
	}
	return s
}

// Add adds a time.
func (s *Skips) Add(at time.Time) {
	if s.Times++; s.Times == 1 || at.Before(s.First) {
		s.First = at
	}
	if at.After(s.Last) {
		s.Last = at
	}
}

// Outcome is how the one record of them ends.
func (s Skips) Outcome(why string) catalog.Outcome {
	text := why
	if s.Times > 1 {
		text = fmt.Sprintf("%d times since %s: %s", s.Times, s.First.UTC().Format("2006-01-02 15:04 MST"), why)
	}
	return catalog.Outcome{State: catalog.Skipped, Error: text}
}

// Why times of a schedule were skipped.
const (
	NobodyThere = "no run began, as the schedule is now: no daemon was there, none could begin a run, or the run before took longer"
	StillBusy   = "the run before had not ended"
	TooLate     = "it was too late, by max_lateness"
)

// skipped records the times between the last scheduled run and this one.
func (r *Run) skipped(ctx context.Context, fence catalog.Fence, at time.Time) error {
	last, err := r.LastScheduled(ctx, r.job)
	if err != nil || last.IsZero() || at.IsZero() {
		return err
	}
	s := r.job.Skips(last, at)
	if s.Times == 0 {
		return nil
	}
	record, err := r.catalog.Begin(ctx, catalog.Start{Job: r.job.Name, Fence: fence, Scheduled: s.Last})
	if err == nil {
		err = record.End(ctx, s.Outcome(NobodyThere))
	}
	return err
}
