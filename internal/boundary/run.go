package boundary

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Trial is a limiter before a timeline, and what came of it.
type Trial struct {
	Timeline Timeline
	Limiter  Limiter

	Boundary time.Time   // that the timeline is about
	Asked    []int       // by step
	Given    []int       // by step
	Accepted []time.Time // each request that was
}

// Run puts trials to their timelines, all at once on one clock, about a boundary at
// which both fixed windows of the rate's length and two-counter estimates begin anew:
// a multiple of that length since 1970. Limiters that decide by another clock than
// this one, such as a server's, need one that shows the same.
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

// after is the first boundary after an instant.
func after(t time.Time, per time.Duration) time.Time {
	us := per.Microseconds()
	return time.UnixMicro((t.UnixMicro()/us + 1) * us).UTC()
}

// each does something for all trials at once: they are asked at the same instant, even
// where an answer takes its time.
func each(trials []*Trial, do func(*Trial) error) error {
	failed := make([]error, len(trials))
	var all sync.WaitGroup
	for i, t := range trials {
		all.Go(func() { failed[i] = do(t) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// step takes the steps of an instant.
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
