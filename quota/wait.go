package quota

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// maxJitter is how much later than it could a waiting call may try again, so that
// those who wait together do not come back together.
const maxJitter = 2 * time.Second

// Wait is [Ledger.Reserve] that waits for units to come back, if they do within
// most and before the context's deadline. A refusal that is farther off comes
// back at once, as does everything that waiting does not help. Cancelling the
// context ends the wait with its error.
func (l *Ledger) Wait(ctx context.Context, c Call, most time.Duration) (*Reservation, error) {
	if l.current() == nil {
		return nil, errNotMade
	}
	until := l.clock.Now().Add(most)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	for {
		r, err := l.Reserve(ctx, c)
		var refused *RefusedError
		if !errors.As(err, &refused) {
			return r, err
		}
		left := until.Sub(l.clock.Now())
		if refused.RetryAfter > left {
			return nil, err
		}
		if err := l.clock.Sleep(ctx, jittered(refused.RetryAfter, left)); err != nil {
			return nil, err
		}
	}
}

// jittered is a wait of at least d, a tenth longer at most, and not past left.
func jittered(d, left time.Duration) time.Duration {
	more := min(d/10, maxJitter, left-d)
	if more <= 0 {
		return d
	}
	return d + rand.N(more)
}
