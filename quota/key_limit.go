package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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
	Family  string    `json:"family"`
	Key     string    `json:"key"`     // not hashed, 1 to 128 bytes of printable text
	Quota   int64     `json:"quota"`   // of the windows without a quota of their own; 0: the limit was removed
	By      string    `json:"by"`      // who set or removed it
	Reason  string    `json:"reason"`  // why; may be ""
	At      time.Time `json:"at"`      // when, by the store's clock
	Version int64     `json:"version"` // of the store's limits; each change has a higher one

	// Headroom is what ordinary calls leave free of the quota of a pool. Nil is the share of the price book.
	Headroom *int64 `json:"headroom,omitempty"`

	// Until is when the limit ends by itself, and the price book's holds again. Zero: it does not. Of a limit that
	// the upstream has reported since, it is the end of the headroom.
	// A refusal by a lower limit names that time if the call fits then. One by a higher limit does not
	// foresee its end.
	Until time.Time `json:"until,omitzero"`
}

// Holds reports whether the limit is in force: it was not removed, and has not ended.
func (k *KeyLimit) Holds(now time.Time) bool {
	return k.Quota > 0 && (k.Until.IsZero() || now.Before(k.Until) || k.By == ByUpstream)
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
	// LimitChanges returns up to most of the last changes, the latest first. A store keeps
	// [MaxLimitChanges] of them.
	LimitChanges(ctx context.Context, most int) ([]KeyLimit, error)
}

var _ LimitKeeper = Admin{}

// MaxLimitChanges is how many changes of limits a store keeps at least for people to read.
const MaxLimitChanges = 100_000

// ErrNoLimits says that a ledger's store keeps no limits of keys.
var ErrNoLimits = errors.New("this ledger's store keeps no limits that are set at run time")

// A ledger reads changed limits at most every limitsAfter, beside a call, which does not wait.
// If it has not read them for limitsWithin, a call asks for its own key's limit, and waits for
// that alone: reading a million limits takes many seconds.
const (
	limitsAfter  = 500 * time.Millisecond
	limitsWithin = 1500 * time.Millisecond
	limitsPage   = 1000 // that are read at once: Redis decides nothing else meanwhile
)

// keyLimits are the limits that a ledger knows.
type keyLimits struct {
	reading sync.Mutex            // held by the one who reads; guards last
	last    KeyLimit              // the last one that was read
	asked   atomic.Int64          // when the limits were last up to date, by the ledger's clock; 0: never
	failed  atomic.Int64          // when they could last not be read
	unread  atomic.Pointer[error] // why limits could last not be read
	silent  atomic.Int64          // when the limit of a single key could last not be read
	none    atomic.Bool           // the store keeps none

	changing changing     // the store, or nil
	seen     atomic.Int64 // the change up to which the limits are known

	held atomic.Bool // limits are known
	mu   sync.RWMutex
	all  map[string]map[string]setLimit // by family and page key, with those that were removed
}

// setLimit is the limit of a key. Answers may come late, so a higher version wins.
type setLimit struct {
	quota, version int64
	headroom       *setHeadroom // nil: the price book's share of the quota

	heard  time.Time // when the upstream has reported it last; zero: a person has set it
	until  time.Time // it holds until then; zero: it does not end by itself
	probed time.Time // when this process last let a call pass it: see inForce
}

// setHeadroom is what ordinary calls leave free of a limit, as a person has set it.
type setHeadroom struct {
	units int64
	by    string
}

// SetLimit sets the limit of a key of a family, or removes it if the quota is 0. This
// process obeys it at once, and all others that share the store within 2 s. The key keeps
// what it has used.
func (a Admin) SetLimit(ctx context.Context, k KeyLimit) (KeyLimit, error) {
	l := a.ledger
	keeper, err := l.keeper()
	if err == nil {
		k, err = a.checkLimit(k, k.Quota > 0) // the family of a limit to remove may have left the book
	}
	if err != nil {
		return k, err
	}
	if k.Quota == 0 {
		was, err := l.Admin().KeyLimit(ctx, k.Family, k.Key)
		switch {
		case err != nil:
			return k, err
		case was == nil || was.Quota == 0:
			return k, noLimitSet(&k)
		}
	}
	err = l.dropLimit(ctx, keeper, k, l.current().limitFamilies(k.Family)[1:]...)
	set := k
	if err == nil {
		set, err = keeper.SetLimit(ctx, k)
	}
	switch {
	case errors.Is(err, ErrNoLimits):
		return k, err
	case err != nil:
		return k, l.storeError(ctx, "set a limit of family "+k.Family, err)
	}
	l.limits.apply([]KeyLimit{set})
	return set, nil
}

