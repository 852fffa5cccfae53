package leasestore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// start is a Monday, at the edge of a bucket of every ring here.
var start = time.Date(2026, 3, 2, 11, 59, 0, 0, time.UTC)

// limit is a window of a test. Its spec must be sound.
func limit(n int64, s window.Spec) window.Limit {
	s, err := s.Normal()
	if err != nil {
		panic(err)
	}
	return window.NewLimit(s, n)
}

// soak reports whether the tests run with the full counts.
func soak() bool { return os.Getenv("HEADROOM_SOAK") == "1" }

// upstream counts the calls that left, by itself.
type upstream struct {
	windows []window.Limit
	left    []sent // in the order in which they left
}

type sent struct {
	at    time.Time
	units int64
}

// over says which window the upstream has counted above its limit, by a clock that differs
// from ours by skew; "" is none.
func (u *upstream) over(skew time.Duration) string {
	for i := range u.windows {
		w := &u.windows[i]
		if w.Spec.Calendar() {
			sums := map[window.Instant]int64{}
			for _, s := range u.left {
				begin, _ := w.Spec.Bounds(window.At(s.at.Add(skew)))
				if sums[begin] += s.units; sums[begin] > w.Limit {
					return fmt.Sprintf("%d of %d in the %s that began at %s", sums[begin], w.Limit, w.Name, begin.Time())
				}
			}
			continue
		}
		if w.Spec.Estimates() { // by its formula
			c := window.New(w.Spec)
			for _, s := range u.left {
				c.Add(window.At(s.at), s.units)
				if used := c.Used(window.At(s.at)); used > w.Limit {
					return fmt.Sprintf("%d of %d in %s at %s", used, w.Limit, w.Name, s.at)
				}
			}
			continue
		}
		var sum int64
		first := 0
		for _, s := range u.left {
			sum += s.units
			for !u.left[first].at.After(s.at.Add(-w.Spec.Per)) {
				sum -= u.left[first].units
				first++
			}
			if sum > w.Limit {
				return fmt.Sprintf("%d of %d in %s until %s", sum, w.Limit, w.Name, s.at)
			}
		}
	}
	return ""
}

// Whatever several processes do with their blocks, and whenever they crash, no upstream
// that counts by itself is asked for more than its limit.
func TestUpstreamIsNeverOver(t *testing.T) {
	const life = 2 * time.Second
	for name, windows := range map[string][]window.Limit{
		"a ring with room for late calls": {limit(60, window.Spec{Per: 10 * time.Second, Precision: time.Second, Late: life})},
		"a fine ring":                     {limit(60, window.Spec{Per: 5 * time.Second, Precision: 10 * time.Millisecond, Late: life})},
		"a coarse ring":                   {limit(60, window.Spec{Per: 30 * time.Second, Precision: 15 * time.Second, Late: life})},
		"a ring of a second":              {limit(60, window.Spec{Per: time.Second, Precision: 100 * time.Millisecond, Late: 300 * time.Millisecond})},
		"a day of both kinds": {
			limit(900, window.Spec{Per: 24 * time.Hour, Late: life}), limit(900, window.Spec{Period: window.Day, Zone: time.UTC}),
		},
		"a ring beside a log": {limit(60, window.Spec{Per: 10 * time.Second, Late: life}), limit(40, window.Spec{Per: time.Second, Algorithm: window.Exact})},
		"a ring and calendars": {
			limit(40, window.Spec{Per: 10 * time.Second, Precision: time.Second, Late: life}),
			limit(80, window.Spec{Period: window.Minute, Lag: 3 * time.Second}), limit(400, window.Spec{Period: window.Hour, Lag: 3 * time.Second}),
		},
		// These end blocks themselves, whatever their life.
		"a ring without room for late calls": {limit(60, window.Spec{Per: 10 * time.Second, Precision: 5 * time.Second})},
		"a calendar":                         {limit(100, window.Spec{Period: window.Minute, Lag: 5 * time.Second})},
		"a counter":                          {limit(100, window.Spec{Per: 20 * time.Second, Algorithm: window.Estimate})},
	} {
		life := life
		if len(windows) == 1 && windows[0].Spec.Late == 0 {
			life = time.Minute
		}
		t.Run(name, func(t *testing.T) {
			runs := 12
			if soak() {
				runs = 400
			}
			for seed := range uint64(2 * runs) {
				pool := quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"}
				if seed%2 == 1 || windows[0].Spec.Estimates() {
					pool = quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: "hot"}
				}
				c := newCrowd(seed, pool, windows, life)
				c.run(t, 1500)
				for _, skew := range []time.Duration{0, 2 * time.Second, -2 * time.Second} {
					if problem := c.over(skew); problem != "" {
						t.Fatalf("seed %d, %s: %s", seed, pool, problem)
					}
				}
				if c.granted == 0 || c.refused == 0 || c.shared == 0 && windows[len(windows)-1].Spec.Algorithm != window.Exact {
					t.Fatalf("seed %d, %s: %d granted, %d of them from blocks, %d refused: this shows nothing", seed, pool, c.granted, c.shared, c.refused)
				}
			}
		})
	}
}

