package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
	"pgregory.net/rapid"
)

// actions returns the actions of a timeline. The weight of an action says how often it
// comes.
func (tr *trial) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){"": tr.check}
	for _, a := range []struct {
		name   string
		weight int
		do     func(*rapid.T)
	}{
		{"reserve", 8, tr.reserve},
		{"settle", 2, tr.settle},
		{"slots", 2, tr.slots},
		{"repeat", 1, tr.repeat},
		{"record", 1, tr.record},
		{"correct", 1, tr.correct},
		{"observe", 1, tr.observe},
		{"block", 1, tr.block},
		{"open", 1, tr.open},
		{"lift", 1, tr.lift},
		{"look", 2, tr.look},
		{"forward", 3, tr.forward},
		{"boundary", 1, tr.boundary},
		{"back", 2, tr.back},
		{"brink", 1, tr.brink},
		{"twice", 1, tr.twice},
		{"swing", 1, tr.swing},
		{"ahead", 1, tr.ahead},
		{"return", 1, tr.comeHome},
		{"pause", 1, tr.pause},
		{"restart", 1, tr.restart},
		{"revise", 1, tr.revise},
		{"limit", 1, tr.limit},
		{"key", 1, tr.key},
		{"stale", 1, tr.stale},
		{"member", 3, tr.member},
		{"leap", 1, tr.leap},
	} {
		for i := range a.weight {
			actions[fmt.Sprint(a.name, i)] = func(rt *rapid.T) {
				a.do(rt)
				tr.settled(rt)
			}
		}
	}
	return actions
}

// check runs after every operation.
func (tr *trial) check(rt *rapid.T) {
	for _, p := range tr.all() {
		if problem := p.page.unsafe(max(p.page.latest, tr.clock)); problem != "" {
			rt.Fatalf("the model itself is wrong: %s", problem)
		}
	}
}

// settled charges the pages that a store may or may not have kept after a refusal.
func (tr *trial) settled(rt *rapid.T) {
	for _, p := range tr.all() {
		if p.unsure {
			tr.recordThis(rt, tr.store(rt), window.Never, p)
		}
	}
}

// all returns the pools, both keys of the keyed one, and the members of the family.
func (tr *trial) all() []*modelPool {
	all := append(tr.pools[:len(tr.pools):len(tr.pools)], tr.spare)
	if tr.family != nil {
		all = append(all, tr.family.members...)
	}
	return all
}

// some draws one to three of the pools.
func (tr *trial) some(rt *rapid.T) (pools []*modelPool) {
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 1, 3, rapid.ID[int]).Draw(rt, "pools") {
		pools = append(pools, tr.pools[i])
	}
	return pools
}

func (tr *trial) pool(rt *rapid.T) *modelPool {
	return tr.pools[rapid.IntRange(0, len(tr.pools)-1).Draw(rt, "pool")]
}

// drawUnits draws a number of units. It mostly fits a few times; sometimes it is 0 or too
// large.
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
	pools := tr.some(rt)
	var units []int64
	for _, p := range pools {
		units = append(units, drawUnits(rt, p))
	}
	id := ""
	if rapid.Bool().Draw(rt, "receipt") {
		tr.ids++
		id = fmt.Sprintf("call %d", tr.ids)
	}
	tr.reserveAndWait(rt, id, pools, units)
}

