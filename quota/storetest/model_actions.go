package storetest

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
	"pgregory.net/rapid"
)

// actions are what a timeline is made of. What comes twice is drawn twice as
// often.
func (tr *trial) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":         tr.check,
		"reserve":  tr.reserve,
		"reserve2": tr.reserve,
		"reserve3": tr.reserve,
		"reserve4": tr.reserve,
		"reserve5": tr.reserve,
		"reserve6": tr.reserve,
		"reserve7": tr.reserve,
		"reserve8": tr.reserve,
		"settle":   tr.settle,
		"settle2":  tr.settle,
		"repeat":   tr.repeat,
		"record":   tr.record,
		"correct":  tr.correct,
		"block":    tr.block,
		"open":     tr.open,
		"look":     tr.look,
		"look2":    tr.look,
		"forward":  tr.forward,
		"forward2": tr.forward,
		"forward3": tr.forward,
		"boundary": tr.boundary,
		"back":     tr.back,
		"ahead":    tr.ahead,
		"return":   tr.comeHome,
		"revise":   tr.revise,
		"limit":    tr.limit,
		"stale":    tr.stale,
	}
}

// check is what holds after every operation.
func (tr *trial) check(rt *rapid.T) {
	for _, p := range tr.pools {
		if problem := p.page.unsafe(max(p.page.latest, tr.clock)); problem != "" {
			rt.Fatalf("the model itself is wrong: %s", problem)
		}
	}
}

func (tr *trial) pool(rt *rapid.T) *modelPool {
	return tr.pools[rapid.IntRange(0, len(tr.pools)-1).Draw(rt, "pool")]
}

// drawUnits is mostly what fits a few times; at times nothing, or too much.
func drawUnits(rt *rapid.T, p *modelPool) int64 {
	limit := p.windows[0].Limit
	for _, w := range p.windows {
		limit = min(limit, w.Limit)
	}
	switch rapid.IntRange(0, 9).Draw(rt, "weight") {
	case 0:
		return rapid.Int64Range(0, limit+2).Draw(rt, "units")
	case 1:
		return limit
	}
	return rapid.Int64Range(0, limit/4+1).Draw(rt, "units")
}

func (tr *trial) reserve(rt *rapid.T) {
	var pools []*modelPool
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 1, 3, rapid.ID[int]).Draw(rt, "pools") {
		pools = append(pools, tr.pools[i])
	}
	var units []int64
	for _, p := range pools {
		units = append(units, drawUnits(rt, p))
	}
	id := ""
	if rapid.Bool().Draw(rt, "receipt") {
		tr.ids++
		id = fmt.Sprintf("call %d", tr.ids)
	}
	v := tr.reserveThese(rt, id, pools, units)
	if v.Allowed || v.Impossible || rapid.IntRange(0, 3).Draw(rt, "wait") > 0 {
		return
	}
	// Promise 3 to the letter, model or not.
	tr.setClock(window.At(v.RetryAt) - 1)
	if early := tr.reserveThese(rt, "", pools, units); early.Allowed {
		rt.Fatalf("granted 1µs before retry after")
	}
	tr.setClock(window.At(v.RetryAt))
	if late := tr.reserveThese(rt, id, pools, units); !late.Allowed {
		rt.Fatalf("refused at retry after")
	}
}

// reserveThese reserves in the store and in the model, and compares.
func (tr *trial) reserveThese(rt *rapid.T, id string, pools []*modelPool, units []int64) quota.Verdict {
	req := quota.Request{ID: id}
	for i, p := range pools {
		req.Charges = append(req.Charges, p.charge(units[i]))
	}
	got, err := tr.store(rt).Reserve(context.Background(), req)
	if err != nil {
		rt.Fatalf("reserve %v: %v", units, err)
	}
	if got.ID != id || (got.Nonce != [16]byte{}) != (got.Allowed && id != "") {
		rt.Fatalf("reserve as %q: the verdict has id %q and nonce %x", id, got.ID, got.Nonce)
	}
	want := decide(tr.clock, pools, units)
	if got.Allowed {
		tr.granted++
	} else {
		tr.refused++
	}
	token := got.Token()
	got.ID, got.Nonce, got.Reason = "", [16]byte{}, ""
	if diff := cmp.Diff(want, got, sameTime); diff != "" {
		rt.Fatalf("at %s: reserve %v (-model +store):\n%s", tr.clock.Time(), units, diff)
	}
	if got.Allowed && id != "" {
		r := &modelReceipt{token: token, made: tr.clock, pools: pools, units: units}
		for _, p := range pools {
			r.at = append(r.at, p.page.latest)
			r.gens = append(r.gens, p.page.generation)
		}
		tr.receipts = append(tr.receipts, r)
	}
	return got
}

// sameTime compares times as instants: a store may return another zone.
var sameTime = cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })

