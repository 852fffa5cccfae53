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

// member returns the place of a member, or nil.
func (p *place) member(name []byte) *place {
	for i := range p.members {
		if m := &p.members[i]; m.name == string(name) {
			return m.at
		}
	}
	return nil
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
	at := p.member([]byte(name))
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
}

// paths finds the values at some places. A scanner tells it what there is.
type paths struct {
	root   *place
	next   *place // of the next value
	levels []level
	slots  []slot
}

// level is an object or an array that is open.
type level struct {
	at     *place
	array  bool
	length int64
}

func (p *paths) top() *level { return &p.levels[len(p.levels)-1] }

// item says that the next value is an item of an array.
func (p *paths) item() {
	at := p.top()
	p.next = at.at.items[at.length]
	at.length++
}

// name says that the next value is the member of that name.
func (p *paths) name(text []byte) { p.next = p.top().at.member(text) }

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
		p.slots[i].set(nil, true)
	}
	if object {
		for _, i := range at.counts {
			p.slots[i].set(nil, true)
		}
	}
	p.levels = append(p.levels, level{at: at, array: !object})
	return at.members != nil || !object && at.counts != nil
}

var nowhere place

// end ends an object or array.
func (p *paths) end() {
	last := p.top()
	if last.array {
		var digits [20]byte
		for _, i := range last.at.counts {
			p.slots[i].set(strconv.AppendInt(digits[:0], last.length, 10), false)
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
		s := &p.slots[i]
		s.set(text, cut || len(text) > s.most)
	}
	for _, i := range p.next.counts {
		p.slots[i].set(nil, true)
	}
}

func (s *slot) set(text []byte, bad bool) {
	s.found, s.bad = true, bad
	s.text = append(s.text[:0], text...)
	if bad {
		s.text = s.text[:0]
	}
}
