package window

import (
	"hash/fnv"
	"slices"
	"time"
)

// Limit is a window of a charge: what it counts over, and the most it admits
// with headroom and class already taken off.
type Limit struct {
	Spec   Spec
	Name   string // Spec.String()
	Layout string // Spec.Layout()
	Hash   uint64 // of the layout: equal for windows that keep the same state
	Limit  int64
}

// Span returns the longest time for which a charge can count, within some limits.
func Span(limits []Limit) (longest time.Duration) {
	for i := range limits {
		longest = max(longest, limits[i].Span())
	}
	return longest
}

// NewLimit prepares a limit over a spec that is [Spec.Normal]. If other limits apply to the
// same page, the spec must be made for the largest of them: see [Spec.For].
func NewLimit(s Spec, limit int64) Limit {
	s.Wide = s.Wide || s.Algorithm == Sliding && limit >= maxNarrow
	layout := s.Layout()
	h := fnv.New64a()
	h.Write([]byte(layout))
	return Limit{Spec: s, Name: s.String(), Layout: layout, Hash: h.Sum64(), Limit: limit}
}

// Span is the time after which a charge has certainly left the window, if the limit was
// kept. For most windows that is [Spec.Span]. A bucket takes as long as a full limit needs
// to drain.
func (l *Limit) Span() time.Duration {
	if !l.Spec.Drains() {
		return l.Spec.Span()
	}
	units, micros := l.Spec.Drain()
	return max(l.Spec.Span(), time.Duration(ceilDiv(l.Limit*micros, units))*time.Microsecond)
}

// Page is the state of one pool: its windows, and the block that may shut it.
// It is not safe for concurrent use; a store locks, or holds a transaction.
type Page struct {
	Born       Instant // when the store first knew the pool
	Generation int64   // changes whenever units move within the page
	Revision   int64   // of the price book that laid it out
	Latest     Instant // the latest instant at which anything was written
	Blocked    Instant // shut before this instant, see Block; 0 is open
	setBack    Instant // how far the clock was set back in all, and has not returned: see Now
	windows    []Window
	shape      *shape
}

// shape is the part that pages with the same windows share. It does not change.
type shape struct {
	layouts  []string
	span     time.Duration // the longest for which a charge can count
	inFlight bool          // it counts calls in flight
}

// Like makes p share q's layout strings if both have the same windows. That saves memory
// if there are many pages.
func (p *Page) Like(q *Page) {
	if slices.Equal(p.shape.layouts, q.shape.layouts) {
		p.shape = q.shape
	}
}

// NewPage lays out an empty page.
func NewPage(now Instant, revision int64, limits []Limit) *Page {
	p := &Page{Born: now, Generation: int64(now), Revision: revision, Latest: now}
	p.layOut(limits)
	return p
}

func (p *Page) layOut(limits []Limit) {
	p.windows = make([]Window, len(limits))
	p.shape = &shape{layouts: make([]string, len(limits))}
	for i, l := range limits {
		p.shape.span = max(p.shape.span, l.Spec.Span())
		p.shape.layouts[i] = l.Layout
		p.shape.inFlight = p.shape.inFlight || l.Spec.InFlight()
		p.windows[i] = New(l.Spec)
	}
}

// Windows returns the windows in the order in which they were laid out.
func (p *Page) Windows() []Window { return p.windows }

// InFlight reports whether the page counts calls in flight: see [Spec.InFlight].
func (p *Page) InFlight() bool { return p.shape.inFlight }

// Now returns the instant that counts: the clock's, or the latest that the page has seen if
// the clock is behind it. If the clock is behind by more than the longest window, it had been
// far ahead, or it will return. So all that was used moves to now. It moves along once more
// when the clock has returned, which may have been at once. Now then reports true.
func (p *Page) Now(clock Instant) (now Instant, moved bool) {
	switch behind := p.Latest - clock; {
	case p.returned(clock):
		to, by := clock, min(-behind, p.setBack)
		if (-behind - p.setBack).Sub(0) >= 2*p.shape.span { // nothing counts any more, wherever it was used on the way
			to = p.Latest + by
		}
		p.setBack -= by
		p.move(to, by)
	case behind <= 0:
		return clock, false
	case behind.Sub(0) <= p.shape.span:
		return p.Latest, false
	default:
		p.setBack = min(p.setBack+behind, 2*far)
		p.move(clock, -behind)
	}
	return clock, true
}

// returned reports whether a clock that was set back has returned, as far as anybody can
// tell: in one step that is longer than the windows, and at least half of the way. Time that
// passes without a charge looks the same. So what was used may leave a window late, and a
// caller that waited for longer than the windows may be refused once more.
func (p *Page) returned(clock Instant) bool {
	step := clock - p.Latest
	return p.setBack > 0 && step.Sub(0) > p.shape.span && step >= p.setBack-step
}

