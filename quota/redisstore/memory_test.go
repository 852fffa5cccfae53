package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/storetest"
	"github.com/headroom-quota/headroom/quota/window"
)

// The scripts and the Go stores do the same arithmetic. Their answers are equal whatever
// the clock does.
func TestScriptsDecideAsMemoryDoes(t *testing.T) {
	clock := storetest.NewClock()
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	c := dial(t, server.Addr)
	rapid.Check(t, func(rt *rapid.T) {
		begin := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
		clock.Set(begin)
		d := &duel{
			rt: rt, clock: clock, highest: begin, lowest: begin,
			mem: memstore.New(&memstore.Options{Clock: clock}), red: open(t, c, prefix()),
		}
		for i := range d.windows {
			d.revise(i)
		}
		d.pin()
		rt.Repeat(map[string]func(*rapid.T){
			"reserve": d.reserve, "reserve2": d.reserve, "reserve3": d.reserve,
			"repeat": d.repeat, "settle": d.settle, "record": d.record, "block": d.block,
			"look": d.look, "step": d.step, "step2": d.step,
			"revise": func(*rapid.T) { d.revise(d.number("pool", 0, 1)) },
		})
	})
}

// duel is two stores with one clock.
type duel struct {
	rt              *rapid.T
	clock           storetest.Clock
	highest, lowest time.Time // since the receipts below were made
	mem, red        quota.Store
	windows         [2][]window.Limit
	revision        int64
	receipts        []duelReceipt
	ids             int
}

type duelReceipt struct {
	request  quota.Request
	mem, red quota.Token
}

func (d *duel) number(what string, from, to int64) int {
	return int(rapid.Int64Range(from, to).Draw(d.rt, what))
}

func (d *duel) step(*rapid.T) {
	scale := rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 20_000 * time.Hour}).Draw(d.rt, "scale")
	now := d.clock.Now().Add(time.Duration(d.number("steps", -30, 40)) * scale / 7).Truncate(time.Microsecond)
	d.clock.Set(now)
	if now.After(d.highest) {
		d.highest = now
	}
	if now.Before(d.lowest) {
		d.lowest = now
	}
	if d.highest.Sub(d.lowest) > quota.ReceiptLife/2 {
		d.highest, d.lowest, d.receipts = now, now, nil
	}
}

func (d *duel) revise(i int) {
	d.revision++
	d.windows[i] = nil
	for n := d.number("windows", 1, 3); n > 0; n-- {
		spec, err := rapid.SampledFrom([]window.Spec{
			{Per: time.Second, Algorithm: window.Exact},
			{Per: 10 * time.Second, Precision: time.Second},
			{Per: time.Minute, Algorithm: window.Exact},
			{Per: time.Hour, Precision: time.Minute},
			{Per: time.Hour, Algorithm: window.Estimate},
			{Per: 10 * time.Second, Algorithm: window.Estimate},
			{Period: window.Minute, Lag: 10 * time.Second},
			{Period: window.Day},
		}).Draw(d.rt, "window").Normal()
		if err != nil {
			d.rt.Fatal(err)
		}
		d.windows[i] = append(d.windows[i], window.NewLimit(spec, int64(d.number("limit", 3, 20))))
	}
}

func (d *duel) charges() []quota.Charge {
	var all []quota.Charge
	for i := range d.windows {
		if pick := d.number("pools", 0, 2); pick == 2 || pick == i || len(all) == 0 && i == len(d.windows)-1 {
			all = append(all, d.charge(i))
		}
	}
	return all
}

// same compares what two stores answered, errors by their kind.
func (d *duel) same(what string, mem, red any, memErr, redErr error) bool {
	if errors.Is(memErr, quota.ErrBadInput) != errors.Is(redErr, quota.ErrBadInput) || (memErr == nil) != (redErr == nil) {
		d.rt.Fatalf("%s at %s: memory %v, redis %v", what, d.clock.Now(), memErr, redErr)
	}
	sameTime := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
	// In Redis, only a reservation forgets the reason of a block that is over when a page is laid out again. If
	// the clock was then set back so far that the page shuts itself, it may be shown once more.
	staleReason := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Reason" },
		cmp.Comparer(func(a, b string) bool { return a == b || a == "" || b == "" }))
	if diff := cmp.Diff(mem, red, sameTime, staleReason); memErr == nil && diff != "" {
		d.rt.Fatalf("%s at %s (-memory +redis):\n%s", what, d.clock.Now(), diff)
	}
	return memErr == nil
}

func (d *duel) ask(r quota.Request) {
	mem, memErr := d.mem.Reserve(bg, r)
	red, redErr := d.red.Reserve(bg, r)
	receipt := duelReceipt{r, mem.Token(), red.Token()}
	mem.Nonce, red.Nonce = [16]byte{}, [16]byte{}
	if d.same(fmt.Sprint("reserve ", r), mem, red, memErr, redErr) && mem.Allowed && r.ID != "" && !mem.Repeat {
		d.receipts = append(d.receipts, receipt)
	}
}

