package window

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// The state of a page as bytes, for stores that keep it so: a version, the
// header, and per window its layout and its counters, all as varints. Counters of a
// counter, a calendar or a bucket begin with 0 if there are none, else with 1; or with 2 and the
// latest instant that the window has seen, if the page has seen a later one (a block). A
// bucket that knows its lowest levels has -1-level instead of its level, and then those.
// Version 2 has how far the clock was set back after the version. A page has it only while
// the clock may return, so that earlier versions of Headroom can read all others.

const stateVersion, setBackVersion = 1, 2

// errState says that bytes are not a page.
var errState = errors.New("not the state of a page")

func (p *Page) MarshalBinary() ([]byte, error) { return p.AppendBinary(nil) }

func (p *Page) AppendBinary(b []byte) ([]byte, error) {
	if p.setBack == 0 {
		b = append(b, stateVersion)
	} else {
		b = binary.AppendVarint(append(b, setBackVersion), int64(p.setBack))
	}
	b = appendAll(b, int64(p.Born), p.Generation, p.Revision, int64(p.Latest), int64(min(p.Blocked, far)), int64(len(p.windows)))
	for i, w := range p.windows {
		layout := p.shape.layouts[i]
		b = binary.AppendVarint(b, int64(len(layout)))
		b = append(b, layout...)
		b = w.appendState(b, p.Latest)
	}
	return b, nil
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. Bytes that are no
// page are refused, and p is left as it was.
func (p *Page) UnmarshalBinary(b []byte) error {
	r := &reader{b: b}
	q := Page{shape: &shape{}}
	switch r.byte() {
	case stateVersion:
	case setBackVersion:
		if q.setBack = Instant(r.within(int64(2 * far))); q.setBack == 0 {
			r.fail()
		}
	default:
		return fmt.Errorf("%w of version %d or %d", errState, stateVersion, setBackVersion)
	}
	q.Born, q.Generation, q.Revision = r.instant(), r.int(), r.int()
	q.Latest, q.Blocked = r.instant(), r.instant()
	r.latest = q.Latest
	for n := r.count(maxWindows); n > 0 && r.err == nil; n-- {
		layout := string(r.bytes(r.count(len(r.b))))
		if r.err != nil {
			break
		}
		s, err := ParseLayout(layout)
		if err != nil {
			return fmt.Errorf("%w: %w", errState, err)
		}
		w := New(s)
		w.readState(r)
		q.windows = append(q.windows, w)
		q.shape.inFlight = q.shape.inFlight || s.InFlight()
		q.shape.layouts, q.shape.span = append(q.shape.layouts, layout), max(q.shape.span, s.Span())
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail()
	}
	if r.err == nil {
		*p = q
	}
	return r.err
}

// maxWindows is far above the number of windows of any pool.
const maxWindows = 64

// maxPeriod is longer than any month in any zone.
const maxPeriod = 33 * Instant(24*time.Hour/time.Microsecond)

// reader reads numbers from the front of b. It stops at the first error.
type reader struct {
	b      []byte
	err    error
	latest Instant // of the page; no window has seen a later one
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = errState
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) int() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) instant() Instant {
	i := Instant(r.int())
	if i < -2*far || i > 2*far { // a period may reach over what a clock shows
		r.fail()
		return 0
	}
	return i
}

// within reads a number from 0 to most.
func (r *reader) within(most int64) int64 {
	n := r.int()
	if n < 0 || n > most {
		r.fail()
		return 0
	}
	return n
}

func (r *reader) count(most int) int { return int(r.within(int64(most))) }

