package sqlitefile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headroom-quota/headroom/internal/deadline"
)

// Patience bounds how long one operation waits for others, in real time. A caller whose own deadline
// comes first gets the error of its context: see package deadline.
type Patience struct {
	path   string
	most   time.Duration
	caller context.Context
	ctx    context.Context // of the wait; nil until the first wait
	cancel context.CancelFunc
}

// NewPatience returns the patience of an operation on the file at path. The time counts from
// the first wait. The caller must call End.
func NewPatience(ctx context.Context, path string, most time.Duration) *Patience {
	return &Patience{path: path, most: most, caller: ctx}
}

// Wait returns a channel that is closed when the time is over.
func (p *Patience) Wait() <-chan struct{} {
	if p.ctx == nil {
		p.ctx, p.cancel = context.WithTimeout(p.caller, p.most)
	}
	return p.ctx.Done()
}

// End releases the timer.
func (p *Patience) End() {
	if p.cancel != nil {
		p.cancel()
	}
}

// The first and the longest pause between two tries. A transaction takes a few hundred
// microseconds.
const (
	firstPause   = 50 * time.Microsecond
	longestPause = 2 * time.Millisecond
)

// Retry calls do until the file is not busy. It returns do's error, that of the caller's
// context, or one that says who may hold the file.
func (p *Patience) Retry(do func() error) error {
	err := do()
	for pause := firstPause; Busy(err); pause = min(2*pause, longestPause) {
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-p.Wait():
			timer.Stop()
			return p.Over(err)
		}
		err = do()
	}
	return err
}

// Over returns the error of a wait that is over; err is the last error or nil.
func (p *Patience) Over(err error) error {
	gone := deadline.Err(p.caller)
	switch {
	case gone != nil:
		return gone
	case err == nil:
		return fmt.Errorf("it was busy for %s: %s", p.most, holders(p.path))
	}
	return fmt.Errorf("it was busy for %s: %s: %w", p.most, holders(p.path), err)
}
