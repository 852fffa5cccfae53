package open_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// TestRandomLimits sets limits of keys and of a pool, of which some end by themselves, while three processes spend. Processes end
// and start, and at times cannot read the limits. A process may use a limit that was in force in
// the last 2 s, or, while it cannot read, one that it has known. Such a limit ends for it when it was to
// end, although another one was set meanwhile. It never takes the price book's for a limit that it does not know.
func TestRandomLimits(t *testing.T) {
	const steps = 100
	checks, seed := "40", "1"
	if os.Getenv("HEADROOM_SOAK") == "1" {
		checks, seed = fmt.Sprint(300_000/steps), fmt.Sprint(rand.Uint64())
	}
	setFlag(t, "rapid.steps", fmt.Sprint(steps))
	setFlag(t, "rapid.checks", checks)
	setFlag(t, "rapid.seed", seed)
	for _, name := range stores {
		t.Run(name, func(t *testing.T) {
			open := storeOf(t, name, quota.SystemClock{})
			stores, trials, made := []quota.Store{open(), open(), open()}, 0, 0
			rapid.Check(t, func(rt *rapid.T) {
				trials++
				m := &limitTrial{stores: stores, number: trials, clock: quota.NewSimClock(noon)}
				for _, key := range []string{"a", "b", "units"} {
					m.keys = append(m.keys, &limitedKey{name: key, limits: []changedLimit{{noon.Add(-time.Hour), limitOfBook, time.Time{}}}})
				}
				for i := range m.parties {
					m.start(rt, i, false)
				}
				rt.Repeat(map[string]func(*rapid.T){
					"reserve": m.reserve, "reserve2": m.reserve, "reserve3": m.reserve, "reserve4": m.reserve,
					"set": m.set, "set2": m.set, "toggle": m.toggle, "restart": m.restart, "forward": m.forward, "forward2": m.forward,
				})
				m.history(rt)
				made += m.operations
			})
			t.Logf("%d operations; to see them again: -rapid.seed=%s", made, flag.Lookup("rapid.seed").Value)
		})
	}
}

const (
	limitOfBook = 5
	randomBook  = `
revision: 1
upstreams:
  api%[1]d:
    pools: {units: {quota: 5, headroom: 0, limit: learn, metric: api/units, windows: [{per: 24h, algorithm: log}]}}
    methods: {get: {pool: units, cost: 1}}
families:
  client%[1]d: {quota: 5, windows: [{per: 24h, algorithm: log}]}
`
	knownWithin = 2 * time.Second
)

// limitTrial is one timeline. All that is granted counts until its end.
type limitTrial struct {
	stores     []quota.Store
	number     int // its family and upstream have names of their own
	clock      *quota.SimClock
	parties    [3]*limitParty
	keys       []*limitedKey
	changes    []quota.KeyLimit
	operations int
}

// limitedKey is a key of the family, or the pool.
type limitedKey struct {
	name   string
	limits []changedLimit // with the book's, if none was set
	used   int64
}

type changedLimit struct {
	at    time.Time
	limit int64
	ends  time.Time // by itself; zero: never
}

func (c *changedLimit) ended(now time.Time) bool { return !c.ends.IsZero() && !now.Before(c.ends) }

// between returns the lowest and the highest limit that a process may go by which knows one that was in force
// since an instant.
func (k *limitedKey) between(since, now time.Time) (least, most int64) {
	for i, c := range k.limits {
		if i+1 < len(k.limits) && k.limits[i+1].at.Before(since) {
			continue
		}
		if most == 0 {
			least = c.limit
		}
		least, most = min(least, c.limit), max(most, c.limit)
		if c.ended(now) {
			least, most = min(least, limitOfBook), max(most, limitOfBook)
		}
	}
	return least, most
}

func (k *limitedKey) limit() int64 { return k.limits[len(k.limits)-1].limit }

// limitParty is a process.
type limitParty struct {
	*quota.Ledger
	name    string
	gate    *unreadable
	began   time.Time
	up      time.Time            // since when it can read the limits
	read    bool                 // it may have read all limits
	current map[string]time.Time // when it certainly knew the limit of a key
}

func (m *limitTrial) start(rt *rapid.T, i int, down bool) {
	b, err := book.Parse("costs.yaml", fmt.Appendf(nil, randomBook, m.number), nil)
	if err != nil {
		rt.Fatal(err)
	}
	p := &limitParty{name: fmt.Sprint("process ", i), gate: newUnreadable(m.stores[i]), began: m.clock.Now(), up: m.clock.Now().Add(-time.Hour), current: map[string]time.Time{}}
	p.gate.down.Store(down)
	if p.Ledger, err = quota.New(b, p.gate, &quota.Options{Clock: m.clock}); err != nil {
		rt.Fatal(err)
	}
	m.parties[i] = p
}

func (m *limitTrial) party(rt *rapid.T) *limitParty {
	m.operations++
	return m.parties[rapid.IntRange(0, len(m.parties)-1).Draw(rt, "process")]
}

func (m *limitTrial) key(rt *rapid.T) *limitedKey {
	return m.keys[rapid.IntRange(0, len(m.keys)-1).Draw(rt, "key")]
}

