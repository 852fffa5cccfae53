package quota

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// KeyLimit is the limit of one key of a family that was set while programs run. It takes
// the place of what the price book says about the key.
type KeyLimit struct {
	Family  string
	Key     string    // not hashed, 1 to 128 printable bytes
	Quota   int64     // of the windows without a quota of their own; 0: the limit was removed
	By      string    // who set or removed it
	Reason  string    // why; may be ""
	At      time.Time // when, by the store's clock
	Version int64     // of the store's limits; each change has a higher one
}

// LimitKeeper is a store that keeps limits of keys beside its pages.
type LimitKeeper interface {
	// SetLimit keeps a limit, and returns it with its time and version.
	SetLimit(ctx context.Context, l KeyLimit) (KeyLimit, error)
	// KeyLimits returns the limits with a version above after, up to most of them in the
	// order of their versions. It includes those that were removed.
	KeyLimits(ctx context.Context, after int64, most int) ([]KeyLimit, error)
	// KeyLimit returns the limit of a key, or nil if none was ever set.
	KeyLimit(ctx context.Context, family, key string) (*KeyLimit, error)
}

// ErrNoLimits says that a ledger's store keeps no limits of keys.
var ErrNoLimits = errors.New("this ledger keeps no limits that are set at run time; keep it in SQLite or Redis")

// A ledger asks for changed limits at most every limitsAfter, beside a call, which does not
// wait. Only if nobody has asked for limitsWithin, a call waits.
const (
	limitsAfter  = 500 * time.Millisecond
	limitsWithin = 1500 * time.Millisecond
	limitsPage   = 1000 // that are read at once: Redis decides nothing else meanwhile
)

// keyLimits are the limits that a ledger knows.
type keyLimits struct {
	reading sync.Mutex // held by the one who reads; guards version
	version int64
	asked   atomic.Int64 // when the limits were last up to date, by the ledger's clock; 0: never
	failed  atomic.Int64 // when they could last not be read

	mu  sync.RWMutex
	all map[string]map[string]int64 // the quota by family and page key
}

// SetLimit sets the limit of a key of a family, or removes it if the quota is 0. It holds
// at once in this process, and within 2 s in all others that share the store. What the key
// has used stays used.
//
// The limit of a pool whose book has limit: learn and a metric can be set, too: the family is
// the upstream, and the key is the pool, or pool@account. [Ledger.Observe] does so.
func (l *Ledger) SetLimit(ctx context.Context, k KeyLimit) (KeyLimit, error) {
	keeper, err := l.keeper()
	if err != nil {
		return k, err
	}
	f := l.current().families[k.Family]
	switch {
	case f == nil && l.current().shared[k.Family] != nil: // the limit of a pool: see limitPlace
		if name, _, _ := strings.Cut(k.Key, "@"); !l.current().shared[k.Family][name] {
			return k, BadInput("upstream %s: the limit of the pool %.40q is that of the price book; a pool with limit: learn and a metric takes another one", k.Family, name)
		}
	case f == nil:
		return k, BadInput("there is no family %.40q; the price book has %s", k.Family, names(l.current().families))
	}
	switch {
	case !validID(k.Key):
		return k, BadInput("family %s: the key must be 1 to %d printable bytes", k.Family, maxIDBytes)
	case k.Quota < 0 || k.Quota > window.MaxUnits:
		return k, BadInput("family %s: the limit must be 1 to %d, not %d", k.Family, window.MaxUnits, k.Quota)
	case !validID(k.By):
		return k, BadInput("say who sets the limit, in 1 to %d printable bytes", maxIDBytes)
	case k.Reason != "" && !printable(k.Reason, maxReason):
		return k, BadInput("the reason must be at most %d printable bytes", maxReason)
	}
	if k.Quota > 0 && f != nil {
		if _, err := f.family.WindowsOf(k.Key, k.Quota); err != nil {
			return k, BadInput("%v", err)
		}
	}
	set, err := keeper.SetLimit(ctx, k)
	switch {
	case errors.Is(err, ErrNoLimits):
		return k, err
	case err != nil:
		return k, l.storeError(ctx, "set a limit of family "+k.Family, err)
	}
	return set, l.readLimits(ctx, keeper)
}

// KeyLimits is that of the ledger's store: see [LimitKeeper].
func (l *Ledger) KeyLimits(ctx context.Context, after int64, most int) ([]KeyLimit, error) {
	keeper, err := l.keeper()
	if err != nil {
		return nil, err
	}
	all, err := keeper.KeyLimits(ctx, after, most)
	if err != nil {
		err = l.storeError(ctx, "read the limits", err)
	}
	return all, err
}

