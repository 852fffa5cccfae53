package quota_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/headroom-quota/headroom/quota"
)

// The methods in this file are the actions of a timeline of the model test.

func (m *twoLedgers) reserve(rt *rapid.T) {
	p, n := m.party(rt), rapid.Int64Range(1, 8).Draw(rt, "units")
	var r *quota.Reservation
	err := m.ask(rt, p, func() (err error) { r, err = p.Reserve(rt.Context(), unitsOf(n)); return err })
	m.say(rt, "%s: reserve %d: %v", p.name, n, err)
	if err != nil {
		m.refused(rt, p, n, err)
		return
	}
	m.granted(rt, p, n, &sentCall{r: r, at: m.clock.Now(), units: n, layout: m.layout})
}

func (m *twoLedgers) hold(rt *rapid.T) {
	p, each := m.party(rt), rapid.Int64Range(1, 3).Draw(rt, "units")
	n := rapid.Int64Range(1, modelQuota/each).Draw(rt, "calls")
	var h *quota.Hold
	err := m.ask(rt, p, func() (err error) { h, err = p.Hold(rt.Context(), unitsOf(each), int(n)); return err })
	m.say(rt, "%s: hold %d calls of %d: %v", p.name, n, each, err)
	if err != nil {
		m.refused(rt, p, n*each, err)
		return
	}
	m.granted(rt, p, n*each, nil)
	m.holds = append(m.holds, &heldUnits{Hold: h, by: p, layout: m.layout})
}

// draw makes a few calls under a hold.
func (m *twoLedgers) draw(rt *rapid.T) {
	if len(m.holds) == 0 {
		rt.SkipNow()
	}
	h := m.holds[rapid.IntRange(0, len(m.holds)-1).Draw(rt, "hold")]
	for range rapid.IntRange(1, 10).Draw(rt, "calls") {
		m.drawOne(rt, h, rapid.Int64Range(1, 3).Draw(rt, "units"))
	}
}

func (m *twoLedgers) drawOne(rt *rapid.T, h *heldUnits, n int64) {
	now, left := m.clock.Now(), h.Left()["units"]
	// A hold may end early if the windows have changed since, but it may also still pay.
	pays := !h.closed && now.Before(h.Ends()) && left >= n && !now.Before(h.by.remembers) && h.layout == m.layout
	var r *quota.Reservation
	err := m.ask(rt, h.by, func() (err error) { r, err = h.by.Reserve(h.Context(rt.Context()), unitsOf(n)); return err })
	m.say(rt, "%s: draw %d, which the hold pays for: %t (it has %d): %v", h.by.name, n, pays, left, err)
	counted := m.window(rt, "24h log")
	if err == nil && h.layout != m.layout && counted == m.spent+left && h.Left()["units"] == left-n {
		// The hold has taken its units again, and the windows of before give none back.
		m.spent, h.layout = counted, m.layout
	}
	switch {
	case err != nil && pays && !m.isShut() && !h.by.holds(now) && (h.by.exact || h.by.remembers.IsZero()):
		rt.Fatalf("%s: refused %d, and the hold has %d: %v", h.by.name, n, left, err)
	case err != nil:
		m.refused(rt, h.by, n, err)
		return
	case counted == m.spent:
		m.leaves(rt, h.by, &sentCall{r: r, at: now, units: n, layout: m.layout, from: h})
	case pays:
		rt.Fatalf("%s: a call of %d under a hold that has %d was paid for by the pool too: it counts %d, not %d", h.by.name, n, left, counted, m.spent)
	default:
		m.granted(rt, h.by, n, &sentCall{r: r, at: now, units: n, layout: m.layout})
	}
}

