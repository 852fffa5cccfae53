package content

import (
	"strconv"
	"strings"
)

// place is a place in JSON, and what is wanted of it.
type place struct {
	members []member
	items   map[int64]*place
	values  []int // slots of its value
	counts  []int // slots of its length
}

// member is a place in an object. There are few, so that looking at each is quick.
type member struct {
	name string
	at   *place
}

// member returns the place of a member and its number, or nil.
func (p *place) member(name []byte) (at *place, i int) {
	for i := range p.members {
		if m := &p.members[i]; m.name == string(name) {
			return m.at, i
		}
	}
	return nil, 0
}

// add wants something of a path such as usage.total or errors.0.code. Several paths with
// a | between them are alternatives.
func (p *place) add(paths string, count bool, slot int) {
	for path := range strings.SplitSeq(paths, "|") {
		at := p
		for name := range strings.SplitSeq(strings.TrimSpace(path), ".") {
			at = at.child(name)
		}
		if count {
			at.counts = append(at.counts, slot)
		} else {
			at.values = append(at.values, slot)
		}
	}
}

func (p *place) child(name string) *place {
	at, _ := p.member([]byte(name))
	if at == nil {
		at = &place{}
		p.members = append(p.members, member{name, at})
	}
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && n >= 0 && strconv.FormatInt(n, 10) == name {
		if p.items == nil {
			p.items = map[int64]*place{}
		}
		p.items[n] = at
	}
	return at
}

// slot is where a value is kept.
type slot struct {
	most  int // bytes to keep
	text  []byte
	found bool
	bad   bool // it is no text and no number, or too long
	twice bool // its name, or one above it, stands twice in an object
}

// paths finds the values at some places. A scanner tells it what there is.
type paths struct {
	root   *place
	next   *place // of the next value
	levels []level
	slots  []slot
	of     *Sources // nil: the last value of a slot counts
	cut    bool     // a value is longer than what is kept of it
}

// level is an object or an array that is open.
type level struct {
	at     *place
	array  bool
	length int64
	seen   uint64 // a bit per member: it has stood here
}

func (p *paths) top() *level { return &p.levels[len(p.levels)-1] }

// item says that the next value is an item of an array.
func (p *paths) item() {
	at := p.top()
	p.next = at.at.items[at.length]
	at.length++
}

// name says that the next value is the member of that name.
func (p *paths) name(text []byte) {
	top := p.top()
	at, i := top.at.member(text)
	if p.next = at; at == nil {
		return
	}
	bit := uint64(1) << min(i, 63)
	if top.seen&bit != 0 {
		p.again(at)
	}
	top.seen |= bit
}

// again says that a name stands twice in an object, with all that is wanted of its values.
// Servers may read either.
func (p *paths) again(at *place) {
	for _, slots := range [][]int{at.values, at.counts} {
		for _, i := range slots {
			p.slots[i].twice = true
		}
	}
	for i := range at.members {
		p.again(at.members[i].at)
	}
}

// open begins an object or an array. It returns false if nobody needs what is in it. Then
// only its end is told.
func (p *paths) open(object bool) bool {
	at := p.next
	if len(p.levels) == 0 {
		at = p.root
	}
	if at == nil {
		at = &nowhere
	}
	for _, i := range at.values {
		p.set(i, nil, true)
	}
	if object {
		for _, i := range at.counts {
			p.set(i, nil, true)
		}
	}
	p.levels = append(p.levels, level{at: at, array: !object})
	return at.members != nil || !object && at.counts != nil
}

var nowhere place

func (p *paths) end() {
	last := p.top()
	if last.array {
		var digits [20]byte
		for _, i := range last.at.counts {
			p.set(i, strconv.AppendInt(digits[:0], last.length, 10), false)
		}
	}
	p.levels = p.levels[:len(p.levels)-1]
}

// most is how many bytes of the next value are to be kept; 0 is that nobody needs it.
func (p *paths) most() int {
	if p.next == nil || len(p.levels) == 0 {
		return 0
	}
	most := 0
	for _, i := range p.next.values {
		most = max(most, p.slots[i].most)
	}
	if most == 0 && p.next.counts != nil {
		return 1
	}
	return most
}

// value is a text, or a number, true, false or null. It is valid until the next call.
func (p *paths) value(text []byte, isText, cut bool) {
	if !isText && string(text) == "null" {
		return // as if it were not there
	}
	for _, i := range p.next.values {
		long := cut || len(text) > p.slots[i].most
		p.cut = p.cut || long
		p.set(i, text, long)
	}
	for _, i := range p.next.counts {
		p.set(i, nil, true)
	}
}

// set keeps a value. Of several prices of a request the largest counts, else the last.
func (p *paths) set(i int, text []byte, bad bool) {
	s := &p.slots[i]
	if !s.found || p.of == nil || !p.of.keeps(i, s, text, bad) {
		s.set(text, bad)
	}
}

// keeps reports whether a slot keeps its value though another one comes.
func (s *Sources) keeps(slot int, old *slot, text []byte, bad bool) bool {
	i := s.of[slot]
	if i >= s.prices || old.bad {
		return false
	}
	was, ok := s.units(i, string(old.text))
	now, is := s.units(i, string(text))
	return ok && (bad || !is || was >= now)
}

func (s *slot) set(text []byte, bad bool) {
	s.found, s.bad = true, bad
	s.text = append(s.text[:0], text...)
	if bad {
		s.text = s.text[:0]
	}
}