func (d *duel) reserve(*rapid.T) {
	r := quota.Request{Charges: d.charges()}
	if d.number("id", 0, 1) == 1 {
		d.ids++
		r.ID = fmt.Sprint("call", d.ids)
	}
	d.ask(r)
}

func (d *duel) receipt() duelReceipt {
	if len(d.receipts) == 0 {
		d.rt.Skip("no receipt")
	}
	return rapid.SampledFrom(d.receipts).Draw(d.rt, "receipt")
}

func (d *duel) repeat(*rapid.T) {
	r := d.receipt().request
	for i := range r.Charges {
		r.Charges[i].Revision = d.revision
		r.Charges[i].Windows = d.windows[int(r.Charges[i].Pool.Name[4]-'0')]
	}
	d.ask(r)
}

func (d *duel) settle(*rapid.T) {
	r := d.receipt()
	units := quota.Units{}
	for _, c := range r.request.Charges {
		units[c.Pool.Name] = int64(d.number("units", 0, 9))
	}
	mem, memErr := d.mem.Settle(bg, r.mem, units)
	red, redErr := d.red.Settle(bg, r.red, units)
	d.same("settle", mem, red, memErr, redErr)
}

// pin charges both pages: one that was only ever refused may be known or not.
func (d *duel) pin() {
	r := quota.Request{Charges: []quota.Charge{d.charge(0), d.charge(1)}}
	d.recordThis("pin", r)
}

func (d *duel) charge(i int) quota.Charge {
	return quota.Charge{
		Pool:     quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: fmt.Sprint("pool", i)},
		Units:    int64(d.number("units", 0, 7)),
		Windows:  d.windows[i],
		Revision: d.revision,
	}
}

func (d *duel) record(*rapid.T) {
	r := quota.Request{Charges: d.charges()}
	switch d.number("how", 0, 2) {
	case 0:
		r.At = d.clock.Now().Add(-time.Duration(d.number("ago", 0, 4_000_000)) * time.Millisecond)
	case 1:
		for i := range r.Charges {
			r.Charges[i].Units = -r.Charges[i].Units
		}
	}
	d.recordThis("record", r)
}

func (d *duel) recordThis(what string, r quota.Request) {
	mem, memErr := d.mem.Record(bg, r)
	red, redErr := d.red.Record(bg, r)
	d.same(what, mem, red, memErr, redErr)
}

func (d *duel) block(*rapid.T) {
	b := quota.BlockRequest{Charges: d.charges(), Reason: "no", Open: d.number("open", 0, 1) == 1}
	if span := time.Duration(d.number("span", -3, 3)) * time.Minute; span > 0 {
		b.For = span
	} else {
		b.Until = d.clock.Now().Add(span)
	}
	d.same("block", nil, nil, d.mem.Block(bg, b), d.red.Block(bg, b))
}

func (d *duel) look(*rapid.T) {
	charges := d.charges()
	mem, memErr := d.mem.Look(bg, charges)
	red, redErr := d.red.Look(bg, charges)
	d.same("look", mem, red, memErr, redErr)
}

// A page that is laid out again after the clock was set back far shuts itself. The reason of an earlier
// block, which is over, is not the reason of that.
func TestTheReasonOfABlockThatIsOver(t *testing.T) {
	clock := storetest.NewClock()
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	s := open(t, dial(t, server.Addr), prefix())
	begin := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	charge := func(spec window.Spec, revision int64) []quota.Charge {
		spec, err := spec.Normal()
		if err != nil {
			t.Fatal(err)
		}
		limit := window.NewLimit(spec, 6)
		pool := quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"}
		return []quota.Charge{{Pool: pool, Units: 1, Windows: []window.Limit{limit}, Revision: revision}}
	}
	hour := charge(window.Spec{Per: time.Hour, Precision: time.Minute}, 1)
	clock.Set(begin)
	if err := s.Block(t.Context(), quota.BlockRequest{Charges: hour, For: time.Second, Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	clock.Set(begin.Add(time.Minute))
	if v, err := s.Reserve(t.Context(), quota.Request{Charges: hour}); err != nil || !v.Allowed {
		t.Fatal(v, err)
	}
	clock.Set(begin.Add(-72 * time.Hour))
	for range 2 {
		v, err := s.Reserve(t.Context(), quota.Request{Charges: charge(window.Spec{Per: 10 * time.Second, Precision: time.Second}, 2)})
		if err != nil || !v.Blocked || v.Reason != "" {
			t.Errorf("%+v %v, want a block without a reason", v, err)
		}
	}
}