// settle settles or releases a call whose receipt is there.
func (m *twoLedgers) settle(rt *rapid.T) {
	var alive []*sentCall
	for _, c := range m.calls {
		if m.clock.Now().Sub(c.at) < quota.ReceiptLife-time.Minute && !c.settled {
			alive = append(alive, c)
		}
	}
	if len(alive) == 0 {
		rt.SkipNow()
	}
	c := alive[rapid.IntRange(0, len(alive)-1).Draw(rt, "call")]
	to := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, c.units+3)).Draw(rt, "to")
	var left int64 // in the hold, before
	if c.from != nil {
		left = c.from.Left()["units"]
	}
	if c.from != nil && c.from.by.revision < m.revision {
		to = min(to, c.units+left) // the rest is a new charge, for which this price book is too old
	}
	s, err := settleTo(rt, c.r, to)
	m.say(rt, "settle %d to %d: %+v %v", c.units, to, s, err)
	if err != nil {
		rt.Fatalf("settle: %v", err)
	}
	if c.by.first == c {
		c.by.forgets()
	}
	if again, err := settleTo(rt, c.r, c.units); err != nil || !again.Repeat {
		rt.Fatalf("settled twice: %+v %v", again, err)
	}
	switch over := c.units - to; {
	case c.from != nil: // the hold pays what it can, and keeps what comes back
		m.spent += max(-over-left, 0)
	case over < 0:
		m.spent -= over
	case c.layout == m.layout: // else the windows do not know it any more
		m.spent -= over
	}
	c.more = max(to-c.units, 0)
	c.units, c.settled = to, true
}

// settleTo settles a reservation of the pool.
func settleTo(rt *rapid.T, r *quota.Reservation, units int64) (quota.Settlement, error) {
	return r.Settle(rt.Context(), quota.Units{"units": units})
}

// close closes a hold, which gives back what it has left.
func (m *twoLedgers) close(rt *rapid.T) {
	if len(m.holds) == 0 {
		rt.SkipNow()
	}
	h := m.holds[rapid.IntRange(0, len(m.holds)-1).Draw(rt, "hold")]
	left := h.Left()["units"]
	if err := h.Close(rt.Context()); err != nil {
		rt.Fatalf("close: %v", err)
	}
	m.say(rt, "%s: close a hold that has %d", h.by.name, left)
	if !h.closed && h.layout == m.layout {
		m.spent -= left
	}
	h.closed = true
}

func (m *twoLedgers) block(rt *rapid.T) {
	p := m.party(rt)
	until := m.clock.Now().Add(time.Duration(rapid.IntRange(1, 600).Draw(rt, "seconds")) * time.Second)
	err := m.ask(rt, p, func() error { return p.Block(rt.Context(), modelPool, until, "the upstream said no") })
	m.say(rt, "%s: block until %s: %v", p.name, until.Format(time.TimeOnly), err)
	if err != nil {
		rt.Fatal(err)
	}
	if until.After(m.shut) {
		m.shut = until
	}
	p.learns(until, m.clock.Now())
}

func (m *twoLedgers) lift(rt *rapid.T) {
	p := m.party(rt)
	err := m.ask(rt, p, func() error { return p.Admin().Unblock(rt.Context(), modelPool) })
	m.say(rt, "%s: unblock: %v", p.name, err)
	if err != nil {
		rt.Fatal(err)
	}
	m.shut = time.Time{}
	p.forgets()
	for _, other := range m.parties {
		other.exact = false
	}
}

// answer has the upstream answer the calls that went first.
func (m *twoLedgers) answer(rt *rapid.T) {
	for _, p := range m.parties {
		if p.first != nil {
			m.say(rt, "%s: the call that went first is answered", p.name)
			p.first.r.Answered()
			p.forgets()
		}
	}
}

func (m *twoLedgers) forward(rt *rapid.T) {
	m.clock.Advance(time.Duration(rapid.SampledFrom([]int{1, 10, 30, 59, 61, 62, 300}).Draw(rt, "seconds")) * time.Second)
}

// revise gives one of the ledgers a book of a higher revision, at times with other
// windows. It lays the page out at once.
func (m *twoLedgers) revise(rt *rapid.T) {
	p := m.party(rt)
	m.revision++
	if rapid.Bool().Draw(rt, "other windows") {
		m.layout++
	}
	m.load(rt, p)
	for _, c := range m.calls { // so that the store is asked
		if c.by == p {
			c.r.Answered()
		}
	}
	m.answer(rt)
	r, err := p.Reserve(rt.Context(), quota.Call{Upstream: "api", Method: "touch"})
	m.say(rt, "%s: has revision %d, layout %d: %v", p.name, m.revision, m.layout, err)
	if err != nil {
		m.refused(rt, p, 0, err)
		return
	}
	m.granted(rt, p, 0, &sentCall{r: r, at: m.clock.Now(), layout: m.layout, settled: true})
	m.answer(rt)
}
