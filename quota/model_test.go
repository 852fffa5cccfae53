package quota_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// The model test of package storetest drives stores. This one drives what belongs to
// ledgers: holds, calls drawn from them and settled, blocks that one ledger makes
// and another one lifts, and other price books. Two ledgers spend from one store.
//
// The test checks three sums. The store counts exactly the units that reservations and
// holds have taken. Each call is paid for once. The calls that leave at one instant
// never exceed the shortest window at the upstream.
//
// The clock only goes forward, by less than a day in all. So the window of a day
// counts everything.

const (
	modelQuota = 20 // of the shortest window, which is a minute
	modelBook  = `
revision: %d
upstreams:
  api:
    pools:
      units: {quota: 100000, headroom: 0, windows: [{per: 24h, algorithm: log}, {per: 1m, quota: 20}%s]}
    methods: {get: {pool: units, cost: 1}, touch: {pool: units, cost: 0}}
`
)

var modelPool = quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"}

func TestModel(t *testing.T) {
	checks, seed := "100", "1"
	if os.Getenv("HEADROOM_SOAK") == "1" {
		checks, seed = "2000", fmt.Sprint(rand.Uint64())
	}
	setFlag(t, "rapid.checks", checks)
	setFlag(t, "rapid.seed", seed)
	t.Logf("to see it again: -rapid.seed=%s", flag.Lookup("rapid.seed").Value)
	for name, open := range map[string]func(testing.TB, quota.Clock) func(*rapid.T) [2]quota.Store{
		"memory": inMemory,
		"sqlite": inSQLite,
		"redis":  inRedis,
	} {
		t.Run(name, func(t *testing.T) {
			clock := quota.NewSimClock(noon)
			pair := open(t, clock)
			rapid.Check(t, func(rt *rapid.T) {
				clock.Set(noon)
				rt.Repeat(newTwoLedgers(rt, clock, pair(rt)).actions())
			})
		})
	}
}

// twoLedgers are what is driven, and the model of it.
type twoLedgers struct {
	clock    *quota.SimClock
	parties  [2]*party
	revision int
	layout   int   // how often the windows have changed
	spent    int64 // what the store must count
	shut     time.Time
	holds    []*heldUnits
	calls    []*sentCall
}

// party is one of the ledgers.
type party struct {
	*quota.Ledger
	name      string
	revision  int
	remembers time.Time // it may take the pool for shut until then
	exact     bool      // it does: nobody has lifted the block
	hold      time.Duration
	first     *sentCall // the call that goes first after that, for so long
}

// learns of a block.
func (p *party) learns(until, now time.Time) {
	if until.After(p.remembers) {
		p.remembers, p.exact, p.first = until, true, nil
		p.hold = min(max(until.Sub(now), time.Second), 5*time.Second)
	}
}

func (p *party) forgets() { p.remembers, p.first = time.Time{}, nil }

// holds is whether a call of the party is refused, because another one goes first.
func (p *party) holds(now time.Time) bool {
	return p.first != nil && now.Before(p.first.at.Add(p.hold))
}

// heldUnits is a hold, by what it may give back.
type heldUnits struct {
	*quota.Hold
	by     *party
	layout int
	closed bool
}

// sentCall is one that was granted, and left at once.
type sentCall struct {
	r       *quota.Reservation
	by      *party
	at      time.Time
	units   int64
	more    int64 // than was granted, by its settlement
	layout  int
	from    *heldUnits // that it has drawn from
	settled bool
}

func newTwoLedgers(rt *rapid.T, clock *quota.SimClock, stores [2]quota.Store) *twoLedgers {
	m := &twoLedgers{clock: clock, revision: 1}
	for i, s := range stores {
		l, err := quota.New(m.book(rt), s, &quota.Options{Clock: clock})
		if err != nil {
			rt.Fatal(err)
		}
		m.parties[i] = &party{Ledger: l, name: []string{"mine", "theirs"}[i], revision: 1}
	}
	return m
}

// book is the price book of the latest revision; each change of the windows adds
// one that binds nobody, or takes it away.
func (m *twoLedgers) book(rt *rapid.T) *quota.Book {
	more := ""
	if m.layout%2 == 1 {
		more = ", {per: 10m, algorithm: log}"
	}
	costs, err := book.Parse("costs.yaml", fmt.Appendf(nil, modelBook, m.revision, more), nil)
	if err != nil {
		rt.Fatal(err)
	}
	return costs
}

func (m *twoLedgers) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":         m.check,
		"reserve":  m.reserve,
		"hold":     m.hold,
		"hold2":    m.hold,
		"draw":     m.draw,
		"draw2":    m.draw,
		"draw3":    m.draw,
		"settle":   m.settle,
		"close":    m.close,
		"answer":   m.answer,
		"block":    m.block,
		"lift":     m.lift,
		"forward":  m.forward,
		"forward2": m.forward,
		"revise":   m.revise,
	}
}

