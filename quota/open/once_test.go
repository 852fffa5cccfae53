package open_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/leasestore"
)

// A reservation is settled or released once, whoever does it first: the process that made it,
// by the reservation, or any process, by its token. A call whose price depends on it may take
// hours. TestOnce compares two ledgers over each store with a list of calls.

const onceBook = `
revision: 1
upstreams:
  api:
    accounts: any
    pools:
      fixed: {quota: 1000000, windows: [{per: 24h, algorithm: log}, {per: 10m, algorithm: log}]}
      early: {quota: 1000000, windows: [{per: 24h, algorithm: log}, {per: 10m, algorithm: log}]}
      late:  {quota: 1000000, windows: [{per: 24h, algorithm: log}, {per: 10m, algorithm: log}]}
      slots: {windows: [{in_flight: 1000, ttl: 1h}]}
      block: {quota: 1000000, windows: [{per: 24h}], lease: {life: 1m}}
    methods:
      get:  {pool: fixed, cost: 3}
      ask:  {charge: {fixed: 1, early: {estimate: 10, actual: {body: used}}}}
      tail: {charge: {early: 2, late: {estimate: 10, actual: {body: used}, counted: end}}}
      hold: {charge: {slots: 1, late: {estimate: 10, actual: {body: used}, counted: end}}}
      part: {pool: block, cost: {estimate: 10, actual: {body: used}}}
`

// onceCall is one call of the test, and what is expected of it.
type onceCall struct {
	*quota.Reservation
	method  string
	ledger  int // that made it
	made    time.Time
	settled time.Time // zero: it is not
	by      string
	first   quota.Settlement
	counts  []onceCount
}

// onceCount are units of a pool that count from an instant on.
type onceCount struct {
	pool  string
	units int64
	at    time.Time
}

// settle changes what counts of a call.
func (c *onceCall) settle(units quota.Units, now time.Time) {
	late := c.counts
	for i, n := range c.counts {
		cost := units[n.pool]
		switch {
		case n.pool == "late" && cost > 0:
			late[i] = onceCount{n.pool, cost, now}
		case cost <= n.units:
			late[i].units = cost
		default:
			late = append(late, onceCount{n.pool, cost - n.units, now})
		}
	}
	c.counts, c.settled = late, now
}

func TestOnce(t *testing.T) {
	for name, s := range map[string]struct{ few, many int }{
		"memory":   {3_000, 100_000},
		"sqlite":   {600, 100_000},
		"redis":    {600, 100_000},
		"postgres": {400, 100_000},

		"leased memory":   {1_000, 100_000},
		"leased redis":    {300, 10_000},
		"leased postgres": {300, 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			ops, seed := s.few, uint64(25)
			if os.Getenv("HEADROOM_SOAK") == "1" {
				ops, seed = s.many, rand.Uint64()
			}
			t.Logf("seed %d", seed)
			clock := quota.NewSimClock(noon)
			behind, leased := strings.CutPrefix(name, "leased ")
			store := storeOf(t, behind, clock)()
			if leased { // in blocks
				l := leasestore.New(store, &leasestore.Options{Clock: clock})
				t.Cleanup(func() { _ = l.Close() })
				store = l
			}
			b, err := book.Parse("costs.yaml", []byte(onceBook), nil)
			if err != nil {
				t.Fatal(err)
			}
			o := &once{T: t, rand: rand.New(rand.NewPCG(seed, 1)), clock: clock, store: store}
			for i := range o.ledgers {
				if o.ledgers[i], err = quota.New(b, store, &quota.Options{Clock: clock}); err != nil {
					t.Fatal(err)
				}
			}
			for n := 0; n < ops; {
				o.account = fmt.Sprint("a", n)
				o.calls = nil
				clock.Set(clock.Now().Add(49 * time.Hour))
				for range min(60, ops-n) {
					n++
					o.step()
				}
			}
		})
	}
}

// once is the state of the test.
type once struct {
	*testing.T
	rand    *rand.Rand
	clock   *quota.SimClock
	store   quota.Store
	ledgers [2]*quota.Ledger
	account string
	calls   []*onceCall
}

func (o *once) step() {
	switch n := o.rand.IntN(10); {
	case n < 3 || len(o.calls) == 0:
		o.reserve()
	case n < 5:
		o.advance()
	default:
		o.settle(o.calls[o.rand.IntN(len(o.calls))])
	}
	o.compare()
}

