package quota

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// Forgotten returns the pools of the price book whose spend the ledger has lost. Each is
// the error that calls of the pool get.
func (v View) Forgotten(ctx context.Context) (all []*ForgottenError, err error) {
	l := v.ledger
	p := l.current()
	if p == nil {
		return nil, errNotMade
	}
	for _, key := range p.accountKeys("", "") {
		pools := p.accounts[key]
		for _, name := range slices.Sorted(maps.Keys(pools)) {
			c := pools[name].any
			_, err := l.store.Look(ctx, []Charge{c})
			if lost, ok := errors.AsType[*ForgottenError](err); ok {
				all = append(all, l.named(lost))
			} else if err != nil {
				return nil, l.storeError(ctx, "look at "+c.Pool.String(), err)
			}
		}
	}
	return all, nil
}

// named returns an error whose commands speak of this ledger.
func (l *Ledger) named(lost *ForgottenError) *ForgottenError {
	return &ForgottenError{Pool: lost.Pool, Born: lost.Born, Flag: l.flag}
}

// Trust accepts a pool as the ledger has it, although the ledger has lost some of its
// spend. It assumes that the lost spend was 0. If it was not, call [Admin.Adjust] with
// the missing units instead. The reason is kept in the spend, as a correction of 0 units.
func (a Admin) Trust(ctx context.Context, pool Pool, reason string) error {
	_, _, err := a.ledger.correct(ctx, "trust", pool, 0, reason)
	return err
}

// Strays returns the calls in the journal that were admitted for another ledger, which
// was at this address before. They stay in the journal and are never charged here.
func (v View) Strays(ctx context.Context) (all []Entry, err error) {
	l := v.ledger
	if l.current() == nil {
		return nil, errNotMade
	}
	if l.journal == nil {
		return nil, nil
	}
	entries, err := l.journal.Pending(ctx)
	if err != nil {
		return nil, err
	}
	store := identities{store: l.store}
	for i := range entries {
		same, err := store.match(ctx, &entries[i])
		if err != nil {
			return nil, l.storeError(ctx, "ask for the identity", err)
		}
		if !same {
			all = append(all, entries[i])
		}
	}
	return all, nil
}
