package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// A reservation passes these parts, in this order. Each is entered only if it has something to do:
//
//	Reserve   the owner, the bill in money, the hold that may pay
//	priced    the price, by the limits of its key that are set at run time
//	reserve   limits in place of the price book's; what an outage or mode observe makes of a failure;
//	          what a grant begins
//	ask       the journal, remembered refusals, reports of answers, blocks, spacing, turns, learned limits, the store;
//	          then each learns from its answer, and the observer is told

// Reserve takes the units of a call before it is sent. It returns a [Reservation] if they
// are granted; without a further call they count as spent. Otherwise it returns an error
// that says why and when to retry: see [RefusedError], [ImpossibleError],
// [UnpricedError], [OutageError], [StaleBookError] and [ErrBadInput]. A refused call
// costs nothing.
//
// A caller whose context ends before the ledger has answered gets the context's error. The call is neither
// refused nor admitted, and what it may have taken is released behind the caller, unless the caller chose
// its ID: then asking again with that ID returns the grant.
//
// Under the context of a [Hold], Reserve draws from the hold while units are left in it.
func (l *Ledger) Reserve(ctx context.Context, c Call) (*Reservation, error) {
	prices := l.current()
	if prices == nil {
		return nil, errNotMade
	}
	if c.Owner != "" || c.ID != "" {
		if err := c.own(); err != nil {
			return nil, l.failed(ctx, &c, err)
		}
	}
	if c.turn != nil {
		c.turn.held = false // whoever refuses it now
	}
	var b *bill
	var r *Reservation
	var err error
	if prices.spends(&c) {
		if b, err = l.bill(ctx, prices, &c); err != nil {
			return nil, l.failed(ctx, &c, err)
		}
	}
	if h := holdOf(ctx); h != nil {
		r, err = l.drawn(ctx, h, &c)
	}
	if r == nil && err == nil {
		price, unknown := l.priced(ctx, prices, &c)
		r, err = l.reserve(ctx, &c, price, unknown)
	}
	if b != nil {
		if err != nil && c.stepOf != "" {
			err = fmt.Errorf("%w\nA step of budget %s gives its calls the class %s now", err, c.stepOf, c.Class)
		}
		return b.join(ctx, l, r, err)
	}
	return r, err
}

// reserve takes the units of a call whose price is known, unless there is an error. An outage while it was priced is
// that of the call.
func (l *Ledger) reserve(ctx context.Context, c *Call, price *price, err error) (*Reservation, error) {
	if err != nil && !errors.Is(err, ErrOutage) {
		return nil, l.failed(ctx, c, err)
	}
	r := &Reservation{ledger: l, price: price}
	id, fresh := c.ID, c.ID == "" && c.Family == ""
	if fresh {
		if id = l.ids.next(); c.Owner != "" {
			id = ownedID(c.Owner, id)
		}
	}
	if len(price.charges) == 0 {
		return l.unpriced(ctx, c, r, id), nil
	}
	if l.heard.adopted.Load() > 0 || l.limits.held.Load() || !l.fresh() {
		var unknown error
		r.price, unknown = l.adopted(ctx, c, price, takesProbes)
		err = cmp.Or(err, unknown)
	}
	if err == nil {
		err = l.ask(ctx, c, id, fresh, r.price, &r.Verdict)
	}
	if err != nil {
		return l.undecided(ctx, c, r.price, id, err)
	}
	if price = r.price; !r.Allowed {
		if l.observes(c) {
			r.ID = id
			return l.letThrough(ctx, c, price, r.Verdict)
		}
		return nil, refusal(c, r.Verdict)
	}
	if price.keyed != nil {
		r.later = &later{labels: c.labels()}
	}
	if price.slots || price.atEnd != "" || len(price.depends) > 0 { // also if it is a repeat: the first answer may not have come
		l.keepReceipt(r)
	}
	return r, nil
}

// ask asks for charges: all who may refuse them without the store, and then the store. An error
// says that nobody has decided.
func (l *Ledger) ask(ctx context.Context, c *Call, id string, fresh bool, price *price, v *Verdict) error {
	charges := price.charges
	first := charges[0].Pool
	if ctx.Err() != nil {
		return tooLate(ctx, "reserve "+first.String())
	}
	if l.journal != nil && l.pending.Load() && c.Family == "" {
		if err := l.replayMost(ctx); err != nil {
			return err
		}
	}
	believes := (l.refusals.most > 0 || c.Family != "") && (fresh || id == "") && l.refusals.believes(charges) > 0
	var began time.Time
	if l.watch != nil || believes {
		began = l.clock.Now()
	}
	if believes && l.refusals.refuses(charges, began, v) {
		v.ID = id
		l.answered(ctx, c, *v, 0)
		return nil
	}
	heard := l.heard.on.Load()
	if heard {
		l.sendUrgent(ctx, charges)
	}
	turn := c.turn
	if turn == nil && l.turns.warm.Load() > 0 {
		turn = l.turnOf(c, price)
	}
	var before *Verdict
	var anew bool
	var err error
	if turn != nil || price.learns || l.shut.many.Load() > 0 || l.heard.spacing.Load() > 0 {
		before, anew, err = l.passes(ctx, c, id, price, turn)
	}
	switch {
	case err != nil:
		return err
	case before != nil:
		if *v = *before; !fresh && !v.Probing && (turn == nil || !turn.ask.Waits) && l.repeats(ctx, c, id, charges, v) && turn != nil {
			turn.held = false
		}
		l.answered(ctx, c, *v, 0)
		return nil
	}
	mark, cleared := l.shut.noted.Load(), l.refusals.cleared.Load() // before the store is asked
	crowded := turn != nil && turn.line != nil
	if *v, err = l.store.Reserve(ctx, Request{ID: id, Fresh: fresh, Crowded: crowded, Charges: charges, Labels: c.labels()}); err != nil {
		l.notSent(first, id, anew)
		l.heard.notSpaced(price)
		return l.storeError(ctx, "reserve "+first.String(), err)
	}
	if l.journal != nil || v.Blocked { // until when by our clock
		l.offset.Store(int64(v.At.Sub(l.clock.Now())))
	}
	switch {
	case !v.Allowed:
		l.notSent(first, id, anew)
		l.heard.notSpaced(price)
		l.explain(v, price)
		if believes {
			l.refusals.learn(v, charges, began, cleared)
		}
	case anew && v.Repeat: // it was sent before
		l.learned(first.Upstream, first.Account, id, wasNotSent, false)
	case anew:
		l.letThroughAs(v)
	}
	if v.Blocked || l.shut.many.Load() > 0 {
		l.shut.learn(v, charges, id, mark)
	}
	if heard {
		l.heard.note(v, charges, price.held, l.current(), l.now())
	}
	if turn != nil {
		l.hadTurn(turn, v, charges)
	} else if every := price.peeks(v); every > 0 {
		l.peek(c, price, v, every)
	}
	if l.watch != nil {
		l.answered(ctx, c, *v, l.clock.Now().Sub(began))
	}
	return nil
}

