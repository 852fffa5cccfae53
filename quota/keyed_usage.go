package quota

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// KeyLister is a store that lists the keys of a keyed pool.
type KeyLister interface {
	// Keys returns the keys of a keyed pool that were charged last, at most so many, and
	// how many keys the pool has in all. Keys that the price book lists may be left out.
	Keys(ctx context.Context, pool Pool, most int) (keys []string, all int, err error)
}

// shownKeys bounds the keys of a pool that Usage shows: those that were charged last, and
// those of the price book.
const shownKeys = 10

// keyUsage returns the usage of the keys of a pool, the fullest first. If no key was
// charged yet, it returns the limits of one.
func (l *Ledger) keyUsage(ctx context.Context, p *prices, k *keyed, look func(Charge, PageState, []adopted) Usage) ([]Usage, error) {
	var keys []string
	var many int
	if store, can := l.store.(KeyLister); can {
		var err error
		if keys, many, err = store.Keys(ctx, k.any.Pool, shownKeys); err != nil {
			return nil, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(k.own)) {
		if len(keys) < 2*shownKeys && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	charges := make([]Charge, len(keys))
	for i, key := range keys {
		charges[i] = k.charge(key)
	}
	charges, reported, _ := l.adoptLimits(ctx, p, charges, "", noProbes)
	charges, states, lost, err := l.look(ctx, charges)
	if err != nil {
		return nil, err
	}
	var all []Usage
	for i, s := range states {
		if s.Known && s.Pool.Key != "" {
			u := look(charges[i], s, reported)
			u.Keys = max(many, len(keys))
			all = append(all, u)
		}
	}
	if all == nil { // without a key, it is a page that nobody charges
		states, err := l.store.Look(ctx, []Charge{k.any})
		if err != nil {
			return nil, err
		}
		return []Usage{look(k.any, states[0], nil)}, nil
	}
	slices.SortStableFunc(all, func(a, b Usage) int { return cmp.Compare(b.share(), a.share()) })
	if len(lost) > 0 {
		return all, lost[0]
	}
	return all, nil
}

// share returns how full the fullest window is; a block is full.
func (u *Usage) share() (most float64) {
	if !u.Blocked.IsZero() {
		return 2
	}
	for _, w := range u.Allowances {
		most = max(most, float64(w.Used)/float64(max(w.Limit, 1)))
	}
	return most
}