func (m *limitTrial) say(rt *rapid.T, format string, args ...any) {
	rt.Logf("%s  %s", m.clock.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

func (m *limitTrial) reserve(rt *rapid.T) {
	p, k, now := m.party(rt), m.key(rt), m.clock.Now()
	call := quota.Call{Family: fmt.Sprint("client", m.number), Key: k.name}
	if k.name == "units" {
		call = quota.Call{Upstream: fmt.Sprint("api", m.number), Method: "get"}
	}
	down := p.gate.down.Load()
	reads := !down && now.Sub(p.up) >= knownWithin
	since, known := p.current[k.name]
	switch {
	case reads:
		since, p.current[k.name] = now, now
	case known:
	case p.read || !down: // with all limits, at any time
		since = p.began
	}
	p.read = p.read || !down
	_, err := p.Reserve(rt.Context(), call)
	m.say(rt, "%s: reserve %s, of which %d are used: %v", p.name, k.name, k.used, err)
	least, most := k.between(since.Add(-knownWithin), now)
	switch {
	case err == nil && !known && !p.read:
		rt.Fatalf("granted, though the limit is unknown")
	case err == nil && k.used >= most:
		rt.Fatalf("granted, though %d are used and the limits were %d to %d since %s", k.used, least, most, since)
	case err == nil:
		k.used++
	case errors.Is(err, quota.ErrOutage):
		if reads {
			rt.Fatalf("an outage, though the limits can be read: %v", err)
		}
	case errors.As(err, new(*quota.RefusedError)):
		if least, most = k.between(since.Add(-knownWithin-time.Second), now); k.used < least {
			rt.Fatalf("refused, though %d are used and the limits were %d to %d: %v", k.used, least, most, err)
		}
	default:
		rt.Fatal(err)
	}
}

// set sets a limit, or removes it.
func (m *limitTrial) set(rt *rapid.T) {
	p, k, n := m.party(rt), m.key(rt), rapid.Int64Range(0, 12).Draw(rt, "limit")
	one := quota.KeyLimit{Family: fmt.Sprint("client", m.number), Key: k.name, Quota: n, By: "Zoë", Reason: fmt.Sprint("change ", len(m.changes))}
	if k.name == "units" {
		one.Family = fmt.Sprint(quota.LimitsOfUpstream, "api", m.number)
	}
	isSet := slices.ContainsFunc(m.changes, func(c quota.KeyLimit) bool { return c.Key == k.name })
	if ends := rapid.SampledFrom([]time.Duration{0, 0, 500 * time.Millisecond, 3 * time.Second, 10 * time.Second}).Draw(rt, "ends"); ends > 0 && n > 0 {
		one.Until = m.clock.Now().Add(ends).UTC()
	}
	reads := n == 0 || k.name == "units" // what was set before
	if reads && p.gate.down.Load() || n == 0 && (!isSet || k.limit() == limitOfBook) || n == limitOfBook {
		rt.SkipNow() // the limit of the book says that none is set
	}
	set, err := p.Admin().SetLimit(rt.Context(), one)
	m.say(rt, "%s: set %s to %d until %s: %v", p.name, k.name, n, one.Until, err)
	if err != nil {
		rt.Fatal(err)
	}
	m.changes = append(m.changes, set)
	if n == 0 {
		n = limitOfBook
	}
	k.limits = append(k.limits, changedLimit{m.clock.Now(), n, one.Until})
	if n != limitOfBook {
		p.current[k.name] = m.clock.Now()
	}
}

// toggle has a process lose the way to the limits, or find it again.
func (m *limitTrial) toggle(rt *rapid.T) {
	p := m.party(rt)
	down := !p.gate.down.Load()
	if p.gate.down.Store(down); !down {
		p.up, p.read = m.clock.Now(), true // it may read behind a call that was before
	}
	m.say(rt, "%s: cannot read limits: %t", p.name, down)
}

func (m *limitTrial) restart(rt *rapid.T) {
	i, down := rapid.IntRange(0, len(m.parties)-1).Draw(rt, "process"), rapid.Bool().Draw(rt, "down")
	m.say(rt, "process %d starts; it cannot read limits: %t", i, down)
	m.start(rt, i, down)
}

func (m *limitTrial) forward(rt *rapid.T) {
	m.clock.Advance(rapid.SampledFrom([]time.Duration{100 * time.Millisecond, 600 * time.Millisecond, 1600 * time.Millisecond, 2 * time.Second, 5 * time.Second}).Draw(rt, "by"))
	for _, k := range m.keys {
		if last := k.limits[len(k.limits)-1]; last.ended(m.clock.Now()) {
			k.limits = append(k.limits, changedLimit{last.ends, limitOfBook, time.Time{}})
		}
	}
}

// history compares the last changes that each process reads.
func (m *limitTrial) history(rt *rapid.T) {
	want := slices.Clone(m.changes)
	slices.Reverse(want)
	for _, p := range m.parties {
		p.gate.down.Store(false)
		got, err := p.Admin().LimitChanges(rt.Context(), len(want)+1)
		if err != nil || len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			rt.Fatalf("%s: the changes are %+v %v, want %+v", p.name, got, err, want)
		}
	}
}

// unreadable is a store whose limits cannot be read for a while, although its pages can. Otherwise they are read
// however long that takes on a busy machine.
type unreadable struct {
	quota.Store
	quota.LimitKeeper
	down atomic.Bool
}

func (u *unreadable) KeyLimits(ctx context.Context, after int64, most int) ([]quota.KeyLimit, error) {
	if u.down.Load() {
		return nil, errors.New("no route to the limits")
	}
	return u.LimitKeeper.KeyLimits(context.WithoutCancel(ctx), after, most)
}

func (u *unreadable) KeyLimit(ctx context.Context, family, key string) (*quota.KeyLimit, error) {
	if u.down.Load() {
		return nil, errors.New("no route to the limits")
	}
	return u.LimitKeeper.KeyLimit(context.WithoutCancel(ctx), family, key)
}

func newUnreadable(s quota.Store) *unreadable {
	return &unreadable{Store: s, LimitKeeper: s.(quota.LimitKeeper)}
}