// crowd are processes that share a ledger, on a simulated clock.
type crowd struct {
	upstream
	*rand.Rand
	clock                    *quota.SimClock
	ledger                   *watched
	charge                   quota.Charge
	processes                []*leasestore.Store
	tokens                   []flight
	granted, refused, shared int
}

// flight is a call that may be settled.
type flight struct {
	token quota.Token
	sent  int // index in the upstream's list; -1: it was never sent
	units int64
}

func newCrowd(seed uint64, pool quota.Pool, windows []window.Limit, life time.Duration) *crowd {
	c := &crowd{
		upstream: upstream{windows: windows}, Rand: rand.New(rand.NewPCG(seed, 1)), clock: quota.NewSimClock(start),
		charge: quota.Charge{
			Pool:    pool,
			Windows: windows, Revision: 1, Lease: quota.Lease{Life: life, Most: 30},
		},
	}
	c.ledger = &watched{Store: memstore.New(&memstore.Options{Clock: c.clock})}
	for range 3 {
		c.processes = append(c.processes, c.start())
	}
	return c
}

// start starts a process. Its blocks are larger than its rate asks for.
func (c *crowd) start() *leasestore.Store {
	return leasestore.Eager(c.ledger, &leasestore.Options{Clock: c.clock}, 2+c.Int64N(8))
}

func (c *crowd) run(t *testing.T, steps int) {
	t.Helper()
	for n := range steps {
		c.step(t, n)
	}
}

func (c *crowd) step(t *testing.T, n int) {
	t.Helper()
	i := c.IntN(len(c.processes))
	p := c.processes[i]
	pace := 1 + 9*int64(n/150%2) // else every period would be used up at its beginning
	switch roll := c.IntN(100); {
	case roll < 70:
		c.reserve(t, p, n)
	case roll < 85:
		c.clock.Advance(time.Duration(pace * c.Int64N(int64(700*time.Millisecond))))
	case roll < 88:
		c.clock.Advance(time.Duration(c.Int64N(int64(4 * time.Second))))
	case roll < 95:
		c.settle(t, p)
	case roll < 98: // its timer
		p.Expire(c.clock.Now())
	case roll < 99: // it crashes
		c.processes[i] = c.start()
	default:
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		c.processes[i] = c.start()
	}
}

func (c *crowd) reserve(t *testing.T, p *leasestore.Store, n int) {
	t.Helper()
	charge := c.charge
	charge.Units = 1 + c.Int64N(3)
	if member := charge.Pool.Name == ""; member {
		charge.MaxKeys = 100
		c.others(t, charge)
		if n/100%3 == 2 { // a lower limit that was set at run time
			charge.Windows = slices.Clone(charge.Windows)
			charge.Windows[0].Limit, charge.MaxKeys = charge.Windows[0].Limit/2, 0
		}
	}
	r := quota.Request{ID: fmt.Sprint("call", n), Fresh: true, Charges: []quota.Charge{charge}}
	asked := c.ledger.asked.Load()
	v, err := p.Reserve(context.Background(), r)
	switch {
	case err != nil:
		t.Fatal(err)
	case !v.Allowed:
		c.refused++
		return
	}
	c.granted++
	if c.ledger.asked.Load() == asked {
		c.shared++
	}
	f := flight{v.Token(), len(c.left), charge.Units}
	if c.IntN(10) == 0 && c.charge.Pool.Name != "" {
		f.sent = -1
	} else {
		c.left = append(c.left, sent{c.clock.Now(), charge.Units})
	}
	c.tokens = append(c.tokens, f)
}

// others makes a call for another key of the family, so that idle ones are forgotten.
func (c *crowd) others(t *testing.T, charge quota.Charge) {
	charge.Pool.Key = fmt.Sprint("other", c.IntN(200))
	if _, err := c.ledger.Store.Reserve(t.Context(), quota.Request{Charges: []quota.Charge{charge}}); err != nil {
		t.Fatal(err)
	}
}

// settle settles a call through any process: to nothing if it was never sent, else to
// what it cost.
func (c *crowd) settle(t *testing.T, p *leasestore.Store) {
	t.Helper()
	if len(c.tokens) == 0 || c.charge.Pool.Name == "" { // a family takes no receipts
		return
	}
	f := &c.tokens[c.IntN(len(c.tokens))]
	var units quota.Units
	if f.sent >= 0 {
		units = quota.Units{"units": f.units}
	}
	if _, err := p.Settle(context.Background(), f.token, units); err != nil {
		t.Fatalf("settle %s: %v", f.token.ID, err)
	}
}
