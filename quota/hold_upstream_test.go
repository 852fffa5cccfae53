package quota_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// passes is a program that works under holds, and the upstream that counts what leaves,
// to the microsecond.
type passes struct {
	t     *testing.T
	l     *quota.Ledger
	clock *quota.SimClock
	rng   *rand.Rand
	limit int64
	held  []*quota.Hold
	left  []departure
}

type departure struct {
	at    time.Time
	units int64
}

func newPasses(t *testing.T, windows string, limit int64, seed uint64) *passes {
	t.Helper()
	p := &passes{t: t, clock: quota.NewSimClock(noon), rng: rand.New(rand.NewPCG(seed, 4)), limit: limit}
	book := mustParse(t, fmt.Sprintf("revision: 1\nupstreams: {youtube: {pools: {units: {quota: %d, headroom: 0, windows: [%s]}}}}", limit, windows))
	var err error
	p.l, err = quota.New(book, memstore.New(&memstore.Options{Clock: p.clock}), &quota.Options{Clock: p.clock})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hold takes n units for a pass, if there are so many.
func (p *passes) hold(n int64) *quota.Hold {
	h, err := p.l.Hold(p.t.Context(), units(1), int(n))
	if errors.Is(err, quota.ErrRefused) {
		return nil
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.held = append(p.held, h)
	return h
}

// call makes a call of n units. It leaves if it is granted, but for some that fail
// before and are released.
func (p *passes) call(ctx context.Context, n int64) bool {
	r, err := p.l.Reserve(ctx, units(n))
	switch {
	case errors.Is(err, quota.ErrRefused):
		return false
	case err != nil:
		p.t.Fatal(err)
	case p.rng.IntN(10) == 0:
		if _, err := r.Release(ctx); err != nil {
			p.t.Fatal(err)
		}
		return true
	}
	p.left = append(p.left, departure{p.clock.Now(), n})
	return true
}

// drain makes calls under all holds until nothing is left of them.
func (p *passes) drain() {
	for _, h := range p.held {
		for h.Left()["units"] > 0 && p.clock.Now().Before(h.Ends()) && p.call(h.Context(p.t.Context()), 1) {
		}
	}
}

// worst is the most that left in any window of a length.
func (p *passes) worst(per time.Duration) (most int64) {
	first, sum := 0, int64(0)
	for _, d := range p.left {
		sum += d.units
		for ; d.at.Sub(p.left[first].at) >= per; first++ {
			sum -= p.left[first].units
		}
		most = max(most, sum)
	}
	return most
}

// Calls under holds never exceed the limit by the upstream's count, whenever they leave
// within the life of their hold.
func TestHoldIsNeverOverAtTheUpstream(t *testing.T) {
	for windows, pers := range map[string][]time.Duration{
		"{per: 10s}":                       {10 * time.Second},
		"{per: 1m}":                        {time.Minute},
		"{per: 1m, precision: 20s}":        {time.Minute},
		"{per: 1m, algorithm: log}":        {time.Minute},
		"{per: 10m}":                       {10 * time.Minute},
		"{per: 24h}":                       {24 * time.Hour},
		"{per: 24h}, {per: day}":           {24 * time.Hour},
		"{per: 24h}, {per: 10m}":           {24 * time.Hour, 10 * time.Minute},
		"{per: 1h}, {per: 1m}, {per: day}": {time.Hour, time.Minute},
	} {
		t.Run(strings.NewReplacer("{", "", "}", "", " ", "").Replace(windows), func(t *testing.T) {
			var worst int64
			for seed := range uint64(10) {
				p := newPasses(t, windows, 100, seed)
				life := min(pers[len(pers)-1], 15*time.Minute)
				for range 400 {
					p.held = slices.DeleteFunc(p.held, func(h *quota.Hold) bool { return p.clock.Now().Sub(h.Ends()) > 30*time.Minute })
					switch p.rng.IntN(8) {
					case 0, 1, 2:
						p.hold(1 + p.rng.Int64N(60))
					case 3:
						p.drain()
					case 4:
						p.call(t.Context(), 1+p.rng.Int64N(10))
					case 5: // the last instant of one of them, at which all leave
						if len(p.held) > 0 {
							if last := p.held[p.rng.IntN(len(p.held))].Ends().Add(-time.Microsecond); last.After(p.clock.Now()) {
								p.clock.Set(last)
								p.drain()
							}
						}
					case 6:
						if len(p.held) > 0 {
							h := p.held[p.rng.IntN(len(p.held))]
							p.call(h.Context(t.Context()), 1+p.rng.Int64N(10))
							if p.rng.IntN(2) == 0 {
								if err := h.Close(t.Context()); err != nil {
									t.Fatal(err)
								}
							}
						}
					default: // mostly within the life of a hold, and often for a window
						p.clock.Advance(time.Duration(p.rng.Int64N(int64(life))))
						if p.rng.IntN(3) == 0 {
							p.clock.Advance(pers[0] - time.Duration(p.rng.Int64N(int64(life))))
						}
					}
				}
				for _, per := range pers {
					most := p.worst(per)
					worst = max(worst, most)
					if most > p.limit {
						t.Errorf("seed %d: %d left in a window of %s, the limit is %d", seed, most, per, p.limit)
					}
				}
			}
			if worst < 90 { // or it tests nothing
				t.Errorf("%d left in the worst window", worst)
			}
		})
	}
	t.Run("ten holds, a window apart, that leave in one instant", func(t *testing.T) {
		p := newPasses(t, "{per: 1m}", 10, 1)
		for range 10 {
			if p.hold(10) == nil {
				t.Fatal("refused")
			}
			p.clock.Advance(62 * time.Second)
		}
		for range 100 {
			for _, h := range p.held {
				p.call(h.Context(t.Context()), 1)
			}
		}
		if most := p.worst(time.Minute); most > 10 {
			t.Errorf("%d left in a minute", most)
		}
	})
}
