package quota

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// LimitTrial is what a limit would do that was not set.
type LimitTrial struct {
	Family  string    `json:"family"`
	Key     string    `json:"key"`
	Quota   int64     `json:"quota"` // 0: the limit would be removed
	Until   time.Time `json:"until,omitzero"`
	Window  string    `json:"window"`     // which would have the least left
	Used    int64     `json:"used"`       // of it, now
	Before  int64     `json:"limit_now"`  // of it, less the headroom
	Limit   int64     `json:"limit_then"` // of it, less the headroom
	Refused bool      `json:"refused"`    // even a call of one unit would be refused now
}

// TryLimit says what [Admin.SetLimit] would do with a limit. It changes nothing. A key of a full
// family, which has no place of its own, shows no use: it counts with others.
func (a Admin) TryLimit(ctx context.Context, k KeyLimit) (trial LimitTrial, err error) {
	l := a.ledger
	if k, err = a.CheckLimit(k); err != nil {
		return trial, err
	}
	was, err := a.KeyLimit(ctx, k.Family, k.Key)
	if err != nil {
		return trial, err
	}
	if k.Quota == 0 && (was == nil || was.Quota == 0) {
		return trial, noLimitSet(&k)
	}
	p := l.current()
	var c Charge
	var then []window.Limit
	if f := p.families[k.Family]; f != nil {
		c = f.charge(pageKey(k.Key))
		if then = f.ofQuota(k.Key, k.Quota); k.Quota == 0 || then == nil {
			then = c.Windows
		}
		if was != nil && was.Holds(l.now()) {
			if set := f.ofQuota(k.Key, was.Quota); set != nil {
				c.Windows, c.MaxKeys = set, 0
			}
		}
	} else if c, then, err = l.tryPool(ctx, p, &k); err != nil {
		return trial, err
	}
	_, states, lost, err := l.look(ctx, []Charge{c})
	if err == nil && len(lost) > 0 {
		err = lost[0]
	}
	if err != nil {
		return trial, l.storeError(ctx, "look at "+c.Pool.String(), err)
	}
	trial = LimitTrial{Family: k.Family, Key: k.Key, Quota: k.Quota, Until: k.Until}
	for i, w := range states[0].Windows {
		if i == 0 || then[i].Limit-w.Used < trial.Limit-trial.Used {
			trial.Window, trial.Used, trial.Before, trial.Limit = then[i].Name, w.Used, w.Limit, then[i].Limit
		}
	}
	trial.Refused = trial.Used >= trial.Limit || !states[0].Blocked.IsZero()
	return trial, nil
}

// tryPool returns the charge of the pool that a limit is about, and what its windows would be.
func (l *Ledger) tryPool(ctx context.Context, p *prices, k *KeyLimit) (c Charge, then []window.Limit, err error) {
	pool, _ := splitPlace(k.Key)
	pool.Upstream = strings.TrimPrefix(k.Family, LimitsOfUpstream)
	if c, err = p.pool(pool); err != nil {
		return c, nil, err
	}
	charges, _, err := l.adoptLimits(ctx, p, []Charge{c}, "", noProbes)
	if err != nil {
		return c, nil, err
	}
	windows, found := p.windows(c.Pool), false
	then = slices.Clone(charges[0].Windows)
	for i := range then {
		if key, _ := p.shared[pool.Upstream].place(pool, windows, i); key != k.Key {
			continue
		}
		found = true
		if then[i] = c.Windows[i]; k.Quota > 0 {
			in := withLimit(&windows[i], k.Quota, k.Headroom)
			then[i].Limit = max(in.Limit(book.Class{}), 0)
		}
	}
	if !found {
		return c, nil, BadInput("no window of the pool %s has the limit %.80q", c.Pool, k.Key)
	}
	return charges[0], then, nil
}
