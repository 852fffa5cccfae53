package quota

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// A limit that an upstream reports about a pool that it counts itself holds until it reports
// another one. The store keeps it with the limits of keys: the family is [LimitsOfUpstream] and
// the upstream, and the key is the pool. So all processes obey it, and it survives a restart.
// The pool needs both limit: learn and a metric. The limit takes the place of the quota of the
// longest window, and of others of that length.

// LimitsOfUpstream begins the name under which the limits of an upstream's pools are kept. No
// family is called so. Earlier versions used the name of the upstream alone: such limits hold
// until they change, unless a family of the price book has that name.
const LimitsOfUpstream = "upstream:"

// sharedPools are the pools of an upstream whose reported limits all processes share.
type sharedPools struct {
	families []string // that have their limits; the first is where they are kept now
	pools    map[string]bool
}

// limitKeyOf returns the key under which the limit of a pool is kept.
func limitKeyOf(p Pool) string {
	if p.Account != DefaultAccount {
		return p.Name + "@" + p.Account
	}
	return p.Name
}

// share notes the pools of an upstream whose reported limits all processes share.
func (p *prices) share(u *book.Upstream) {
	s := &sharedPools{[]string{LimitsOfUpstream + u.Name}, make(map[string]bool)}
	for _, pool := range u.Pools {
		if pool.LearnLimit && pool.Metric != "" {
			s.pools[pool.Name] = true
			p.shared[u.Name] = s
		}
	}
	if p.book.Families[u.Name] == nil {
		s.families = append(s.families, u.Name)
	}
}

// shares reports whether all processes share the limit that is reported about a pool.
func (p *prices) shares(pool Pool) bool {
	s := p.shared[pool.Upstream]
	return s != nil && pool.Key == "" && s.pools[pool.Name]
}

// poolsOfLimits returns the pools whose limits a person means by a family: the upstream has its
// name, or its limits are kept under it. It is nil if the price book has such a family.
func (p *prices) poolsOfLimits(family string) *sharedPools {
	if p.families[family] != nil {
		return nil
	}
	return p.shared[strings.TrimPrefix(family, LimitsOfUpstream)]
}

// limitFamilies returns the names under which the limits of a family are kept.
func (p *prices) limitFamilies(family string) []string {
	if s := p.poolsOfLimits(family); s != nil {
		return s.families
	}
	return []string{family}
}

// sharedLimit returns the limit that takes the place of the quota in a window of a charge, or 0.
func (l *Ledger) sharedLimit(p *prices, c *Charge, index int) int64 {
	if !p.shares(c.Pool) {
		return 0
	}
	windows := p.windows(c.Pool)
	longest := observedWindow(windows, 0)
	if index >= len(windows) || windows[index].Length() != windows[longest].Length() || windows[index].Quota != windows[longest].Quota {
		return 0
	}
	return l.limits.quota(limitKeyOf(c.Pool), p.shared[c.Pool.Upstream].families...)
}

// adoptLimits returns charges with the limits that were reported, also to other processes.
func (l *Ledger) adoptLimits(ctx context.Context, p *prices, charges []Charge, limits func(*Charge, int, int64) int64) (all []Charge, changed bool, unknown error) {
	shared := len(charges) > 0 && p.shared[charges[0].Pool.Upstream] != nil
	if !shared && l.heard.adopted.Load() == 0 {
		return charges, false, nil
	}
	keeper, can := l.store.(LimitKeeper)
	for i := range charges {
		if pool := charges[i].Pool; can && p.shares(pool) {
			unknown = cmp.Or(unknown, l.freshLimit(ctx, keeper, limitKeyOf(pool), p.shared[pool.Upstream].families...))
		}
	}
	all, changed = l.heard.adopt(charges, limits, func(c *Charge, i int) int64 { return l.sharedLimit(p, c, i) }, l.now())
	return all, changed, unknown
}

// shareLimit keeps a limit for all processes, unless it is kept already. It reports whether
// it is. The quota of the price book needs no limit in its place.
func (l *Ledger) shareLimit(ctx context.Context, p *prices, pool Pool, limit, quota int64) bool {
	keeper, can := l.store.(LimitKeeper)
	if !can || !p.shares(pool) {
		return false
	}
	k := KeyLimit{Quota: min(limit, window.MaxUnits), By: "the upstream", Reason: "it reported this limit"}
	families := p.shared[pool.Upstream].families
	if k.Family, k.Key = families[0], limitKeyOf(pool); limit == quota {
		k.Quota = 0
	}
	_ = l.freshLimit(ctx, keeper, k.Key, families...) // an unknown one is set
	if l.limits.quota(k.Key, families...) == k.Quota {
		return true
	}
	within, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	_, err := l.SetLimit(within, k)
	if err != nil && !errors.Is(err, ErrNoLimits) {
		l.tell(ctx, Event{Kind: EventLimit, Pool: pool, Units: limit, Err: err})
	}
	return err == nil
}

// sharedUntil returns when the limit that all processes share may let a call through that
// is beyond it: the next period is the earliest.
func (l *Ledger) sharedUntil(v *Verdict, charges []Charge, now time.Time) (until time.Time, shared bool) {
	p := l.current()
	for i := range charges {
		for j := range charges[i].Windows {
			if charges[i].Pool != v.Pool || charges[i].Windows[j].Name != v.Window || l.sharedLimit(p, &charges[i], j) == 0 {
				continue
			}
			windows := p.windows(v.Pool)
			w := windows[observedWindow(windows, 0)]
			if !w.Calendar() {
				return now.Add(w.Length()), true
			}
			_, end := w.Bounds(window.At(now))
			return end.Time(), true
		}
	}
	return time.Time{}, false
}