// passes asks all who may hold a call back: a block that has just ended, the spacing of calls, others that wait, and a
// rate that is learned. A spaced call takes its place after its turn has come. It returns the verdict of the first that does. Anew says that a rate has let the call through.
func (l *Ledger) passes(ctx context.Context, c *Call, id string, price *price, t *turn) (before *Verdict, anew bool, err error) {
	if before = l.shut.enter(c, price.charges, id, l.now()); before != nil {
		return before, false, nil
	}
	spaces := l.heard.spacing.Load() > 0 && !price.held && !l.observes(c)
	if spaces {
		before = l.spaces(price.charges, id, false)
	}
	if before == nil && t != nil {
		before = l.takesTurn(ctx, id, price.charges, t)
	}
	taken := false
	if before == nil && spaces {
		before = l.spaces(price.charges, id, true)
		taken = before == nil
	}
	if before == nil && price.learns && !l.observes(c) {
		before, anew, err = l.pace(ctx, c, id, price.charges)
	}
	if before != nil || err != nil {
		if l.notSent(price.charges[0].Pool, id, false); taken {
			l.heard.notSpaced(price)
		}
	}
	return before, anew, err
}

// notSent says that a call which has passed is not sent after all.
func (l *Ledger) notSent(first Pool, id string, anew bool) {
	l.probed(first.Upstream, first.Account, id, false, false)
	if anew {
		l.learned(first.Upstream, first.Account, id, wasNotSent, false)
	}
}

// repeats reports whether a call that its rate holds back was granted before, by the id that its caller
// chose. Then v is that grant.
func (l *Ledger) repeats(ctx context.Context, c *Call, id string, charges []Charge, v *Verdict) bool {
	granted, err := l.store.Reserve(ctx, Request{ID: id, Charges: charges, Labels: c.labels()})
	if err != nil || !granted.Allowed {
		return false // the rate says when to come again
	}
	if granted.Repeat {
		*v = granted
		return true
	}
	_, _ = l.settle(ctx, granted.Token(), nil) // without an answer it counts as spent
	return false
}

// explain completes what a store says of a refusal.
func (l *Ledger) explain(v *Verdict, price *price) {
	if v.Blocked {
		if v.attribute(); isUnexplained(v.Reason) {
			for i := range price.charges {
				if price.charges[i].Pool == v.Pool {
					l.heard.shut(&price.charges[i], v.RetryAt)
				}
			}
		}
	}
	l.slots.slotsTaken(v, price.charges)
	l.notForever(v, price.adopted)
}

// undecided is what becomes of a call that nobody has decided on: an outage may admit it, and mode
// observe lets it through.
func (l *Ledger) undecided(ctx context.Context, c *Call, price *price, id string, why error) (*Reservation, error) {
	r, err := (*Reservation)(nil), why
	if errors.Is(why, ErrOutage) {
		r, err = l.admit(ctx, c, price, id, why)
	}
	if err != nil && l.excused(ctx, c, err) {
		return l.uncounted(ctx, c, price, id, l.now(), err), nil
	}
	return r, l.unseen(ctx, c, r, why, err)
}

// unpriced lets a call through that has no price, as the price book says.
func (l *Ledger) unpriced(ctx context.Context, c *Call, r *Reservation, id string) *Reservation {
	r.Verdict = Verdict{Allowed: true, ID: id, At: l.clock.Now()}
	if l.watch != nil {
		e := Event{Kind: EventUnpriced, Call: l.told(c), Verdict: r.Verdict}
		if r.price.err != nil {
			e.Kind, e.Err = EventObserved, r.price.err
		}
		l.watch.Observe(ctx, e)
	}
	return r
}

// refusal returns the error for a refusal.
func refusal(c *Call, v Verdict) error {
	if v.Impossible {
		return &ImpossibleError{Pool: v.Pool, Window: v.Window, Class: c.Class, Units: v.Units, Limit: v.Limit}
	}
	return &RefusedError{v}
}
