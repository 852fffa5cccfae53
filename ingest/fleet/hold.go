package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/headroom-quota/headroom/ingest"
)

// The program of a job runs as long as it likes. River would end its job after a slice, and
// then give it to another worker. Instead the worker of a program says again and again that
// it has just begun: River takes the job from it only if it stops saying so.

// holds is how often it does, in the time after which River takes a job away.
const holds = 5

// Timeout implements [river.Worker]. River asks when a job begins, and when it finds that its
// worker has not said for long that it has it.
func (w *worker) Timeout(job *river.Job[Args]) time.Duration {
	j, _ := w.f.job(job.Args)
	if j == nil || !j.Kind.Runs() {
		return 0 // that of all jobs
	}
	if rescue := w.f.o.Timing.Rescue; job.AttemptedAt != nil && machine().Sub(*job.AttemptedAt) >= rescue {
		return rescue
	}
	return -1 // none
}

// Hold keeps the job until stop is called. The returned context ends if another worker may
// have taken it, or when the grace of this process has ended.
func (u *unit) Hold(ctx context.Context) (held context.Context, stop func()) {
	s := u.slice
	every := s.f.o.Timing.Rescue / holds
	held, lose := context.WithCancelCause(ctx)
	lost := func() { lose(ingest.ErrLostLock) }
	graced := context.AfterFunc(s.f.state().hard, lost)
	quiet, quit := context.WithCancel(context.WithoutCancel(ctx))
	var side sync.WaitGroup
	side.Go(func() {
		for last := s.f.clock.Now(); s.f.clock.Sleep(quiet, every) == nil; {
			err := s.hold(context.WithoutCancel(quiet)) // its answer says when
			switch {
			case err == nil:
				last = s.f.clock.Now()
			case errors.Is(err, errFenced), s.f.clock.Now().Sub(last) > (holds-1)*every:
				lost()
				return
			}
		}
	})
	return held, func() {
		quit()
		side.Wait()
		if len(s.asked) > 0 { // the fence has to know which time holds
			_ = s.hold(context.WithoutCancel(ctx)) // else the fence says that the job is lost
		}
		graced()
		lose(nil)
	}
}

func (s *slice) hold(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	at := s.f.clock.Now().Truncate(time.Microsecond)
	times := append([]time.Time{*s.river.AttemptedAt}, s.asked...)
	err := s.f.pool.QueryRow(ctx, sql("hold"), s.river.ID, s.river.Attempt, times, s.f.id, at).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return errFenced
	}
	if err != nil { // it may have been done all the same
		s.asked = append(s.asked, at)
		return err
	}
	s.river.AttemptedAt, s.asked = &at, nil
	return nil
}
