package quota

import (
	"context"
	"sync"
	"time"
)

// Clock tells the time and waits. Tests and simulations use a [SimClock].
type Clock interface {
	Now() time.Time
	// Sleep returns nil after d, or the context's error if that comes first.
	Sleep(ctx context.Context, d time.Duration) error
}

// SystemClock is the machine's clock. It is the only code of this package that reads it.
type SystemClock struct{}

func (SystemClock) Now() time.Time { return time.Now() }

func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SimClock is a clock that stands still until it is moved. Sleeping on it moves
// it, so that a month passes in seconds. It is safe for concurrent use. A nil clock
// stands at the zero time, and sleeping on it is an error.
type SimClock struct {
	mu  sync.Mutex
	now time.Time
}

// NewSimClock returns a clock that stands at now.
func NewSimClock(now time.Time) *SimClock { return &SimClock{now: now} }

func (c *SimClock) Now() time.Time {
	if c == nil {
		return time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set moves the clock to now, forward or back.
func (c *SimClock) Set(now time.Time) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Advance moves the clock by d.
func (c *SimClock) Advance(d time.Duration) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Sleep implements [Clock]. It moves the clock forward by d and returns at once.
func (c *SimClock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c == nil {
		return BadInput("this clock was not made by quota.NewSimClock")
	}
	c.Advance(d)
	return nil
}

// timer runs f at an instant, in a goroutine of its own.
func (c SystemClock) timer(at time.Time, f func()) *time.Timer {
	return time.AfterFunc(at.Sub(c.Now()), f)
}