// reserveAndWait reserves. If it is refused, it sometimes waits for the given time.
func (tr *trial) reserveAndWait(rt *rapid.T, id string, pools []*modelPool, units []int64) {
	v := tr.reserveThese(rt, id, pools, units)
	if v.Allowed || v.Impossible || rapid.IntRange(0, 3).Draw(rt, "wait") > 0 {
		return
	}
	// Promise 3 to the letter, model or not.
	tr.setClock(window.At(v.RetryAt) - 1)
	early := tr.reserveThese(rt, "", pools, units)
	if early.Allowed {
		rt.Fatalf("granted 1µs before retry after")
	}
	tr.setClock(window.At(v.RetryAt))
	// A long wait looks like the return of a clock that was set back.
	if late := tr.reserveThese(rt, id, pools, units); !late.Allowed && !early.Rebased && !late.Rebased {
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
		rt.Fatalf("at %s: reserve %v: %v", tr.clock.Time(), units, err)
	}
	tr.tell(rt, "reserve %s: %s", names(pools, units...), tell(got, err))
	tr.called(pools...)
	if got.ID != id || (got.Nonce != [16]byte{}) != (got.Allowed && id != "") {
		rt.Fatalf("reserve as %q: the verdict has id %q and nonce %x", id, got.ID, got.Nonce)
	}
	// Another key's call may have re-based a page, or it was forgotten.
	open := slices.ContainsFunc(pools, func(p *modelPool) bool { return p.pool.Name == "" || p.lapsed || p.reborn })
	want := decide(tr.clock, pools, units)
	if got.Allowed {
		tr.granted++
	} else {
		tr.refused++
	}
	token := got.Token()
	got.ID, got.Nonce, got.Reason = "", [16]byte{}, ""
	if open {
		got.Rebased = want.Rebased
	}
	if tr.h.GiveBack != nil && (got.Allowed || got.Blocked || got.Impossible) {
		ofBlock(&got, &want, len(pools))
	}
	if diff := cmp.Diff(want, got, sameTime); diff != "" {
		rt.Fatalf("at %s: reserve %v (-model +store):\n%s", tr.clock.Time(), units, diff)
	}
	if got.Allowed && id != "" {
		tr.keep(token, pools, units)
	}
	return got
}

// ofBlock makes equal what the verdict of a call from a block need not know: which of several pools
// has the least left after this call. Units of the block before it may be on their way back, and
// count as used.
func ofBlock(got, want *quota.Verdict, pools int) {
	if pools > 1 && got.Allowed || got.Used > want.Used && got.Remaining == max(got.Limit-got.Used, 0) {
		got.Pool, got.Window, got.Units, got.Used = want.Pool, want.Window, want.Units, want.Used
		got.Limit, got.Remaining, got.ResetAt = want.Limit, want.Remaining, want.ResetAt
	}
}

// sameTime compares times as instants: a store may return another zone.
var sameTime = cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })

// record charges units that are already spent: now, in the past, or in the future.
func (tr *trial) record(rt *rapid.T) {
	pools, at := tr.some(rt), window.Never // now
	switch rapid.IntRange(0, 3).Draw(rt, "when") {
	case 0, 1:
		at = tr.clock - drawStep(rt)
	case 2:
		at = tr.clock + drawStep(rt)
	}
	tr.called(pools...) // which may drop a page
	for _, p := range pools {
		if p.lapsed || p.page.windows == nil { // the time of the page is open
			at = window.Never
		}
	}
	tr.recordThis(rt, tr.store(rt), at, pools...)
}

// recordThis charges a few units.
func (tr *trial) recordThis(rt *rapid.T, s quota.Store, at instant, pools ...*modelPool) {
	var req quota.Request
	if at != window.Never {
		req.At = at.Time()
	}
	for _, p := range pools {
		req.Charges = append(req.Charges, p.charge(rapid.Int64Range(0, 2+p.windows[0].Limit/4).Draw(rt, "units")))
	}
	tr.recordRequest(rt, s, req, at, pools)
}

// correct gives units back.
func (tr *trial) correct(rt *rapid.T) {
	p := tr.pool(rt)
	units := rapid.Int64Range(1, p.windows[0].Limit).Draw(rt, "units")
	tr.recordRequest(rt, tr.store(rt), quota.Request{Charges: []quota.Charge{p.charge(-units)}}, window.Never, []*modelPool{p})
}

func (tr *trial) recordRequest(rt *rapid.T, s quota.Store, req quota.Request, at instant, pools []*modelPool) {
	if _, err := s.Record(context.Background(), req); err != nil {
		rt.Fatalf("at %s: record: %v", tr.clock.Time(), err)
	}
	tr.tell(rt, "record %s%s", names(pools, unitsOf(req.Charges)...), when(" at ", req.At))
	for i, p := range pools {
		tr.called(p)
		p.record(tr.clock, at, req.Charges[i].Units)
	}
}

func (tr *trial) block(rt *rapid.T) {
	var until instant
	step := min(drawStep(rt), micros(time.Hour))
	b := quota.BlockRequest{Reason: "the upstream said no"}
	switch rapid.IntRange(0, 3).Draw(rt, "how") {
	case 0:
		until = tr.clock + step
		b.Until = until.Time()
	case 1:
		until = tr.clock - step
		b.Until = until.Time()
	default:
		until = tr.clock + step
		b.For = time.Duration(step) * time.Microsecond
	}
	tr.blockThese(rt, tr.store(rt), b, until, tr.some(rt))
}

