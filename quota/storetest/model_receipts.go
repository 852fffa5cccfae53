package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headroom-quota/headroom/quota"
	"pgregory.net/rapid"
)

// modelReceipt is a grant that can be settled.
type modelReceipt struct {
	token    quota.Token
	made     instant
	high     instant // the latest that the clock has shown since
	pools    []*modelPool
	units    []int64
	at       []instant
	gens     []int
	settled  bool
	released bool // settled to nothing
	result   quota.Settlement
}

// keep notes the receipt of a grant.
func (tr *trial) keep(token quota.Token, pools []*modelPool, units []int64) {
	r := &modelReceipt{token: token, made: tr.clock, high: tr.clock, pools: pools, units: units}
	for _, p := range pools {
		r.at = append(r.at, p.page.latest)
		r.gens = append(r.gens, p.page.generation)
	}
	tr.receipts = append(tr.receipts, r)
}

// receipt draws a receipt that has certainly not expired.
func (tr *trial) receipt(rt *rapid.T) *modelReceipt {
	var alive []*modelReceipt
	for _, r := range tr.receipts {
		if r.high-r.made < micros(quota.ReceiptLife-time.Second) {
			alive = append(alive, r)
		}
	}
	if len(alive) == 0 {
		rt.SkipNow()
	}
	return alive[rapid.IntRange(0, len(alive)-1).Draw(rt, "receipt")]
}

func (tr *trial) settle(rt *rapid.T) {
	r := tr.receipt(rt)
	var units []int64
	for _, n := range r.units {
		units = append(units, rapid.OneOf(rapid.Just(int64(0)), rapid.Just(n), rapid.Int64Range(0, 2*n+1)).Draw(rt, "units"))
	}
	by := quota.Units{}
	for i, p := range r.pools {
		by[p.pool.Name] = units[i]
	}
	got, err := tr.store(rt).Settle(context.Background(), r.token, by)
	if err != nil {
		rt.Fatalf("settle %v to %v: %v", r.units, units, err)
	}
	tr.tell(rt, "settle %s of %s to %v", names(r.pools, r.units...), r.made.Time(), units)
	if want := r.settle(tr.clock, units); got != want {
		rt.Fatalf("at %s: settle %v to %v: store %+v, model %+v", tr.clock.Time(), r.units, units, got, want)
	}
}

// settle is the model of settling.
func (r *modelReceipt) settle(clock instant, units []int64) quota.Settlement {
	if r.settled {
		again := r.result
		again.Repeat = true
		return again
	}
	r.settled, r.released = true, slices.Max(units) == 0
	for i, p := range r.pools {
		now, _ := p.page.now(clock)
		switch over := r.units[i] - units[i]; {
		case over < 0:
			p.add(now, -over)
			r.result.Charged += -over
		case over > 0:
			var back int64
			if r.gens[i] == p.page.generation {
				for _, w := range p.page.windows {
					back = max(back, w.give(now, r.at[i], over))
				}
				p.wrote(now)
			}
			r.result.Back += back
			r.result.Left += over - back
		}
	}
	return r.result
}

// repeat reserves an id again: with the same charges, or others.
func (tr *trial) repeat(rt *rapid.T) {
	r := tr.receipt(rt)
	other := rapid.IntRange(0, 3).Draw(rt, "other") == 0
	if r.released && !other {
		rt.SkipNow() // decided afresh: once.go has the table
	}
	req := quota.Request{ID: r.token.ID}
	for i, p := range r.pools {
		req.Charges = append(req.Charges, p.charge(r.units[i]))
	}
	if other {
		req.Charges[0].Units++
	}
	got, err := tr.store(rt).Reserve(context.Background(), req)
	if other {
		if fault(err) != "bad input" {
			rt.Fatalf("an id with other charges: %s", tell(got, err))
		}
		return
	}
	if err != nil || got.Token() != r.token {
		rt.Fatalf("at %s: an id again: %+v %v, want it granted with token %+v", tr.clock.Time(), got, err, r.token)
	}
	tr.called(r.pools...)
	tr.tell(rt, "reserve %s of %s again", names(r.pools, r.units...), r.made.Time())
	want, at := enterAll(tr.clock, r.pools)
	grant(&want, at, r.pools, r.units)
	want.ID, want.Nonce, want.Repeat, want.At = r.token.ID, r.token.Nonce, true, r.at[0].Time()
	if diff := cmp.Diff(want, got, sameTime); diff != "" {
		rt.Fatalf("at %s: an id again (-model +store):\n%s", tr.clock.Time(), diff)
	}
}