func noLimitSet(k *KeyLimit) error {
	return BadInput("key %.80q of family %.40q has no limit that was set at run time", k.Key, k.Family)
}

// CheckLimit checks a limit as [Admin.SetLimit] does, and returns it as that would keep it. It
// changes nothing, and does not know whether there is a limit to remove.
func (a Admin) CheckLimit(k KeyLimit) (KeyLimit, error) { return a.checkLimit(k, true) }

func (a Admin) checkLimit(k KeyLimit, known bool) (KeyLimit, error) {
	l := a.ledger
	if l.current() == nil {
		return k, errNotMade
	}
	f, upstream := l.current().families[k.Family], l.current().upstreamOfLimits(k.Family)
	switch {
	case upstream != "": // the limit of a pool: see sharedLimits
		if err := l.current().checkLimit(upstream, &k); err != nil {
			return k, err
		}
		k.Family = LimitsOfUpstream + upstream
	case f == nil && known:
		return k, BadInput("there is no family %.40q; the price book has %s; for the limit of a pool, write its upstream in place of the family: %s", k.Family, names(l.current().families), names(l.current().shared))
	}
	switch {
	case k.Key == "" || !printable(k.Key, maxIDBytes):
		return k, BadInput("family %s: the key must be 1 to %d bytes of printable text", k.Family, maxIDBytes)
	case k.Quota < 0 || k.Quota > window.MaxUnits:
		return k, BadInput("family %s: the limit must be 1 to %d, not %d", k.Family, window.MaxUnits, k.Quota)
	case k.By == "" || !printable(k.By, maxIDBytes):
		return k, BadInput("say who sets the limit, in 1 to %d bytes of printable text", maxIDBytes)
	case k.Reason != "" && !printable(k.Reason, maxReason):
		return k, BadInput("the reason must be at most %d printable bytes", maxReason)
	case k.Quota == 0:
		k.Until, k.Headroom = time.Time{}, nil
	case k.Headroom != nil && upstream == "":
		return k, BadInput("family %s: a key has no headroom; set its quota to what it may use", k.Family)
	case k.Headroom != nil && upstream == book.Budgets:
		return k, BadInput("a budget has no headroom; set its amount to what may be spent")
	case k.Headroom != nil && k.By != ByUpstream && (*k.Headroom < 0 || *k.Headroom >= k.Quota):
		return k, BadInput("upstream %s: the headroom must be 0 to %d, below the quota of %d, not %d", upstream, k.Quota-1, k.Quota, *k.Headroom)
	case !k.Until.IsZero() && !k.Until.After(l.now()):
		return k, BadInput("family %s: the limit would end at %s, which has passed", k.Family, k.Until.UTC().Format(time.RFC3339))
	case k.Until.UTC().Year() > 9999: // no JSON has such a time
		return k, BadInput("family %s: the limit would end after the year 9999; leave the end out", k.Family)
	}
	k.Until = k.Until.UTC().Truncate(time.Microsecond)
	if k.Quota > 0 && f != nil {
		if _, err := f.family.WindowsOf(k.Key, k.Quota); err != nil {
			return k, BadInput("%v", err)
		}
	}
	return k, nil
}

