package server

import (
	"context"
	"time"
)

// Clock tells a server the time, and waits. A quota.Clock is one.
type Clock interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
}

// System is the machine's clock. In a bubble of testing/synctest it is the bubble's.
type System struct{}

// Now implements [Clock].
func (System) Now() time.Time { return time.Now() }

// Sleep implements [Clock].
func (System) Sleep(ctx context.Context, d time.Duration) error { return sleep(ctx, d) }

// Scaled runs faster than the machine's clock. Processes with the same Start and Speed
// agree about the time.
type Scaled struct {
	Start time.Time // when both clocks were equal
	Speed int       // seconds of this clock in a second
}

// Now implements [Clock].
func (s Scaled) Now() time.Time {
	return s.Start.Add(time.Since(s.Start) * time.Duration(s.Speed)).Round(0)
}

// Sleep implements [Clock].
func (s Scaled) Sleep(ctx context.Context, d time.Duration) error {
	return sleep(ctx, d/time.Duration(s.Speed))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