func (r *reader) bytes(n int) []byte {
	if n > len(r.b) {
		r.fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func appendAll(b []byte, all ...int64) []byte {
	for _, n := range all {
		b = binary.AppendVarint(b, n)
	}
	return b
}

// appendSeen writes that a window has state, and the instant that it has seen.
func appendSeen(b []byte, seen, latest Instant) []byte {
	if seen >= latest {
		return binary.AppendVarint(b, 1)
	}
	return appendAll(b, 2, int64(seen))
}

// seen reads what appendSeen wrote. It returns false if the window has no state.
func (r *reader) seen() (latest Instant, ok bool) {
	switch r.count(2) {
	case 0:
		return 0, false
	case 1:
		return r.latest, true
	}
	if latest = r.instant(); latest >= r.latest {
		r.fail()
	}
	return latest, true
}

func (r *Ring) appendState(b []byte, _ Instant) []byte {
	if r.end == longAgo {
		return binary.AppendVarint(b, 0)
	}
	b = appendAll(b, 1, r.bucket)
	slot := r.slot
	for range r.slots { // from the oldest, which stands behind the newest
		slot = r.after(slot)
		b = binary.AppendVarint(b, r.units(slot))
	}
	return b
}

func (r *Ring) readState(from *reader) {
	if from.count(1) == 0 {
		return
	}
	bucket := from.int()
	if most := int64(2*far) / r.precision; bucket < -most || bucket > most {
		from.fail()
		return
	}
	r.enter(bucket)
	if r.end-Instant(r.precision) > from.latest {
		from.fail()
		return
	}
	for k := r.oldest(); k <= r.bucket; k++ {
		most := int64(MaxUnits)
		if r.high == nil {
			most = maxNarrow
		}
		r.put(r.index(k), from.within(most))
	}
}

func (l *Log) appendState(b []byte, _ Instant) []byte {
	b = binary.AppendVarint(b, int64(len(l.live())))
	var last Instant
	for _, e := range l.live() {
		b = appendAll(b, int64(e.at-last), e.units)
		last = e.at
	}
	return b
}

func (l *Log) readState(from *reader) {
	l.latest = from.latest
	var last Instant
	for i, n := 0, from.count(len(from.b)); i < n && from.err == nil; i++ {
		at := last + from.instant()
		units := from.within(MaxUnits - l.used)
		if at < -2*far || at > l.latest || i > 0 && at <= last || units == 0 {
			from.fail()
			return
		}
		l.entries = append(l.entries, entry{at, units})
		l.used += units
		last = at
	}
}

func (c *Counter) appendState(b []byte, latest Instant) []byte {
	if c.end == longAgo {
		return binary.AppendVarint(b, 0)
	}
	return appendAll(appendSeen(b, c.latest, latest), c.index(), c.prev, c.current)
}

func (c *Counter) readState(from *reader) {
	seen, ok := from.seen()
	if !ok {
		return
	}
	index := from.int()
	c.prev, c.current = from.within(maxCounter), from.within(maxCounter)
	if most := int64(2*far) / c.per; index < -most || index > most {
		from.fail()
		return
	}
	c.enter(index)
	if c.latest = seen; c.end-Instant(c.per) > c.latest {
		from.fail()
	}
}

func (c *Calendar) appendState(b []byte, latest Instant) []byte {
	if c.end == longAgo {
		return binary.AppendVarint(b, 0)
	}
	return appendAll(appendSeen(b, c.latest, latest), int64(c.start), int64(c.end), c.used, c.prev, c.next)
}

func (c *Calendar) readState(from *reader) {
	seen, ok := from.seen()
	if !ok {
		return
	}
	c.start, c.end = from.instant(), from.instant()
	c.used, c.prev, c.next = from.within(MaxUnits), from.within(MaxUnits), from.within(MaxUnits)
	c.latest = seen
	if c.start > c.latest || c.start >= c.end || c.end-c.start > maxPeriod || c.next > c.used {
		from.fail()
	}
}

func (b *Bucket) appendState(to []byte, latest Instant) []byte {
	if b.latest == longAgo {
		return binary.AppendVarint(to, 0)
	}
	to = appendAll(appendSeen(to, b.latest, latest), int64(b.at))
	if b.now == (spell{}) && b.before == (spell{}) {
		return appendAll(to, b.level)
	}
	return appendAll(to, -1-b.level, int64(b.now.since), b.now.low, int64(b.before.since), b.before.low)
}

func (b *Bucket) readState(from *reader) {
	seen, ok := from.seen()
	if !ok {
		return
	}
	b.at, b.level, b.latest = from.instant(), from.int(), seen
	if b.level < 0 {
		b.level = -1 - b.level
		for _, s := range []*spell{&b.now, &b.before} {
			s.since, s.low = from.instant(), from.within(maxLevel)
		}
	}
	if b.at > b.latest || b.level > maxLevel || b.now.low > b.level {
		from.fail()
	}
}
