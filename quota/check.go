package quota

import (
	"cmp"
	"context"
	"errors"
)

// Check returns what [Ledger.Reserve] would return for a call, without taking units: a
// verdict if they would be granted, or else the same error. It is a snapshot: other callers
// may take the units before the call does. It ignores holds, calls that wait in line,
// earlier grants of the same ID, the allowance of an outage, and what was learned of a limit
// that nobody publishes. While the ledger is down, it returns the outage. The verdict's
// ResetAt is that of the units used so far.
func (l *Ledger) Check(ctx context.Context, c Call) (Verdict, error) {
	prices := l.current()
	if prices == nil {
		return Verdict{}, errNotMade
	}
	if prices.spends(&c) {
		charges, changed, err := l.billed(ctx, prices, &c)
		if err == nil && charges != nil {
			err = l.checkBill(ctx, prices, &c, charges, changed)
		}
		if err != nil {
			return Verdict{}, err
		}
	}
	price, err := l.priced(ctx, prices, &c)
	switch {
	case err != nil:
		return Verdict{}, err
	case len(price.charges) == 0: // unpriced, and the book says to admit it
		return Verdict{Allowed: true, At: l.clock.Now()}, nil
	}
	op := "check " + price.charges[0].Pool.String()
	if err := tooLate(ctx, op); err != nil {
		return Verdict{}, err
	}
	if labels := c.labels(); labels.check() != nil || c.ID != "" && !validID(c.ID) {
		r := Request{ID: c.ID, Charges: price.charges, Labels: labels}
		return Verdict{}, r.Check()
	}
	price, unknown := l.adopted(ctx, &c, price, asksProbes)
	if unknown != nil {
		return Verdict{}, unknown
	}
	v, err := l.check(ctx, &c, price, op)
	if err == nil && l.heard.spacing.Load() > 0 && !l.observes(&c) {
		if early := l.spaces(price.charges, "", false); early != nil {
			return Verdict{}, refusal(&c, *early)
		}
	}
	if l.excused(ctx, &c, err) || errors.Is(err, ErrImpossible) && l.observes(&c) {
		return Verdict{Allowed: true, Pool: price.charges[0].Pool, Units: price.charges[0].Units, At: l.now()}, nil
	}
	return v, err
}

// checkBill checks whether budgets have room for a bill, on the steps that the call would pass.
func (l *Ledger) checkBill(ctx context.Context, p *prices, c *Call, charges []Charge, changed []adopted) error {
	var why error
	err := p.stepsOf(c, charges).climb(c, func(charges []Charge) (refused Pool, err error) {
		_, why = l.check(ctx, c, &price{charges: charges, adopted: changed}, "check "+charges[0].Pool.String())
		if never, ok := errors.AsType[*ImpossibleError](why); ok {
			return never.Pool, nil
		}
		if full, ok := errors.AsType[*RefusedError](why); ok && !full.Blocked {
			return full.Pool, nil
		}
		return Pool{}, nil
	})
	return cmp.Or(err, p.slowed(why))
}

// check asks the store.
func (l *Ledger) check(ctx context.Context, c *Call, price *price, op string) (Verdict, error) {
	if l.heard.on.Load() {
		l.sendUrgent(ctx, price.charges)
	}
	states, err := l.store.Look(ctx, price.charges)
	if err != nil {
		return Verdict{}, l.storeError(ctx, op, err)
	}
	if v, fits := fitting(price.charges, states); fits {
		return v, nil
	}
	return l.whyNot(ctx, c, price, op)
}

// fitting reports whether charges fit into pools as they were seen, and the verdict on
// them: that of the window with the least left.
func fitting(charges []Charge, states []PageState) (v Verdict, fits bool) {
	v.Allowed = true
	for i, s := range states {
		if !s.Blocked.IsZero() {
			return Verdict{}, false
		}
		v.At = s.Now
		for _, w := range s.Windows {
			left := w.Limit - w.Used
			if left < charges[i].Units {
				return Verdict{}, false
			}
			if v.Window != "" && left-charges[i].Units >= v.Remaining {
				continue
			}
			v.Pool, v.Units, v.Window, v.Limit = s.Pool, charges[i].Units, w.Window, w.Limit
			v.Used, v.Remaining, v.ResetAt = w.Used+charges[i].Units, left-charges[i].Units, w.ResetAt
		}
	}
	return v, true
}

// whyNot returns the error of a call that does not fit. Only the store can say when it
// would, so it is asked for the units; a refusal takes none. If units came back just now,
// they are taken and released at once.
func (l *Ledger) whyNot(ctx context.Context, c *Call, price *price, op string) (Verdict, error) {
	r := Request{Charges: price.charges, Labels: c.labels()}
	if c.Family == "" { // families take no receipts
		r.ID, r.Fresh = l.ids.next(), true
	}
	v, err := l.store.Reserve(ctx, r)
	switch {
	case err != nil:
		return Verdict{}, l.storeError(ctx, op, err)
	case v.Allowed && v.Nonce != Nonce{}:
		_, err := l.settle(ctx, v.Token(), nil)
		v.ID, v.Nonce = "", Nonce{}
		return v, err
	case v.Allowed:
		return v, nil
	}
	l.explain(&v, price)
	v.ID = ""
	return Verdict{}, refusal(c, v)
}
