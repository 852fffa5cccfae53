package quota_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// lateRig is a ledger's store on a clock of the test, and an upstream that counts what is
// sent.
type lateRig struct {
	*testing.T
	clock *quota.SimClock
	store quota.Store
	sent  []departure
}

func newLateRig(t *testing.T) *lateRig {
	clock := quota.NewSimClock(noon)
	return &lateRig{T: t, clock: clock, store: memstore.New(&memstore.Options{Clock: clock})}
}

// process opens the ledger with a price book. Processes of an earlier revision go on.
func (r *lateRig) process(s quota.Store, revision int, pool string) *quota.Ledger {
	r.Helper()
	l, err := quota.New(lateBook(r, revision, pool), s, &quota.Options{Clock: r.clock})
	if err != nil {
		r.Fatal(err)
	}
	return l
}

func lateBook(t testing.TB, revision int, pool string) *quota.Book {
	t.Helper()
	return mustParse(t, fmt.Sprintf("revision: %d\nupstreams: {youtube: {pools: {units: {headroom: 0, %s}}}}", revision, pool))
}

// send makes calls of one unit until one is refused, at most n, and sends each at once.
func (r *lateRig) send(ctx context.Context, l *quota.Ledger, n int) (sent int) {
	r.Helper()
	for ; sent < n; sent++ {
		if _, err := l.Reserve(ctx, units(1)); err != nil {
			break
		}
		r.sent = append(r.sent, departure{r.clock.Now(), 1})
	}
	return sent
}

// at moves the clock to so long after noon.
func (r *lateRig) at(d time.Duration) { r.clock.Set(noon.Add(d)) }

// notOver fails the test if the upstream has counted more than its quota in a minute. It
// fails as well if the pool does not come back.
func (r *lateRig) notOver(l *quota.Ledger, limit int) {
	r.Helper()
	p := passes{left: r.sent}
	if most := p.worst(time.Minute); most > int64(limit) {
		r.Errorf("%d were sent within a minute, the upstream allows %d", most, limit)
	}
	r.clock.Advance(3 * time.Minute)
	if n := r.send(r.Context(), l, limit); n != limit {
		r.Errorf("%d were granted after everything had left, want %d", n, limit)
	}
}

// Units of leased blocks are sent up to a life after they were counted. A price book that
// shortens the life, or has no lease, frees none of them early.
func TestARevisionKeepsTheLatenessOfLeasedBlocks(t *testing.T) {
	const leased = "quota: 1000, windows: [{per: 1m}], lease: {life: 2s, most: 50}"
	for name, after := range map[string]string{
		"the lease is removed":     "quota: 1000, windows: [{per: 1m}]",
		"its life is shorter":      "quota: 1000, windows: [{per: 1m, precision: 100ms}], lease: {life: 100ms, most: 50}",
		"its precision is finer":   "quota: 1000, windows: [{per: 1m, precision: 100ms}]",
		"the ring becomes a log":   "quota: 1000, windows: [{per: 1m, algorithm: log}]",
		"a longer ring comes":      "quota: 1000, windows: [{per: 1m}, {per: 10m, quota: 100000}]",
		"a calendar stands beside": "quota: 1000, windows: [{per: 1m}, {per: day, quota: 100000}]",
	} {
		for _, processes := range []int{1, 2} {
			t.Run(fmt.Sprint(name, ", processes ", processes), func(t *testing.T) {
				r := newLateRig(t)
				// the store of a process whose blocks are for 50 calls
				mine := leasestore.New(r.store, &leasestore.Options{Clock: r.clock})
				l := r.process(mine, 1, leased)
				other := r.process(r.store, 1, leased)
				r.send(t.Context(), l, 2) // from the second on, it takes blocks
				for range 3 {             // of its rate
					r.at(r.clock.Now().Sub(noon) + 10*time.Millisecond)
					r.send(t.Context(), l, 40)
				}
				r.send(t.Context(), other, 1000) // all that is not in a block
				left := 1000 - len(r.sent)
				r.at(1990 * time.Millisecond)
				if n := r.send(t.Context(), l, 1000); n == 0 || n > left {
					t.Fatalf("%d of %d units were left in a block: this shows nothing", n, left)
				}
				next := l
				if processes == 1 {
					if err := l.SetBook(lateBook(t, 2, after)); err != nil {
						t.Fatal(err)
					}
				} else {
					next = r.process(r.store, 2, after)
				}
				for d := 2 * time.Second; d < 70*time.Second; d += 50 * time.Millisecond {
					r.at(d)
					r.send(t.Context(), next, 1000)
				}
				r.notOver(next, 1000)
			})
		}
	}
}

