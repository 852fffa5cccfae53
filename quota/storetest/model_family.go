package storetest

import (
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
	"pgregory.net/rapid"
)

// The model of a family. A member is a pool like any other, with one exception: it
// may be forgotten when nothing of it counts.
//
// While the clock goes forward nobody can tell. When it steps back, what had been used
// might count again. So a family that meets a clock which has leapt forgets nobody for
// an hour but who was idle before, because the clock may be set back. After an hour the
// leap is believed.

// The pages of a keyed pool are members, too. They are kept for an hour after nothing of
// them counts.

// modelFamily is a family with a few members, and room for more.
type modelFamily struct {
	kept    instant // how long a member is kept after nothing of it counts
	members []*modelPool
	met     bool
	last    instant // when it was last called
	rests   bool    // it met a clock that had leapt
	leapt   instant // when it did
	from    instant // up to when the clock had come by itself
}

// A leap is a step by more than the longest window, and a minute at least. After it
// nobody is forgotten for an hour.
const (
	leastLeap = time.Minute
	leapRest  = time.Hour
)

func newModelFamily(rt *rapid.T) *modelFamily {
	f := &modelFamily{}
	var long []window.Spec // enough that no page expires while a slow machine takes its time
	for _, s := range catalog {
		if s.Span() >= time.Minute {
			long = append(long, s)
		}
	}
	spec := long[rapid.IntRange(0, len(long)-1).Draw(rt, "family")]
	for i := range 3 {
		m := &modelPool{
			pool:     quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: fmt.Sprintf("key%d", i)},
			windows:  []window.Limit{limited(rapid.Int64Range(1, 60).Draw(rt, "limit"), spec)},
			revision: 1,
			maxKeys:  1000,
		}
		if i == 0 {
			m.maxKeys = 0 // it is listed in the price book
		}
		m.family, f.members = f, append(f.members, m)
	}
	return f
}

// keyedPool makes a pool one of two keys of a keyed pool, and returns the other one, which
// is listed in the price book.
func keyedPool(rt *rapid.T, p *modelPool) *modelPool {
	f := &modelFamily{kept: micros(quota.ReceiptLife)}
	other := &modelPool{pool: p.pool, windows: drawWindows(rt), revision: 1, family: f}
	p.pool.Key, p.maxKeys, p.family = "a", 1000, f
	other.pool.Key = "b"
	f.members = []*modelPool{p, other}
	return other
}

// key makes the further calls of the keyed pool those of its other key.
func (tr *trial) key(*rapid.T) { tr.pools[2], tr.spare = tr.spare, tr.pools[2] }

// called notes a call for pools, and which members the call may drop.
func (tr *trial) called(pools ...*modelPool) {
	for _, p := range pools {
		if p.family != nil {
			tr.calledFor(p)
		}
	}
}

func (tr *trial) calledFor(p *modelPool) {
	f := p.family
	by, believed := tr.clock, f.leapt+micros(leapRest)
	rests := f.rests && f.leapt <= tr.clock
	if span := max(longest(p.windows), micros(leastLeap)); f.met && tr.clock-f.last > span {
		switch {
		case rests && tr.clock >= believed:
			by = f.leapt // the leap before this one
		case rests:
			by = f.from
		default:
			by = f.last
		}
		f.rests, f.from, f.leapt = true, by, tr.clock
	} else if rests && tr.clock < believed {
		by = f.from
	}
	f.met, f.last = true, tr.clock
	for _, m := range f.members {
		m.lapsed = m.lapsed || m.page.idle(by-f.kept)
	}
}

// member reserves for a key, or looks at its page.
func (tr *trial) member(rt *rapid.T) {
	m := tr.drawMember(rt)
	if rapid.IntRange(0, 3).Draw(rt, "look") == 0 {
		tr.lookAt(rt, m)
		return
	}
	tr.reserveAndWait(rt, "", []*modelPool{m}, []int64{drawUnits(rt, m)})
}

// leap charges one key, then another one while the clock is hours or days ahead. Then it
// sets the clock back.
func (tr *trial) leap(rt *rapid.T) {
	m := tr.drawMember(rt)
	tr.recordThis(rt, tr.store(rt), window.Never, m)
	before := tr.clock
	tr.setClock(tr.clock + micros(time.Minute) + drawStep(rt))
	for range rapid.IntRange(1, 3).Draw(rt, "calls") {
		o := tr.drawMember(rt)
		tr.reserveThese(rt, "", []*modelPool{o}, []int64{drawUnits(rt, o)})
		tr.settled(rt)
	}
	tr.step(rt, before+instant(rapid.IntRange(-1_000_000, 1_000_000).Draw(rt, "off")))
	tr.lookAt(rt, m)
}

func (tr *trial) drawMember(rt *rapid.T) *modelPool {
	if tr.family == nil {
		rt.SkipNow()
	}
	return tr.family.members[rapid.IntRange(0, len(tr.family.members)-1).Draw(rt, "key")]
}

// rebaseMembers charges members that are far ahead of the clock, because a call for
// any other key may re-base them.
func (tr *trial) rebaseMembers(rt *rapid.T) {
	if tr.family == nil {
		return
	}
	for _, m := range tr.family.members {
		if m.page.windows != nil && m.page.latest-tr.clock > longest(m.page.limits) {
			tr.recordThis(rt, tr.store(rt), window.Never, m)
		}
	}
}
