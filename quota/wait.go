package quota

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// maxJitter is the longest random delay of a retry. In one ledger only the first call in
// line retries. Jitter keeps the first calls of several processes from retrying together.
// It is short, because all that a caller waits for too long is lost to it.
const maxJitter = 250 * time.Millisecond

// Wait is [Ledger.Reserve] that waits for units, if they come back within longest and
// before the context's deadline. If they come back later, it returns the refusal at once.
// It also returns at once any error that waiting does not help. If the context is
// cancelled, it returns the context's error.
//
// Calls of one job or owner that wait for the same pool, or the same member of a family, form
// a line: first come, first served. Only the first asks the store. Each grant takes at
// most two requests for units: one that says when to retry, and one that is granted. A call that
// charges several pools stands in the line of each. A light call does not pass a heavy
// one, because it would take units that the heavy one needs. Calls that share no pool
// pass each other. A call whose time runs out before the first in line can be served is
// refused at once.
//
// The first calls of all lines, in all processes that share the ledger, take turns, so that each
// job, each owner, and each process whose calls have neither gets as many units while it waits. Package fair
// says how. Calls of [Ledger.Reserve] are held back, too, while their job is ahead of one that waits.
//
// A call that waits for a slot, of a pool with in_flight, asks again after 25 ms, and then
// less and less often, up to four times a second. If a call of this ledger ends, it asks at
// once. Now and then it leaves that slot to another process for a moment, so that all get
// their share. A call that waits for units that it estimates asks again, too, up to once a
// second, because such calls give units back when they are settled. A call of a leased pool
// does so because other processes give back what their blocks have left. If the units of a call come back
// too late, it waits only while calls of this ledger are to be settled.
//
// A person may make room: unblock a pool, correct what is used, or raise a limit. The first call of a line looks for that
// each two seconds, or less often if there are hundreds of lines.
//
// If no call is waiting, a call asks the store at once. Reserve never waits in line, nor
// does a call that draws from a [Hold], which may pass waiting calls.
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
	price, err := l.priced(ctx, l.prices.Load(), &c)
	flow := ""
	defer func() {
		c.turn.leave(l)
		c.billTurn.leave(l)
	}()
	if err == nil && (l.turns.warm.Load() > 0 || l.line.waiting.Load() > 0) {
		flow = l.inTurn(&c, price)
	}
	if err != nil || !l.line.stands(flow, price.charges) {
		r, err := l.Reserve(ctx, c)
		if !errors.As(err, &refused) || price == nil {
			return r, err
		}
		if left := until.Sub(l.clock.Now()); refused.RetryAfter > left && !c.waitsFor().isHeld() && !l.maySettle(price, &refused.Verdict, left) {
			return r, err
		}
	} else {
		owned := c // Reserve does this itself
		if err := owned.own(); err != nil {
			return nil, l.failed(ctx, &c, err)
		}
		r, err := l.drawn(ctx, holdOf(ctx), &owned)
		if r != nil || err != nil && !errors.As(err, &refused) { // a call that is held back waits in line
			return r, err
		}
	}
	if c.turn == nil {
		flow = l.inTurn(&c, price)
	}
	if c.turn != nil {
		c.turn.ask.Waits = true
		c.turn.line = l.openLine(price.charges[0].account())
	}
	w := &waiter{until: until, came: came}
	l.line.join(w, flow, price.charges, l.clock.Now())
	defer func() { l.line.leave(w, l.clock.Now()) }()
	return l.waitInLine(ctx, c, w, price, refused)
}

// InLine reports whether calls of this ledger wait in the line in which [Ledger.Wait] would put a call.
func (l *Ledger) InLine(ctx context.Context, c Call) bool {
	prices := l.current()
	if prices == nil || l.line.waiting.Load() == 0 {
		return false
	}
	price, err := l.priced(ctx, prices, &c) // after an error, reserving meets it again
	return err == nil && l.line.stands(l.inTurn(&c, price), price.charges)
}

// inTurn lets a call take its turn among all processes, and returns its flow; "" if it has no turns and no slots.
func (l *Ledger) inTurn(c *Call, p *price) (flow string) {
	if c.billTurn == nil {
		c.billTurn = l.billTurn(l.current(), c, true)
	}
	if c.turn = l.turnOf(c, p); c.turn == nil && !p.slots {
		return ""
	} else if c.turn == nil {
		return l.flow(c)
	}
	c.turn.ask.Stays = true
	return c.turn.ask.Flow
}

