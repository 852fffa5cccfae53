package quota

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// Forgotten returns the pools of the price book whose spend the ledger has forgotten,
// each as the error that calls of it meet.
func (l *Ledger) Forgotten(ctx context.Context) (all []*ForgottenError, err error) {
	p := l.current()
	if p == nil {
		return nil, errNotMade
	}
	for _, key := range p.accountKeys("", "") {
		pools := p.accounts[key]
		for _, name := range slices.Sorted(maps.Keys(pools)) {
			c := pools[name]
			_, err := l.store.Look(ctx, []Charge{*c})
			if lost, ok := errors.AsType[*ForgottenError](err); ok {
				all = append(all, lost)
			} else if err != nil {
				return nil, l.storeError(ctx, "look at "+c.Pool.String(), err)
			}
		}
	}
	return all, nil
}

// Trust takes a pool up as the ledger has it, though something of it was forgotten: it
// assumes that nothing else was spent. If something was, [Ledger.Adjust] takes it up
// with the units to add. The reason is kept in the spend, as a correction of 0 units.
func (l *Ledger) Trust(ctx context.Context, pool Pool, reason string) error {
	c, err := l.current().pool(pool)
	if err != nil {
		return err
	}
	if reason == "" {
		return BadInput("trust %s: say why; the reason is kept in the spend", pool)
	}
	c.Units = 0
	_, err = l.store.Record(ctx, Request{ID: l.ids.next(), Charges: []Charge{c}, Labels: Labels{Reason: reason}, Restore: true})
	if err != nil {
		return l.storeError(ctx, "trust "+c.Pool.String(), err)
	}
	return nil
}

// Strays returns what was admitted for a ledger of another identity that stood at the
// same address. It stays in the journal and is never charged to this ledger.
func (l *Ledger) Strays(ctx context.Context) (all []Entry, err error) {
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