// receipt is one that certainly has not expired.
func (tr *trial) receipt(rt *rapid.T) *modelReceipt {
	var alive []*modelReceipt
	for _, r := range tr.receipts {
		if tr.peak-r.made < micros(quota.ReceiptLife-time.Second) {
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
		by[p.charge(0).Pool.Name] = units[i]
	}
	got, err := tr.store(rt).Settle(context.Background(), r.token, by)
	if err != nil {
		rt.Fatalf("settle %v to %v: %v", r.units, units, err)
	}
	if want := r.settle(tr.clock, units); got != want {
		rt.Fatalf("at %s: settle %v to %v: store %+v, model %+v", tr.clock.Time(), r.units, units, got, want)
	}
}

// repeat reserves an id again: with the same charges, or others.
func (tr *trial) repeat(rt *rapid.T) {
	r := tr.receipt(rt)
	other := rapid.IntRange(0, 3).Draw(rt, "other") == 0
	if r.released && !other {
		return // decided afresh: once.go has the table
	}
	req := quota.Request{ID: r.token.ID}
	for i, p := range r.pools {
		req.Charges = append(req.Charges, p.charge(r.units[i]))
	}
	if other {
		req.Charges[0].Units++
	}
	v, err := tr.store(rt).Reserve(context.Background(), req)
	switch {
	case other && fault(err) != "bad input":
		rt.Fatalf("an id with other charges: %s", tell(v, err))
	case !other && (err != nil || !v.Allowed || !v.Repeat || v.Token() != r.token || v.ID != r.token.ID):
		rt.Fatalf("an id again: %+v %v, want it granted with token %+v", v, err, r.token)
	}
}

func (tr *trial) record(rt *rapid.T) {
	p := tr.pool(rt)
	units := rapid.Int64Range(0, p.windows[0].Limit).Draw(rt, "units")
	req := quota.Request{Charges: []quota.Charge{p.charge(units)}}
	at := window.Never // now
	switch rapid.IntRange(0, 3).Draw(rt, "when") {
	case 0, 1:
		at = tr.clock - drawStep(rt)
		req.At = at.Time()
	case 2:
		if tr.clock >= p.page.latest { // else it is open which of the two is now
			req.At = (tr.clock + drawStep(rt)).Time()
		}
	}
	tr.recordThis(rt, p, req, at)
}

func (tr *trial) correct(rt *rapid.T) {
	p := tr.pool(rt)
	units := rapid.Int64Range(1, p.windows[0].Limit).Draw(rt, "units")
	tr.recordThis(rt, p, quota.Request{Charges: []quota.Charge{p.charge(-units)}}, window.Never)
}

func (tr *trial) recordThis(rt *rapid.T, p *modelPool, req quota.Request, at instant) {
	if _, err := tr.store(rt).Record(context.Background(), req); err != nil {
		rt.Fatalf("record: %v", err)
	}
	p.record(tr.clock, at, req.Charges[0].Units)
}

func (tr *trial) block(rt *rapid.T) {
	p := tr.pool(rt)
	step := min(drawStep(rt), micros(time.Hour))
	until := tr.clock + step
	b := quota.BlockRequest{Charges: []quota.Charge{p.charge(0)}, Reason: "the upstream said no"}
	switch rapid.IntRange(0, 3).Draw(rt, "how") {
	case 0:
		b.Until = until.Time()
	case 1:
		until = tr.clock - step
		b.Until = until.Time()
	default:
		b.For = time.Duration(step) * time.Microsecond
	}
	if err := tr.store(rt).Block(context.Background(), b); err != nil {
		rt.Fatalf("block: %v", err)
	}
	p.block(tr.clock, until)
}

func (tr *trial) open(rt *rapid.T) {
	p := tr.pool(rt)
	if err := tr.store(rt).Block(context.Background(), quota.BlockRequest{Charges: []quota.Charge{p.charge(0)}, Open: true}); err != nil {
		rt.Fatalf("open: %v", err)
	}
	p.block(tr.clock, tr.clock)
	p.page.shut = false
}

func (tr *trial) look(rt *rapid.T) {
	p := tr.pool(rt)
	got, err := tr.store(rt).Look(context.Background(), []quota.Charge{p.charge(0)})
	if err != nil || len(got) != 1 {
		rt.Fatalf("look: %v %v", got, err)
	}
	if !p.page.known {
		return // a page that was only ever refused may be known or not
	}
	want := p.page.state(tr.clock, p.charge(0))
	want.Born, want.Reason = got[0].Born, got[0].Reason
	if diff := cmp.Diff(want, got[0], sameTime); diff != "" {
		rt.Fatalf("at %s: look (-model +store):\n%s", tr.clock.Time(), diff)
	}
}

// revise gives a pool other windows by a price book of a higher revision. It
// charges the page, because one that is only refused may be laid out or not.
func (tr *trial) revise(rt *rapid.T) {
	p := tr.pool(rt)
	p.windows = drawWindows(rt)
	p.revision++
	tr.recordThis(rt, p, quota.Request{Charges: []quota.Charge{p.charge(1)}}, window.Never)
}

// limit changes a limit, which needs no revision.
func (tr *trial) limit(rt *rapid.T) {
	p := tr.pool(rt)
	w := rapid.IntRange(0, len(p.windows)-1).Draw(rt, "window")
	p.windows = append([]window.Limit(nil), p.windows...)
	p.windows[w].Limit = rapid.Int64Range(1, 120).Draw(rt, "limit")
}

// stale asks by a price book that is not the one that laid out the page.
func (tr *trial) stale(rt *rapid.T) {
	p := tr.pool(rt)
	if !p.page.known {
		rt.SkipNow()
	}
	c, want := p.charge(1), "stale book"
	if rapid.Bool().Draw(rt, "same revision") {
		c.Windows, want = append(c.Windows[:len(c.Windows):len(c.Windows)], exact(math.MaxInt32, 77*time.Minute)), "bad input"
	} else {
		c.Revision--
	}
	if v, err := tr.store(rt).Reserve(context.Background(), quota.Request{Charges: []quota.Charge{c}}); fault(err) != want {
		rt.Fatalf("another book: %s, want %s", tell(v, err), want)
	}
}