// waitInLine waits for the turn of a waiter, and then for its units. If the call was just
// refused, its retry time is known already.
func (l *Ledger) waitInLine(ctx context.Context, c Call, w *waiter, price *price, refused *RefusedError) (*Reservation, error) {
	pause, woken := firstPause, false
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
			return nil, l.failed(ctx, &c, w.refusal(l.now(), l.clock.Now(), price.charges))
		}
		if refused == nil {
			now := l.clock.Now()
			if d := min(l.line.leaves(w, now), w.until.Sub(now)); d > 0 && !woken {
				var err error
				if woken, err = l.sleepUnlessFreed(ctx, w, d); err != nil {
					return nil, err
				}
				now = l.clock.Now()
			}
			r, err := l.Reserve(ctx, c)
			if err == nil || errors.Is(err, ErrRefused) {
				l.line.told(w, err == nil, now)
			}
			if errors.Is(err, ErrOutage) { // the others would each wait for the same answer
				l.line.disband(w)
			}
			if !errors.As(err, &refused) {
				return r, err
			}
		}
		now := l.clock.Now()
		left := w.until.Sub(now)
		held := left > 0 && c.waitsFor().isHeld()
		if held || left > 0 && l.maySettle(price, &refused.Verdict, left) {
			d := jittered(min(pause, refused.RetryAfter, left), left)
			pause, woken = min(2*pause, lastPause), false
			switch {
			case held:
				d, pause = min(c.waitsFor().pause(), left), firstPause
			case lacksSlot(&refused.Verdict, price.charges):
				pause = min(pause, slotPause)
			case c.turn != nil:
				pause = min(pause, lastTurn)
			}
			if l.line.asksAt(w, &nextAsk{at: now.Add(d), told: refused, soon: now}, now) {
				var err error
				if woken, err = l.sleepUnlessFreed(ctx, w, d); err != nil {
					return nil, err
				}
				if woken {
					pause = firstPause
				}
			}
			refused = nil
			continue
		}
		if refused.RetryAfter > left {
			return nil, refused
		}
		d := jittered(refused.RetryAfter, left)
		alone := refused.Reason == spacedReason || c.turn.yields(&refused.Verdict, price.charges)
		if alone { // no others need to wait for it
			c.turn.leave(l)
		}
		if l.line.asksAt(w, &nextAsk{at: now.Add(d), told: refused}, now) {
			shows := c.turn
			if alone {
				shows = nil
			}
			looks := refused.Blocked || refused.Reason != spacedReason && !price.learns
			if err := l.sleepInTurn(ctx, &c, w, shows, price.charges[0].account(), d, looks); err != nil {
				return nil, err
			}
		}
		refused = nil
	}
}

// sleepInTurn sleeps until units come back, and shows the call's ticket meanwhile, if it has a turn. If it looks, it also
// ends when a person has made room.
func (l *Ledger) sleepInTurn(ctx context.Context, c *Call, w *waiter, t *turn, of accountKey, d time.Duration, looks bool) error {
	look := l.clock.Now().Add(l.line.lookAfter())
	for end := l.clock.Now().Add(d); d > 0; d = end.Sub(l.clock.Now()) {
		if t != nil {
			t.shows(ctx, l, of, d)
			d = min(end.Sub(l.clock.Now()), t.ask.Life()/4)
		}
		if looks {
			d = min(d, look.Sub(l.clock.Now()))
		}
		if woken, err := l.sleepUnlessFreed(ctx, w, d); err != nil || woken {
			return err
		}
		if now := l.clock.Now(); looks && !now.Before(look) && now.Before(end) {
			if l.hasRoom(ctx, *c) {
				return nil
			}
			look = l.clock.Now().Add(l.line.lookAfter())
		}
	}
	return nil
}

// hasRoom reports whether units of a call that waits for them are left: a person has opened its pool, corrected what is
// used, or raised its limit. It only looks, so no refusal is counted. An error is left to the next question.
func (l *Ledger) hasRoom(ctx context.Context, c Call) bool {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	price, err := l.priced(ctx, l.current(), &c)
	if err == nil && len(price.charges) > 0 {
		price, err = l.adopted(ctx, &c, price, asksProbes)
	}
	if err != nil || len(price.charges) == 0 {
		return err == nil
	}
	states, err := l.store.Look(ctx, price.charges)
	if err != nil {
		return false
	}
	_, fits := fitting(price.charges, states)
	return fits
}

// A call that waits for a slot, or for units of which estimates are settled, asks again
// after these pauses: another process may have given some back.
const (
	firstPause = 25 * time.Millisecond
	slotPause  = 250 * time.Millisecond // the last one, for a slot
	lastPause  = time.Second
	// lookEvery is how often the first call of a line looks whether a person has made room, while it sleeps long.
	lookEvery = 2 * time.Second
)

// sleepUnlessFreed sleeps until a call of this ledger ends or gives units back.
func (l *Ledger) sleepUnlessFreed(ctx context.Context, w *waiter, d time.Duration) (woken bool, err error) {
	sleep, wake := context.WithCancel(ctx)
	defer wake()
	woken = l.line.sleeps(w, wake)
	err = l.clock.Sleep(sleep, d)
	woken = l.line.sleeps(w, nil) || woken
	if ctx.Err() == nil && err != nil && sleep.Err() != nil {
		err = nil
	}
	return woken, err
}

// jittered returns a random wait of d to 1.1 d, but at most left.
func jittered(d, left time.Duration) time.Duration {
	more := min(d/10, maxJitter, left-d)
	if more <= 0 {
		return d
	}
	return d + rand.N(more)
}
