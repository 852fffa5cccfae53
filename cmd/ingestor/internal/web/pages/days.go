package pages

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// daysRead is how many days of the ledger's spend KeepDays reads.
const daysRead = 30

// KeepDays saves the totals of each pool by the day in the catalog, which keeps them longer
// than the ledger. It may be called at any time, by several servers too.
func (b *Board) KeepDays(ctx context.Context) error {
	src := b.sources()
	now := b.o.Clock.Now()
	since := now.Add(-daysRead * day)
	spent, err := src.Ledger.View().Spend(ctx, quota.SpendQuery{Since: since}, quota.ByAccount, quota.ByDay)
	if err != nil {
		return err
	}
	// The spend is that of whole days, so the refusals must be.
	refusals, err := src.Catalog.Refusals(ctx, since.Add(-day))
	if err != nil {
		return err
	}
	type key struct{ pool, day string }
	sums := map[key]*catalog.PoolDay{}
	sum := func(pool, day string) *catalog.PoolDay {
		k := key{pool, day}
		if sums[k] == nil {
			sums[k] = &catalog.PoolDay{Pool: pool, Day: day}
		}
		return sums[k]
	}
	for _, sp := range spent {
		d := sum(sp.Pool.String(), sp.Day)
		d.Units += sp.Units
		d.Calls += sp.Calls
	}
	for _, f := range refusals {
		zone := zoneIn(src.Ledger.Book(), f.Pool)
		on := f.Hour.In(zone).Format(time.DateOnly)
		if on < since.In(zone).Format(time.DateOnly) {
			continue
		}
		d := sum(withoutKey(f.Pool), on) // as spend is
		d.Refused += f.Calls
		d.Blocked += stoppedBy(&f)
	}
	days := make([]catalog.PoolDay, 0, len(sums))
	for _, d := range sums {
		days = append(days, *d)
	}
	return src.Catalog.SaveDays(ctx, days)
}

// zoneIn returns the zone of the days of a pool of the price book.
func zoneIn(book *quota.Book, name string) *time.Location {
	pool, err := quota.ParsePool(name)
	if err != nil || book.Upstreams[pool.Upstream] == nil || book.Upstreams[pool.Upstream].Pools[pool.Name] == nil {
		return time.UTC
	}
	for _, w := range book.Upstreams[pool.Upstream].Pools[pool.Name].Windows {
		if w.Spec.Calendar() && w.Spec.Zone != nil {
			return w.Spec.Zone
		}
	}
	return time.UTC
}

func withoutKey(name string) string {
	if pool, err := quota.ParsePool(name); err == nil && pool.Name != "" {
		return pageOf(pool)
	}
	return name
}

// readDays reads the totals that the catalog keeps, and those of today from the ledger.
func (h *past) readDays(ctx context.Context, s *state, u *quota.Usage) error {
	days, err := s.src.Catalog.Days(ctx, h.pool, h.bars[0].key)
	if err != nil {
		return err
	}
	at := h.index()
	groups := map[string]*group{}
	latest := &past{pool: h.pool, by: byJob, span: "30d", zone: h.zone}
	latest.lay(s.Now)
	if err := latest.read(ctx, s, u); err != nil {
		return err
	}
	fresh := latest.index()
	for _, d := range days {
		k, ok := at[d.Day]
		if _, is := fresh[d.Day]; !ok || is {
			continue
		}
		h.add(groups, "all", "", k, d.Units)
		h.bars[k].refused, h.bars[k].blocked = d.Refused, d.Blocked
	}
	for i, one := range latest.bars {
		k := at[one.key]
		for _, g := range latest.groups {
			h.add(groups, "all", "", k, g.hours[i])
		}
		h.bars[k].refused, h.bars[k].blocked, h.bars[k].by = one.refused, one.blocked, one.by
	}
	h.rank(groups, s.colours(h.by))
	for i := range h.bars {
		h.refused += h.bars[i].refused
		h.blocked += h.bars[i].blocked
	}
	return nil
}
