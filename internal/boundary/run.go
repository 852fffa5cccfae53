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
	Parallel int // how many requests of a burst are under way at a time; zero: 1

	Boundary time.Time   // of the timeline
	Asked    []int       // by step
	Given    []int       // by step
	Accepted []time.Time // times of the accepted requests

	mu sync.Mutex // held while the results are written
}

// Run runs trials at the same time on one clock. The boundary is a multiple of the rate's
// length since 1970, where fixed windows and two-counter estimates both start again, or
// since the time that a timeline names. Limiters with another clock, such as a server's, need
// it to show the same time.
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
	first := clock.Now().Add(-slices.Min(offsets))
	var instants []time.Time
	for _, t := range trials {
		t.Boundary = after(first, t.Timeline.Since, r.Per)
		for _, s := range t.Timeline.Steps {
			instants = append(instants, t.Boundary.Add(s.After))
		}
	}
	slices.SortFunc(instants, time.Time.Compare)
	for _, instant := range slices.CompactFunc(instants, time.Time.Equal) {
		if err := clock.Sleep(ctx, instant.Sub(clock.Now())); err != nil {
			return err
		}
		if err := each(len(trials), func(i int) error { return trials[i].step(ctx, instant.Sub(trials[i].Boundary)) }); err != nil {
			return err
		}
	}
	return nil
}

// after returns the first boundary after a time, if windows also begin at another.
func after(t, since time.Time, per time.Duration) time.Time {
	if since.IsZero() {
		since = time.UnixMicro(0)
	}
	us := per.Microseconds()
	begun := (t.UnixMicro() - since.UnixMicro()) / us
	return time.UnixMicro(since.UnixMicro() + (begun+1)*us).UTC()
}

// each calls a function concurrently, so that a slow answer does not delay the others.
func each(n int, do func(i int) error) error {
	failed := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { failed[i] = do(i) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// step runs the steps of one time. A burst that stops at a refusal is sent one by one.
func (t *Trial) step(ctx context.Context, offset time.Duration) error {
	for i, s := range t.Timeline.Steps {
		if s.After != offset {
			continue
		}
		callers := min(max(t.Parallel, 1), max(s.Ask, 1))
		if s.Give {
			callers = 1
		}
		if err := each(callers, func(int) error { return t.ask(ctx, i) }); err != nil {
			return err
		}
	}
	return nil
}

// ask sends what is left of a step.
func (t *Trial) ask(ctx context.Context, i int) error {
	s := t.Timeline.Steps[i]
	next := func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.Asked[i] == s.Ask {
			return false
		}
		t.Asked[i]++
		return true
	}
	for next() {
		at, accepted, err := t.Limiter(ctx)
		if err != nil {
			return err
		}
		if !accepted && s.Give {
			return nil
		}
		if accepted {
			t.mu.Lock()
			t.Given[i]++
			t.Accepted = append(t.Accepted, at)
			t.mu.Unlock()
		}
	}
	return nil
}
