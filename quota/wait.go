package quota

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// maxJitter is how much later than it could a waiting call may try again. Of the
// calls of a ledger one asks for a pool, so jitter is for those of other processes:
// each has its first in line, and these must not come back together.
const maxJitter = 2 * time.Second

// Wait is [Ledger.Reserve] that waits for units to come back, if they do within
// longest and before the context's deadline. A refusal that is farther off comes
// back at once, as does everything that waiting does not help. Cancelling the
// context ends the wait with its error.
//
// Calls of a ledger that wait for the same pool, or the same member of a family, form
// a line: first come, first served. The first asks the store, and each grant takes
// two questions at most: one that tells when to come again, and one that is granted.
// A call that charges several pools stands in the line of each. A light call does not
// pass a heavy one, because its units would be missing when the heavy one's turn
// comes; calls that share no pool pass each other. A call whose time runs out before
// the first in line can be served is refused at once.
//
// A call that finds nobody waiting asks at once, beside others. Reserve never stands
// in line, nor does a call that draws from a [Hold]: both may pass those who wait.
func (l *Ledger) Wait(ctx context.Context, c Call, longest time.Duration) (*Reservation, error) {
	if l.current() == nil {
		return nil, errNotMade
	}
	until := l.clock.Now().Add(longest)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	came := l.line.came.Add(1)
	var refused *RefusedError
	price, err := l.prices.Load().lookup(&c)
	if err != nil || !l.line.stands(price.charges) {
		r, err := l.Reserve(ctx, c)
		if !errors.As(err, &refused) || refused.RetryAfter > until.Sub(l.clock.Now()) || price == nil {
			return r, err
		}
	} else if r, err := l.drawn(ctx, &c); r != nil || err != nil {
		return r, err
	}
	w := &waiter{until: until, came: came}
	l.line.join(w, price.charges, l.clock.Now())
	defer func() { l.line.leave(w, l.clock.Now()) }()
	return l.waitInLine(ctx, c, w, price.charges, refused)
}

// waitInLine waits for the turn of a waiter, and then for its units. It may have been
// refused a moment ago, and then it need not ask again to know when to come.
func (l *Ledger) waitInLine(ctx context.Context, c Call, w *waiter, charges []Charge, refused *RefusedError) (*Reservation, error) {
	for {
		select {
		case <-w.turn:
		default:
			refused = nil // others come first, so it will be another time
			select {
			case <-w.turn:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if w.tooLate != nil {
			return nil, l.failed(&c, w.tooLate.refusal(l.now(), l.clock.Now(), charges))
		}
		if refused == nil {
			r, err := l.Reserve(ctx, c)
			if errors.Is(err, ErrOutage) { // the others would each wait for the same answer
				l.line.disband(w)
			}
			if !errors.As(err, &refused) {
				return r, err
			}
		}
		now := l.clock.Now()
		left := w.until.Sub(now)
		if refused.RetryAfter > left {
			return nil, refused
		}
		d := jittered(refused.RetryAfter, left)
		if l.line.asksAt(w, &nextAsk{at: now.Add(d), told: refused}, now) {
			if err := l.clock.Sleep(ctx, d); err != nil {
				return nil, err
			}
		}
		refused = nil
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