// check is what holds after every operation.
func (m *twoLedgers) check(rt *rapid.T) {
	if got := m.window(rt, "24h log"); got != m.spent {
		rt.Fatalf("the store counts %d, and %d were reserved and held", got, m.spent)
	}
	var left, more int64
	for _, c := range m.calls {
		if c.at.Equal(m.clock.Now()) {
			left += c.units
			more += c.more
		}
	}
	if left > modelQuota+more {
		rt.Fatalf("%d units left at %s, and a minute admits %d", left, m.clock.Now(), modelQuota+more)
	}
}

// window is what the store counts in a window of the pool.
func (m *twoLedgers) window(rt *rapid.T, name string) int64 {
	for _, p := range m.parties {
		if p.revision < m.revision {
			continue
		}
		all, err := p.View().Usage(rt.Context(), "api", "")
		if err != nil {
			rt.Fatal(err)
		}
		for _, w := range all[0].Allowances {
			if w.Window == name {
				return w.Used
			}
		}
	}
	rt.Fatalf("no window %q", name)
	return 0
}

func (m *twoLedgers) say(rt *rapid.T, format string, args ...any) {
	rt.Logf("%s  %s", m.clock.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

func (m *twoLedgers) party(rt *rapid.T) *party {
	return m.parties[rapid.IntRange(0, 1).Draw(rt, "ledger")]
}

// ask does something by the latest price book: a ledger that is told that its own is
// stale loads it, and tries again.
func (m *twoLedgers) ask(rt *rapid.T, p *party, do func() error) error {
	err := do()
	if !errors.Is(err, quota.ErrStaleBook) {
		return err
	}
	if p.revision == m.revision {
		rt.Fatalf("%s: the latest book is stale: %v", p.name, err)
	}
	m.load(rt, p)
	return do()
}

func (m *twoLedgers) load(rt *rapid.T, p *party) {
	if err := p.SetBook(m.book(rt)); err != nil {
		rt.Fatal(err)
	}
	p.revision = m.revision
}

func unitsOf(n int64) quota.Call {
	return quota.Call{Upstream: "api", Charges: map[string]int64{"units": n}}
}

// isShut is whether the store refuses because of a block.
func (m *twoLedgers) isShut() bool { return m.clock.Now().Before(m.shut) }

// refused is what a ledger has learnt of a refusal, which has to be for a reason.
func (m *twoLedgers) refused(rt *rapid.T, p *party, units int64, err error) {
	var refused *quota.RefusedError
	if !errors.As(err, &refused) {
		rt.Fatalf("%s: %v", p.name, err)
	}
	now := m.clock.Now()
	if !refused.Probing && p.first != nil && !p.holds(now) { // it has waited for it long enough
		p.forgets()
	}
	switch used := m.window(rt, "1m"); {
	case refused.Probing && p.exact && (!p.holds(now) || now.Before(p.remembers)):
		rt.Fatalf("%s: refused, but no other call goes first: %v", p.name, err)
	case refused.Probing:
	case p.exact && p.holds(now):
		rt.Fatalf("%s: asked the store, though another call goes first: %v", p.name, err)
	case refused.Blocked && !m.isShut():
		rt.Fatalf("%s: refused because of a block, but the pool is not blocked: %v", p.name, err)
	case refused.Blocked:
		p.learns(m.shut, now) // only a grant makes it forget an earlier one
	case used+units <= modelQuota:
		rt.Fatalf("%s: refused %d where %d of %d are used: %v", p.name, units, used, modelQuota, err)
	}
}

// granted is what a ledger has learnt of a grant by the store.
func (m *twoLedgers) granted(rt *rapid.T, p *party, units int64, c *sentCall) {
	if m.isShut() {
		rt.Fatalf("%s: the store granted %d while the pool is shut", p.name, units)
	}
	m.spent += units
	m.leaves(rt, p, c)
}

// leaves is what a call that may leave means for those after it. A hold is no call.
func (m *twoLedgers) leaves(rt *rapid.T, p *party, c *sentCall) {
	now := m.clock.Now()
	switch {
	case !p.exact: // it may have noticed that the block was lifted, or met another one since
	case p.holds(now):
		rt.Fatalf("%s: granted, though another call goes first", p.name)
	case now.Before(p.remembers) || p.first != nil:
		p.forgets()
	case !p.remembers.IsZero() && c != nil:
		p.first = c
	}
	if c != nil {
		c.by = p
		m.calls = append(m.calls, c)
	}
}
