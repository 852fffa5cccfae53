package boundary

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Trial is a limiter on a timeline, with the result.
type Trial struct {
	Timeline Timeline
	Limiter  Limiter

	Boundary time.Time   // of the timeline
	Asked    []int       // by step
	Given    []int       // by step
	Accepted []time.Time // times of the accepted requests
}

// Run runs trials at the same time on one clock. The boundary is a multiple of the rate's
// length since 1970, where fixed windows and two-counter estimates both start again.
// Limiters with another clock, such as a server's, need it to show the same time.
func Run(ctx context.Context, clock quota.Clock, r Rate, trials []*Trial) error {
	var offsets []time.Duration
	for _, t := range trials {
		t.Asked, t.Given = make([]int, len(t.Timeline.Steps)), make([]int, len(t.Timeline.Steps))
		for _, s := range t.Timeline.Steps {
			offsets = append(offsets, s.After)
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	slices.Sort(offsets)
	boundary := after(clock.Now().Add(-offsets[0]), r.Per)
	for _, offset := range slices.Compact(offsets) {
		if err := clock.Sleep(ctx, boundary.Add(offset).Sub(clock.Now())); err != nil {
			return err
		}
		if err := each(trials, func(t *Trial) error { t.Boundary = boundary; return t.step(ctx, offset) }); err != nil {
			return err
		}
	}
	return nil
}

// after returns the first boundary after a time.
func after(t time.Time, per time.Duration) time.Time {
	us := per.Microseconds()
	return time.UnixMicro((t.UnixMicro()/us + 1) * us).UTC()
}

// each calls a function for all trials concurrently, so that a slow answer does not delay
// the others.
func each(trials []*Trial, do func(*Trial) error) error {
	failed := make([]error, len(trials))
	var all sync.WaitGroup
	for i, t := range trials {
		all.Go(func() { failed[i] = do(t) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// step runs the steps of one time.
func (t *Trial) step(ctx context.Context, offset time.Duration) error {
	for i, s := range t.Timeline.Steps {
		if s.After != offset {
			continue
		}
		for t.Asked[i] < s.Ask {
			t.Asked[i]++
			at, accepted, err := t.Limiter(ctx)
			if err != nil {
				return err
			}
			if accepted {
				t.Given[i]++
				t.Accepted = append(t.Accepted, at)
			} else if s.Give {
				break
			}
		}
	}
	return nil
}