// dropLimit removes the limit of a key where earlier versions have kept it: a change is coming.
func (l *Ledger) dropLimit(ctx context.Context, keeper LimitKeeper, k KeyLimit, families ...string) error {
	for _, k.Family = range families {
		was, err := keeper.KeyLimit(ctx, k.Family, k.Key)
		if err == nil && was != nil && was.Quota > 0 {
			k.Quota, k.Headroom = 0, nil
			_, err = keeper.SetLimit(ctx, k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// KeyLimits is that of the ledger's store: see [LimitKeeper].
func (a Admin) KeyLimits(ctx context.Context, after int64, most int) ([]KeyLimit, error) {
	return a.ledger.readLimits(ctx, "read the limits", func(k LimitKeeper) ([]KeyLimit, error) { return k.KeyLimits(ctx, after, most) })
}

// KeyLimit is that of the ledger's store: see [LimitKeeper]. For a pool, the family is its
// upstream.
func (a Admin) KeyLimit(ctx context.Context, family, key string) (last *KeyLimit, err error) {
	l := a.ledger
	keeper, err := l.keeper()
	if err != nil {
		return nil, err
	}
	if p := l.current(); p.upstreamOfLimits(family) != "" {
		if k := (KeyLimit{Key: key}); p.checkLimit(p.upstreamOfLimits(family), &k) == nil {
			key = k.Key // as SetLimit keeps it
		}
	}
	for _, family := range l.current().limitFamilies(family) {
		k, err := keeper.KeyLimit(ctx, family, key)
		if err != nil {
			return nil, l.storeError(ctx, "read a limit", err)
		}
		if last == nil || k != nil && k.Version > last.Version {
			last = k
		}
	}
	return last, nil
}

// LimitChanges is that of the ledger's store: see [LimitKeeper].
func (a Admin) LimitChanges(ctx context.Context, most int) ([]KeyLimit, error) {
	return a.ledger.readLimits(ctx, "read the changes of limits", func(k LimitKeeper) ([]KeyLimit, error) { return k.LimitChanges(ctx, most) })
}

func (l *Ledger) readLimits(ctx context.Context, op string, read func(LimitKeeper) ([]KeyLimit, error)) ([]KeyLimit, error) {
	keeper, err := l.keeper()
	if err != nil {
		return nil, err
	}
	all, err := read(keeper)
	if err != nil {
		err = l.storeError(ctx, op, err)
	}
	return all, err
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

// priced returns what a call costs, by the limits in force. If the limit of its key is unknown,
// it returns an [OutageError], too.
func (l *Ledger) priced(ctx context.Context, p *prices, c *Call) (*price, error) {
	if c.Family == "" {
		return p.lookup(c)
	}
	f := p.families[c.Family]
	keeper, can := l.store.(LimitKeeper)
	if f == nil || c.Key == "" || !can {
		return p.lookup(c)
	}
	unknown := l.freshLimit(ctx, keeper, c.Key, c.Family)
	if quota, until := l.limits.quota(l.now(), c.Key, c.Family); quota != 0 {
		windows := f.ofQuota(c.Key, quota)
		made, err := p.lookupMember(c, windows)
		if until.IsZero() || windows == nil || made == nil {
			return made, cmp.Or(err, unknown)
		}
		for i, was := range f.charge(pageKey(c.Key)).Windows {
			made.adopted = append(made.adopted, adopted{pool: made.charges[0].Pool, window: i, name: was.Name, quota: quota, was: was.Limit, until: until, byHand: true})
		}
		if errors.Is(err, ErrImpossible) { // the store says so, and notForever until when
			err = nil
		}
		return made, cmp.Or(err, unknown)
	}
	made, err := p.lookup(c)
	return made, cmp.Or(err, unknown)
}

// quota returns the limit of a key that is in force, or 0, and when it ends; zero: not by itself.
func (k *keyLimits) quota(now time.Time, key string, families ...string) (quota int64, until time.Time) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	_, last := k.found(key, families)
	if last.ended(now) {
		return 0, until
	}
	return last.quota, last.until
}

// ended reports whether the limit has ended by itself. If it was reported, a headroom ends without it.
func (s *setLimit) ended(now time.Time) bool {
	return !s.until.IsZero() && !now.Before(s.until) && (s.heard.IsZero() || s.headroom == nil)
}

// found returns the limit of a key that may be kept in several families: the last one that was
// set. The caller holds mu.
func (k *keyLimits) found(key string, families []string) (in string, last setLimit) {
	for _, family := range families {
		if l := k.all[family][pageKey(key)]; l.version > last.version {
			in, last = family, l
		}
	}
	return in, last
}

// any reports whether limits of families are known.
func (k *keyLimits) any(families ...string) bool {
	if !k.held.Load() {
		return false
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return slices.ContainsFunc(families, func(family string) bool { return len(k.all[family]) > 0 })
}

// changing is a [LimitKeeper] that says at once whether a limit has changed: its number is another one then. No limit was
// ever set while it is 0.
type changing interface{ LimitChange() int64 }

// fresh reports whether the limits were read a moment ago, so that no call need ask.
func (l *Ledger) fresh() bool {
	if k := &l.limits; k.changing != nil {
		return k.changing.LimitChange() == k.seen.Load()
	}
	age := l.clock.Now().UnixNano() - l.limits.asked.Load()
	return age >= 0 && age < int64(limitsAfter) || l.limits.none.Load()
}

// freshLimit makes sure that the limit of a key is known. While the limits cannot be read,
// those that are known hold, until they end by themselves. A limit that this process has never heard of may be lower than the
// price book's, so it is an outage. The price book's would be wrong, and the journal cannot keep
// a million limits.
func (l *Ledger) freshLimit(ctx context.Context, keeper LimitKeeper, key string, families ...string) error {
	k, now := &l.limits, l.clock.Now().UnixNano()
	since := func(at int64) time.Duration { // math.MaxInt64 if it is not known
		if d := time.Duration(now - at); at != 0 && d >= 0 {
			return d
		}
		return math.MaxInt64
	}
	age := since(k.asked.Load())
	if age < limitsAfter || k.none.Load() {
		return nil
	}
	if since(k.failed.Load()) >= limitsAfter {
		k.refresh(ctx, keeper, l.clock)
	}
	if age < limitsWithin {
		return nil
	}
	var err error
	if since(k.silent.Load()) >= limitsAfter {
		err = l.askLimit(ctx, keeper, key, families)
	} else { // it was asked a moment ago
		err = *k.unread.Load()
	}
	if quota, _ := k.quota(l.now(), key, families...); err == nil || k.asked.Load() != 0 || quota != 0 {
		return nil
	}
	return &OutageError{Op: "read a limit", Err: fmt.Errorf("the limit that was set at run time is unknown: %w", err)}
}

// askLimit reads the limit of a key. The store has its time to answer even if the caller has
// not: what a caller's patience cuts off says nothing about the store.
func (l *Ledger) askLimit(ctx context.Context, keeper LimitKeeper, key string, families []string) error {
	answered, most := make(chan error, 1), limitsWithin
	if l.limits.asked.Load() == 0 && strings.HasPrefix(families[0], LimitsOfUpstream) {
		most = settleTimeout // without an answer, the call fails, whatever the store's own timeout is
	}
	go func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
		defer cancel()
		var failed error
		for _, family := range families {
			one, err := keeper.KeyLimit(within, family, key)
			switch {
			case err == nil && one != nil:
				l.limits.apply([]KeyLimit{*one})
			case err == nil, errors.Is(err, ErrNoLimits): // none was ever set; refresh notes a store that keeps none
			default:
				l.limits.unread.Store(&err) // before silent, by which it is found
				l.limits.silent.Store(l.clock.Now().UnixNano())
				failed = err
			}
		}
		answered <- failed
	}()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return nil // nobody decides for it any more
	}
}

// refresh reads changed limits in the background, unless that is under way.
func (k *keyLimits) refresh(ctx context.Context, keeper LimitKeeper, clock Clock) {
	if !k.reading.TryLock() {
		return
	}
	go func() {
		defer k.reading.Unlock()
		err := k.read(context.WithoutCancel(ctx), keeper, clock)
		switch {
		case errors.Is(err, ErrNoLimits):
			k.none.Store(true)
		case err != nil:
			k.failed.Store(clock.Now().UnixNano())
		}
	}()
}

// read reads what changed since the last limit that it knows. It asks for that one too: a
// store that does not have it has lost limits, and all of them are read again. The caller
// holds reading.
func (k *keyLimits) read(ctx context.Context, keeper LimitKeeper, clock Clock) error {
	page := func(after int64) ([]KeyLimit, error) {
		within, cancel := context.WithTimeout(ctx, limitsWithin)
		defer cancel()
		return keeper.KeyLimits(within, after, limitsPage)
	}
	isLast := func(c KeyLimit) bool { return c.Family == k.last.Family && c.Key == k.last.Key }
	for after := k.last.Version - 1; ; after = k.last.Version {
		began, change := clock.Now(), int64(0)
		if k.changing != nil {
			change = k.changing.LimitChange()
		}
		changed, err := page(after)
		switch {
		case err != nil:
			return err
		case after < k.last.Version && k.last.Version > 0 && !slices.ContainsFunc(changed, isLast):
			k.forget()
			continue
		}
		k.apply(changed)
		if len(changed) > 0 {
			k.last = changed[len(changed)-1]
		}
		if len(changed) < limitsPage {
			k.asked.Store(began.UnixNano())
			k.seen.Store(change)
			return nil
		}
	}
}

// forget forgets all limits. Until they were read again, each call asks for its own.
func (k *keyLimits) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last, k.all = KeyLimit{}, nil
	k.held.Store(false)
	k.seen.Store(-1)
	k.asked.Store(0)
}

// apply makes limits hold in this process.
func (k *keyLimits) apply(changed []KeyLimit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = make(map[string]map[string]setLimit)
	}
	for i := range changed {
		c := &changed[i]
		if k.all[c.Family] == nil {
			k.all[c.Family] = make(map[string]setLimit)
		}
		if key := pageKey(c.Key); c.Version > k.all[c.Family][key].version {
			k.held.Store(true)
			set := setLimit{quota: c.Quota, version: c.Version, heard: c.heardAt(), until: c.Until}
			if c.Headroom != nil {
				_, by, reported := strings.Cut(c.Reason, freeBy)
				if !reported {
					by = c.By
				}
				set.headroom = &setHeadroom{*c.Headroom, by}
			}
			k.all[c.Family][key] = set
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