// move moves all that was used to an instant, and the block by so much.
func (p *Page) move(to, by Instant) {
	for _, w := range p.windows {
		rebase(w, to)
	}
	if p.Shut(p.Latest) {
		p.Blocked = notOpen(min(p.Blocked+by, far))
	} else {
		p.Blocked = 0
	}
	p.Latest = to
	p.Generation++
}

// LaidOut reports whether the page keeps exactly these windows.
func (p *Page) LaidOut(limits []Limit) bool {
	layouts := p.shape.layouts
	if len(limits) != len(layouts) {
		return false
	}
	for i := range limits {
		if limits[i].Layout != layouts[i] {
			return false
		}
	}
	return true
}

// LayOut brings the page to the instant that counts, as [Page.Now] does, and gives it other
// windows, for a price book with a higher revision. A window that stays as it is keeps its
// state. A ring that looks no farther back than one there was gets that one's buckets, each
// by its latest instant; anything else carries the most that was used into the newest
// bucket: late by a window at most, never over.
//
// Units that were taken under the old windows may still be sent: they are in a leased block
// or a hold, perhaps of a process that has another price book. So they count for a window
// from the latest instant at which they may be sent. If that is an instant to come, the page
// is ahead of the clock until then.
func (p *Page) LayOut(clock Instant, revision int64, limits []Limit) (now Instant, rebased bool) {
	now, rebased = p.Now(clock)
	p.Revision = revision
	if p.LaidOut(limits) {
		return now, rebased
	}
	layouts, windows := slices.Clone(p.shape.layouts), p.windows
	p.layOut(limits)
	p.Generation++
	most, ring, sent := known(windows, now)
	at := now // the time of the page from here on
	has := make([]int64, len(limits))
	for i, layout := range p.shape.layouts {
		if j := slices.Index(layouts, layout); j >= 0 {
			p.windows[i], has[i] = windows[j], windows[j].Used(now)
			layouts[j] = "" // another window like it needs a state of its own
			continue
		}
		from := max(now, limits[i].Spec.countsFrom(now, sent))
		at = max(at, from)
		if to, ok := p.windows[i].(*Ring); ok && ring != nil && ring.span() >= to.span() {
			has[i] = ring.moveTo(to, now, sent, &limits[i].Spec)
			continue
		}
		p.windows[i].Add(from, most)
	}
	for i, w := range p.windows {
		if at == now {
			break
		}
		s := &limits[i].Spec
		w.Add(at, 0)
		if !s.Calendar() {
			w.Add(s.oldest(at), max(has[i]-w.Used(at), 0)) // they have left at at, which the clock has not reached
		} else if _, end := s.Bounds(now); at >= end {
			p.Block(at, at+1) // until the clock has come so far, calls belong to the period that ends
		}
	}
	p.Latest = max(p.Latest, at)
	if (p.Latest - clock).Sub(0) <= p.shape.span {
		return p.Latest, rebased
	}
	// It is too far ahead to wait for. The clock was set back only if it was behind before
	// by more than the page can be ahead because of its book.
	if behind := now - clock; behind.Sub(0) > MaxSlack {
		p.setBack = min(p.setBack+behind, 2*far)
	}
	p.move(clock, clock-now)
	if sent = min(sent, clock.Add(MaxSlack)); most > 0 && sent > clock {
		p.Block(clock, sent.Add(p.shape.span))
	}
	return clock, true
}

// known returns the most that any window counts, the longest ring, and the latest instant
// at which these units may be sent. The longest ring knows when each unit was used for as
// long as any shorter ring needs it. Each window bounds when its units may be sent.
func known(windows []Window, now Instant) (most int64, longest *Ring, sent Instant) {
	sent = Never
	for _, w := range windows {
		most = max(most, w.Used(now))
		switch w := w.(type) {
		case *Ring:
			if longest == nil || w.span() > longest.span() {
				longest = w
			}
			late := w.span() - w.per
			sent = min(sent, w.Reset(now).Add(-w.per), now.Add(MaxSlack+late))
		case *Log:
			sent = min(sent, w.Reset(now)-w.per)
		case *Calendar:
			sent = min(sent, now.Add(MaxSlack))
		default:
			sent = min(sent, now)
		}
	}
	if most == 0 {
		sent = now // nothing is
	}
	return most, longest, sent
}

// Block shuts the page until an instant. Of two blocks the later one stands. To
// open the page set Blocked to 0.
func (p *Page) Block(now, until Instant) {
	if until = min(until, far); p.Blocked == 0 || until > p.Blocked {
		p.Blocked = notOpen(until)
	}
	p.Latest = max(p.Latest, now)
}

// notOpen moves the end of a block from instant 0, which means open, to a
// microsecond later.
func notOpen(until Instant) Instant {
	if until == 0 {
		return 1
	}
	return until
}

// Shut reports whether a block stands.
func (p *Page) Shut(now Instant) bool { return p.Blocked != 0 && now < p.Blocked }

// Fits reports whether units can be taken from every window now.
func (p *Page) Fits(now Instant, units int64, limits []Limit) bool {
	if p.Shut(now) {
		return false
	}
	for i, w := range p.windows {
		if !fits(w.Used(now), units, limits[i].Limit) {
			return false
		}
	}
	return true
}

