package sqlitestore

import (
	"cmp"
	"context"
	"database/sql/driver"
	"slices"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// Spend implements [pagestore.Backend]. The sums of old charges are kept: see [sums].
func (f *file) Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error) {
	select {
	case f.sums.turn <- struct{}{}:
		defer func() { <-f.sums.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	t, err := f.view(ctx)
	if err != nil {
		return nil, err
	}
	t.Within(ctx)
	all, err := f.spend(t, q)
	return all, t.End(err)
}

func (f *file) spend(t *tx, q quota.SpendQuery) ([]quota.Spent, error) {
	pools := map[int64]pool{}
	err := t.read("spend_pools", []driver.Value{q.Upstream, q.Account}, func(r sqlitefile.Row) error {
		pools[r.Int(0)] = pool{r.Text(1), r.Text(2)}
		return nil
	})
	if err != nil {
		return nil, err
	}
	shown, _ := storekit.SpendRange(window.At(t.now), quota.SpendQuery{})
	if err := f.sums.current(t, shown); err != nil {
		return nil, err
	}
	if err := f.sums.grow(t); err != nil {
		return nil, err
	}
	from, to := storekit.SpendRange(window.At(t.now), q)
	rest, err := f.sums.rest(t, from, to)
	if err != nil {
		return nil, err
	}
	found := days{}
	for _, part := range []days{f.sums.days, rest} {
		for day, sums := range part {
			if day < from || day > to {
				continue
			}
			for k, one := range sums {
				if _, asked := pools[k.birth]; !asked {
					continue
				}
				if !q.Hours {
					k.hour = 0
				}
				found.add(day, k, one)
			}
		}
	}
	return found.fold(q, pools)
}

// pool is what the spend says of the pool of a charge.
type pool struct{ name, zone string }

// fold returns the sums as spend, in the order in which their labels were first used.
func (d days) fold(q quota.SpendQuery, pools map[int64]pool) ([]quota.Spent, error) {
	type dated struct {
		day string
		key sumKey
		sum
	}
	var all []dated
	for day, sums := range d {
		for k, one := range sums {
			all = append(all, dated{day, k, one})
		}
	}
	slices.SortFunc(all, func(a, b dated) int { return cmp.Compare(a.first, b.first) })
	var folded storekit.Fold
	for i := range all {
		s, of := &all[i], pools[all[i].key.birth]
		one := quota.Spent{
			Pool: quota.Pool{Upstream: q.Upstream, Account: q.Account, Name: of.name}, Day: s.day, Labels: s.key.labels,
			Units: int64(min(s.units, window.MaxUnits)), Calls: s.calls,
		}
		if q.Hours {
			one.Hour = window.Instant(s.key.hour).Time().UTC()
		}
		if err := folded.Add(q, one, of.zone); err != nil {
			return nil, err
		}
	}
	return folded.All, nil
}