// A process that does not know of a new price book goes on to draw from its hold. What it
// sends counts for a whole window of the new book from then on.
func TestARevisionKeepsTheLatenessOfAHold(t *testing.T) {
	const before = "quota: 100, windows: [{per: 1m, precision: 30s}]"
	for name, after := range map[string]string{
		"a finer precision":         "quota: 100, windows: [{per: 1m}]",
		"a coarser precision":       "quota: 100, windows: [{per: 1m, precision: 1m}]",
		"a log":                     "quota: 100, windows: [{per: 1m, algorithm: log}]",
		"a shorter window beside":   "quota: 100, windows: [{per: 1m}, {per: 10s, quota: 100}]",
		"a longer window beside":    "quota: 100, windows: [{per: 1m}, {per: 1h, quota: 1000}]",
		"a calendar beside":         "quota: 100, windows: [{per: 1m}, {per: hour, quota: 1000}]",
		"a finer one with late":     "quota: 100, windows: [{per: 1m, precision: 1s, late: 3s}]",
		"another one shortly after": "quota: 100, windows: [{per: 1m, precision: 2s}]",
	} {
		t.Run(name, func(t *testing.T) {
			r := newLateRig(t)
			a := r.process(r.store, 1, before)
			h, err := a.Hold(t.Context(), units(1), 40)
			if err != nil {
				t.Fatal(err)
			}
			r.at(time.Second)
			b := r.process(r.store, 2, after)
			r.send(t.Context(), b, 100)
			if name == "another one shortly after" {
				r.at(2 * time.Second)
				b = r.process(r.store, 3, "quota: 100, windows: [{per: 1m}]")
			}
			for d := 3 * time.Second; d < 130*time.Second; d += 500 * time.Millisecond {
				r.at(d)
				if d == 28*time.Second {
					if n := r.send(h.Context(t.Context()), a, 40); n != 40 {
						t.Fatalf("%d of 40 were drawn: this shows nothing", n)
					}
				}
				r.send(t.Context(), b, 100)
			}
			r.notOver(b, 100)
		})
	}
}

// A hold draws for at most a minute without asking the store, also where its windows allow
// more. Otherwise a new price book could not know for how long its units may be sent.
func TestAHoldThatLearnsOfAnotherPriceBookEnds(t *testing.T) {
	const before = "quota: 100, windows: [{per: hour}]"
	r := newLateRig(t)
	a := r.process(r.store, 1, before)
	h, err := a.Hold(t.Context(), units(1), 40)
	if err != nil {
		t.Fatal(err)
	}
	r.at(time.Second)
	b := r.process(r.store, 2, "quota: 100, windows: [{per: hour}, {per: 2m, quota: 60}]")
	r.send(t.Context(), b, 1)
	r.at(50 * time.Second)
	if n := r.send(h.Context(t.Context()), a, 10); n != 10 {
		t.Errorf("%d of 10 were drawn within a minute", n)
	}
	r.at(61 * time.Second)
	if n := r.send(h.Context(t.Context()), a, 30); n != 0 {
		t.Errorf("%d were drawn after a minute, under a price book that is stale", n)
	}
}