// Free returns the first instant at which units fit every window and no block
// stands, if nothing else happens, and the window that decides it; -1 is the
// block.
func (p *Page) Free(now Instant, units int64, limits []Limit) (free Instant, window int) {
	free, window = now, -1
	if p.Shut(now) {
		free = p.Blocked
	}
	for i, w := range p.windows {
		if at := w.Free(now, units, limits[i].Limit); at > free {
			free, window = at, i
		}
	}
	return free, window
}

// Tightest returns the window with the least left, and how much it has used.
func (p *Page) Tightest(now Instant, limits []Limit) (window int, used int64) {
	left := int64(0)
	for i, w := range p.windows {
		u := w.Used(now)
		if l := limits[i].Limit - u; i == 0 || l < left {
			window, used, left = i, u, l
		}
	}
	return window, used
}

// Add counts units at an instant in every window. Latest moves along. For units of the
// past, windows that have not seen Latest, because a block moved it, come along first:
// whether units are too old to count depends on the page's time alone.
func (p *Page) Add(at Instant, units int64) {
	for _, w := range p.windows {
		if at < p.Latest {
			w.Add(p.Latest, 0)
		}
		w.Add(at, units)
	}
	p.Latest = max(p.Latest, at)
}

// Missing returns the units that are missing so that a window counts at least units since
// an instant, and when to add them: from another instant on, which is not before it.
func (p *Page) Missing(now, from, since Instant, units int64, window int) (missing int64, at Instant) {
	w := p.windows[window]
	has, at := w.Since(now, from)
	if since < from && at != Never {
		var there Instant
		if has, there = w.Since(now, since); there == Never { // it has left: all that counts is later
			has = w.Used(now)
		}
	}
	if at == Never || has >= units {
		return 0, now
	}
	return units - has, at
}

// Give takes back units that were taken at an instant, and returns how many the
// window that still knows most of them gave.
func (p *Page) Give(now, taken Instant, units int64) int64 {
	var given int64
	for _, w := range p.windows {
		given = max(given, w.Give(now, taken, units))
	}
	p.Latest = max(p.Latest, now)
	return given
}

// Forget takes back units from the oldest that count, for a correction. It returns
// the most that any window gave.
func (p *Page) Forget(now Instant, units int64) int64 {
	var given int64
	for _, w := range p.windows {
		given = max(given, w.Forget(now, units))
	}
	p.Latest = max(p.Latest, now)
	return given
}

// Expires is when the page has nothing left to say.
func (p *Page) Expires(now Instant) Instant {
	expires := now
	if p.Shut(now) {
		expires = p.Blocked
	}
	for _, w := range p.windows {
		if c, ok := w.(*Calendar); ok {
			expires = max(expires, c.gone(now)) // its reset is only the boundary
			continue
		}
		expires = max(expires, w.Reset(now))
	}
	return expires
}

// Idle reports whether nothing that was written can still count, and no block stands. If
// the clock was set back, that is so only when it would count no more after a return.
func (p *Page) Idle(now Instant) bool {
	if p.setBack > 0 {
		p = p.Clone()
		p.move(p.Latest+p.setBack, p.setBack)
		now = now.Add(-p.shape.span) // it may have been used on the way
	}
	return p.lapsed(now) && !p.kept(now)
}

// Yields reports whether the page is idle by the clock alone, which does not look as if it
// had returned.
func (p *Page) Yields(now Instant) bool {
	return p.lapsed(now) && !p.kept(now) && !p.returned(now)
}

// Held reports whether only a block, what is in a bucket, or a clock that may return keeps
// the page from being idle. Pages that were charged later may be idle before it.
func (p *Page) Held(now Instant) bool { return p.lapsed(now) && !p.Idle(now) }

// lapsed reports whether all windows have passed since the page was written.
func (p *Page) lapsed(now Instant) bool { return now >= p.Latest.Add(p.shape.span) }

func (p *Page) kept(now Instant) bool {
	return p.Shut(now) || slices.ContainsFunc(p.windows, func(w Window) bool {
		b, ok := w.(*Bucket) // it holds units for as long as they take
		return ok && b.Used(now) > 0
	})
}

// Clone returns a page of its own with the same state.
func (p *Page) Clone() *Page {
	q := *p
	q.windows = make([]Window, len(p.windows))
	for i, w := range p.windows {
		q.windows[i] = clone(w)
	}
	return &q
}

// clone returns a copy of a window.
func clone(w Window) Window {
	switch w := w.(type) {
	case *Ring:
		q := *w
		q.slots, q.high = slices.Clone(w.slots), slices.Clone(w.high)
		return &q
	case *Log:
		q := *w
		q.entries = slices.Clone(w.entries)
		return &q
	case *Counter:
		q := *w
		return &q
	case *Calendar:
		q := *w
		return &q
	case *Bucket:
		q := *w
		return &q
	}
	panic("a window that New does not make")
}
