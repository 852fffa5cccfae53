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
		charges := make([]Charge, 0, len(pools))
		for _, name := range slices.Sorted(maps.Keys(pools)) {
			charges = append(charges, pools[name].any)
		}
		_, _, lost, err := l.look(ctx, charges)
		if err != nil {
			return nil, l.storeError(ctx, "look at "+key.upstream, err)
		}
		for _, f := range lost {
			all = append(all, l.named(f))
		}
	}
	return all, nil
}

// look looks at pools, and leaves out those that the store has forgotten.
func (l *Ledger) look(ctx context.Context, charges []Charge) (known []Charge, states []PageState, lost []*ForgottenError, err error) {
	for len(charges) > 0 {
		states, err = l.store.Look(ctx, charges)
		f, forgotten := errors.AsType[*ForgottenError](err)
		i := slices.IndexFunc(charges, func(c Charge) bool { return forgotten && c.Pool == f.Pool })
		if i < 0 {
			return charges, states, lost, err
		}
		lost, charges = append(lost, f), slices.Delete(slices.Clone(charges), i, i+1)
	}
	return nil, nil, lost, nil
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