// KeyLimit is that of the ledger's store: see [LimitKeeper].
func (l *Ledger) KeyLimit(ctx context.Context, family, key string) (*KeyLimit, error) {
	keeper, err := l.keeper()
	if err != nil {
		return nil, err
	}
	k, err := keeper.KeyLimit(ctx, family, key)
	if err != nil {
		err = l.storeError(ctx, "read a limit", err)
	}
	return k, err
}

// quota returns the limit of a key, or 0.
func (k *keyLimits) quota(family, key string) int64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.all[family][pageKey(key)]
}

func (l *Ledger) keeper() (LimitKeeper, error) {
	if l.current() == nil {
		return nil, errNotMade
	}
	if keeper, can := l.store.(LimitKeeper); can {
		return keeper, nil
	}
	return nil, ErrNoLimits
}

// priced returns what a call costs, by the limits in force.
func (l *Ledger) priced(ctx context.Context, p *prices, c *Call) (*price, error) {
	if c.Family == "" {
		return p.lookup(c)
	}
	f := p.families[c.Family]
	keeper, can := l.store.(LimitKeeper)
	if f == nil || c.Key == "" || !can {
		return p.lookup(c)
	}
	l.freshLimits(ctx, keeper)
	quota := l.limits.quota(c.Family, c.Key)
	if quota == 0 {
		return p.lookup(c)
	}
	return p.lookupMember(c, f.ofQuota(c.Key, quota))
}

// freshLimits reads what changed, if the ledger has not asked lately. Only a caller whose
// limits may be too old waits for it, and no longer than its context. The reading goes on
// after that, for the others. While the limits cannot be read, those that are known hold: if
// the store is down, so is the decision itself.
func (l *Ledger) freshLimits(ctx context.Context, keeper LimitKeeper) {
	k, now := &l.limits, l.clock.Now().UnixNano()
	asked := k.asked.Load()
	age := time.Duration(now - asked)
	known := asked != 0 && age >= 0
	if tried := time.Duration(now - k.failed.Load()); known && age < limitsAfter || k.failed.Load() != 0 && tried >= 0 && tried < limitsAfter {
		return
	}
	read := func() {
		defer k.reading.Unlock()
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), limitsWithin)
		defer cancel()
		if k.read(within, keeper, l.clock) != nil {
			k.failed.Store(l.clock.Now().UnixNano())
		}
	}
	if known && age < limitsWithin {
		if k.reading.TryLock() {
			go read() // a later caller asks again, and waits then
		}
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if k.reading.Lock(); k.asked.Load() != asked { // somebody else has read them
			k.reading.Unlock()
			return
		}
		read()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// readLimits reads what changed.
func (l *Ledger) readLimits(ctx context.Context, keeper LimitKeeper) error {
	l.limits.reading.Lock()
	defer l.limits.reading.Unlock()
	return l.limits.read(ctx, keeper, l.clock)
}

// read reads what changed since the last version. The caller holds reading.
func (k *keyLimits) read(ctx context.Context, keeper LimitKeeper, clock Clock) error {
	began := clock.Now()
	for {
		changed, err := keeper.KeyLimits(ctx, k.version, limitsPage)
		if err != nil && !errors.Is(err, ErrNoLimits) { // a keeper may stand before a store that keeps none
			return err
		}
		k.mu.Lock()
		for i := range changed {
			c := &changed[i]
			of := k.all[c.Family]
			switch {
			case c.Quota == 0:
				delete(of, pageKey(c.Key))
			case of == nil:
				if k.all == nil {
					k.all = make(map[string]map[string]int64)
				}
				k.all[c.Family] = map[string]int64{pageKey(c.Key): c.Quota}
			default:
				of[pageKey(c.Key)] = c.Quota
			}
			k.version = c.Version
		}
		k.mu.Unlock()
		if len(changed) < limitsPage {
			k.asked.Store(began.UnixNano())
			return nil
		}
	}
}

// ofQuota returns the windows of a key with this quota, or nil if the price book has
// changed so that they would not fit.
func (k *keyed) ofQuota(key string, quota int64) []window.Limit {
	_, listed := k.family.Overrides[key]
	if made, ok := k.quotas.Load(quota); ok && !listed {
		return made.([]window.Limit)
	}
	windows, err := k.family.WindowsOf(key, quota)
	if err != nil {
		return nil
	}
	made := limits(windows, book.Class{})
	if !listed {
		k.quotas.Store(quota, made)
	}
	return made
}
