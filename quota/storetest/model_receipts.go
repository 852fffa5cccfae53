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
	token   quota.Token
	made    instant
	high    instant // the latest that the clock has shown since
	pools   []*modelPool
	units   []int64
	at      []instant
	gens    []int
	slot    []bool // by pool: it is a slot
	back    []bool // that was given back
	settled bool
	nothing bool // what was settled was settled to nothing
	result  quota.Settlement
}

// keep notes the receipt of a grant.
func (tr *trial) keep(token quota.Token, pools []*modelPool, units []int64) {
	r := &modelReceipt{token: token, made: tr.clock, high: tr.clock, pools: pools, units: units}
	for _, p := range pools {
		r.at = append(r.at, p.page.latest)
		r.gens = append(r.gens, p.page.generation)
		r.slot = append(r.slot, p.windows[0].Spec.InFlight())
		r.back = append(r.back, false)
	}
	tr.receipts = append(tr.receipts, r)
}

// open reports whether the receipt has a slot, and ended whether it has given one back.
func (r *modelReceipt) open() bool {
	for i, slot := range r.slot {
		if slot && !r.back[i] && r.units[i] > 0 {
			return true
		}
	}
	return false
}

func (r *modelReceipt) ended() bool { return slices.Contains(r.back, true) }

// released reports whether nothing is left of the receipt.
func (r *modelReceipt) released() bool { return r.settled && r.nothing && !r.open() }

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
		if !r.slot[i] {
			by[p.pool.Name] = units[i]
		}
	}
	if rapid.IntRange(0, 3).Draw(rt, "release") == 0 {
		by, units = nil, make([]int64, len(units))
	}
	got, err := tr.store(rt).Settle(context.Background(), r.token, by)
	if err != nil {
		rt.Fatalf("settle %v to %v: %v", r.units, units, err)
	}
	tr.tell(rt, "settle %s of %s to %v", names(r.pools, r.units...), r.made.Time(), units)
	if want := r.settle(tr.clock, units, by == nil); got != want {
		rt.Fatalf("at %s: settle %v to %v: store %+v, model %+v", tr.clock.Time(), r.units, units, got, want)
	}
}

// settle is the model of settling.
func (r *modelReceipt) settle(clock instant, units []int64, release bool) quota.Settlement {
	if r.settled {
		again := r.result
		again.Repeat = true
		return again
	}
	r.settled, r.nothing = true, true
	for i, p := range r.pools {
		if r.slot[i] {
			if !release || r.back[i] || r.units[i] == 0 {
				continue
			}
			r.back[i] = true
		}
		r.nothing = r.nothing && units[i] == 0
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

// slots renews the slots of a receipt, or gives them back.
func (tr *trial) slots(rt *rapid.T) {
	r, done := tr.receipt(rt), rapid.Bool().Draw(rt, "done")
	got, err := tr.store(rt).Slots(context.Background(), []quota.Token{r.token}, done)
	if err != nil {
		rt.Fatalf("at %s: slots: %v", tr.clock.Time(), err)
	}
	tr.tell(rt, "slots of %s of %s, done %t", names(r.pools, r.units...), r.made.Time(), done)
	want := false
	for i, p := range r.pools {
		if !done && !r.slot[i] && p.pool.Key != "" && !p.lapsed && tr.clock-p.page.latest >= micros(quota.ReceiptLife/2) {
			p.unsure = true // the page of a key is kept for as long as the receipt: stores may charge it nothing
		}
		if !r.slot[i] || r.back[i] || r.units[i] == 0 || !p.page.limits[0].Spec.InFlight() {
			continue
		}
		want = true
		now, _ := p.page.now(tr.clock)
		if r.gens[i] == p.page.generation {
			p.page.windows[0].give(now, r.at[i], r.units[i])
		}
		p.wrote(now)
		if r.back[i] = done; !done {
			p.add(now, r.units[i])
			r.at[i], r.gens[i] = now, p.page.generation
		}
	}
	if got[0] != want {
		rt.Fatalf("at %s: had slots: store %t, model %t", tr.clock.Time(), got[0], want)
	}
	switch young := tr.clock-r.made <= micros(quota.ReceiptLife/2); {
	case want, !done && !young:
		r.made, r.high = tr.clock, tr.clock
	case !done: // a store may prolong it already
		r.made = min(r.made, tr.clock)
	}
}

// repeat reserves an id again: with the same charges, or others.
func (tr *trial) repeat(rt *rapid.T) {
	r := tr.receipt(rt)
	other := rapid.IntRange(0, 3).Draw(rt, "other") == 0
	if r.released() && !other {
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
	if other || r.ended() {
		if fault(err) != "bad input" {
			rt.Fatalf("an id with other charges, or of a call that has ended: %s", tell(got, err))
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