func (tr *trial) open(rt *rapid.T) {
	tr.blockThese(rt, tr.store(rt), quota.BlockRequest{Open: true}, 0, tr.some(rt))
}

func (tr *trial) blockThese(rt *rapid.T, s quota.Store, b quota.BlockRequest, until instant, pools []*modelPool) {
	for _, p := range pools {
		b.Charges = append(b.Charges, p.charge(0))
	}
	if err := s.Block(context.Background(), b); err != nil {
		rt.Fatalf("at %s: block: %v", tr.clock.Time(), err)
	}
	if b.Open {
		tr.tell(rt, "open %s", names(pools))
	} else {
		tr.tell(rt, "block %s%s", names(pools), when(" until ", until.Time()))
	}
	tr.called(pools...)
	for _, p := range pools {
		if b.Open {
			p.open(tr.clock)
		} else {
			p.block(tr.clock, until)
		}
	}
}

// lift shuts pools through one process and opens them through another. Both processes
// must notice.
func (tr *trial) lift(rt *rapid.T) {
	if len(tr.stores) == 1 {
		rt.SkipNow()
	}
	pools, order := tr.some(rt), rapid.Permutation(tr.stores).Draw(rt, "processes")
	d := time.Duration(rapid.IntRange(1, 3600).Draw(rt, "seconds")) * time.Second
	tr.blockThese(rt, order[0], quota.BlockRequest{For: d, Reason: "the upstream said no"}, tr.clock+micros(d), pools)
	if rapid.Bool().Draw(rt, "meet it") {
		tr.reserveThese(rt, "", pools, make([]int64, len(pools)))
	}
	tr.blockThese(rt, order[1], quota.BlockRequest{Open: true}, 0, pools)
	for range order {
		tr.reserveThese(rt, "", pools, make([]int64, len(pools)))
	}
}

func (tr *trial) look(rt *rapid.T) { tr.lookAt(rt, tr.some(rt)...) }

func (tr *trial) lookAt(rt *rapid.T, pools ...*modelPool) {
	var charges []quota.Charge
	for _, p := range pools {
		charges = append(charges, p.charge(0))
	}
	got, err := tr.store(rt).Look(context.Background(), charges)
	if err != nil || len(got) != len(pools) {
		rt.Fatalf("at %s: look: %v %v", tr.clock.Time(), got, err)
	}
	tr.tell(rt, "look at %s", names(pools))
	for i, p := range pools {
		want := p.look(tr.clock)
		want.Born, want.Reason = got[i].Born, got[i].Reason
		if p.lapsed {
			want.Known = got[i].Known
		}
		if diff := cmp.Diff(want, got[i], sameTime); diff != "" {
			rt.Fatalf("at %s: look (-model +store):\n%s", tr.clock.Time(), diff)
		}
	}
}

// revise gives a pool other windows, or fewer, longer or shorter ones, by a price book of
// a higher revision. The next request lays the page out. It comes at once or after a
// pause, in the same process or another one.
func (tr *trial) revise(rt *rapid.T) {
	p := tr.pool(rt)
	tr.giveBack(nil) // what is in blocks counts as used under the new book
	p.windows = drawWindows(rt)
	p.revision++
	tr.tell(rt, "%s has other windows: %s", names([]*modelPool{p}), windowNames(p.windows))
	switch rapid.IntRange(0, 4).Draw(rt, "then") {
	case 0:
		tr.lookAt(rt, p)
	case 1:
		tr.reserveAndWait(rt, "", []*modelPool{p}, []int64{drawUnits(rt, p)})
	case 2:
		tr.recordThis(rt, tr.store(rt), window.Never, p)
		tr.pause(rt)
	case 3:
		tr.pause(rt)
	}
}

// limit changes a limit, which needs no revision.
func (tr *trial) limit(rt *rapid.T) {
	p := tr.pool(rt)
	w := rapid.IntRange(0, len(p.windows)-1).Draw(rt, "window")
	p.windows = append([]window.Limit(nil), p.windows...)
	p.windows[w].Limit = rapid.Int64Range(1, 120).Draw(rt, "limit")
}

// stale reserves with another price book than the one that laid out the page.
func (tr *trial) stale(rt *rapid.T) {
	p := tr.pool(rt)
	tr.recordThis(rt, tr.store(rt), window.Never, p) // else it is open which one has
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