func (o *once) reserve() {
	c := &onceCall{method: []string{"get", "ask", "tail", "hold", "part"}[o.rand.IntN(5)], ledger: o.rand.IntN(2), made: o.clock.Now()}
	var err error
	c.Reservation, err = o.ledgers[c.ledger].Reserve(o.Context(), quota.Call{Method: c.method, Account: o.account})
	if err != nil {
		o.Fatal(err)
	}
	for pool, units := range c.Charges() {
		c.counts = append(c.counts, onceCount{pool, units, o.clock.Now()})
	}
	o.calls = append(o.calls, c)
}

// advance moves the clock by half an hour at most, and renews what is due every 20 minutes.
func (o *once) advance() {
	o.clock.Advance(time.Duration(o.rand.Int64N(int64(30 * time.Minute))))
	var open []quota.Token
	for _, c := range o.calls {
		if c.method != "get" && c.settled.IsZero() { // as ledgers do
			open = append(open, c.Token())
		}
	}
	if _, err := o.store.Slots(o.Context(), open, false); err != nil {
		o.Fatal(err)
	}
}

// settle settles or releases a call, or tries to do it again.
func (o *once) settle(c *onceCall) {
	now := o.clock.Now()
	lives := c.method != "get" || now.Sub(c.made) <= quota.ReceiptLife
	if !c.settled.IsZero() && (!lives || now.Sub(c.settled) > 25*time.Minute) {
		return // it may be known or not
	}
	var units quota.Units
	if o.rand.IntN(3) > 0 {
		units = quota.Units{}
		for pool := range c.Charges() {
			units[pool] = o.rand.Int64N(25)
		}
	}
	l := o.ledgers[o.rand.IntN(2)]
	by := fmt.Sprintf("settle by token to %v", units)
	var s quota.Settlement
	var err error
	token, bad := quota.ParseToken(c.Token().String())
	if bad != nil {
		o.Fatal(bad)
	}
	switch by2 := o.rand.IntN(2); {
	case by2 == 0 && units == nil:
		by = "release"
		s, err = c.Release(o.Context())
	case by2 == 0:
		by = fmt.Sprintf("settle to %v", units)
		s, err = c.Settle(o.Context(), units)
	case units == nil:
		by = "release by token"
		s, err = l.Release(o.Context(), token)
	default:
		s, err = l.Settle(o.Context(), token, units)
	}
	what := fmt.Sprintf("%s of %s after %s", by, c.method, now.Sub(c.made))
	switch {
	case c.settled.IsZero() && !lives:
		if !errors.Is(err, quota.ErrNoReceipt) {
			o.Fatalf("%s: %+v, %v; its receipt has ended", what, s, err)
		}
		return
	case err != nil:
		o.Fatalf("%s: %v (first: %s)", what, err, c.by)
	case c.settled.IsZero():
		if s.Repeat {
			o.Fatalf("%s: it says that it was settled before", what)
		}
		c.settle(units, now)
		c.first, c.by = s, what
	default:
		want := c.first
		want.Repeat = true
		if s != want {
			o.Fatalf("%s says %+v\nthe first, %s, %+v", what, s, c.by, c.first)
		}
	}
	if err := c.Done(o.Context()); err != nil {
		o.Fatal(err)
	}
}

// compare compares what counts with the list of calls.
func (o *once) compare() {
	all, err := o.ledgers[o.rand.IntN(2)].View().Usage(o.Context(), "api", o.account)
	if err != nil {
		o.Fatal(err)
	}
	now := o.clock.Now()
	for _, u := range all {
		if u.Pool.Name == "slots" {
			continue
		}
		for i, per := range []time.Duration{24 * time.Hour, 10 * time.Minute}[:len(u.Windows)] {
			want := int64(0)
			for _, c := range o.calls {
				for _, n := range c.counts {
					if n.pool == u.Pool.Name && n.at.Add(per).After(now) {
						want += n.units
					}
				}
			}
			if got := u.Windows[i].Used; got != want {
				last := ""
				for _, c := range o.calls {
					last += fmt.Sprintf("\n%s at %s: %s, %+v", c.method, c.made.Format(time.TimeOnly), c.by, c.counts)
				}
				o.Fatalf("%s in %s: %d are used, want %d of%s", u.Pool, per, got, want, last)
			}
		}
	}
}
