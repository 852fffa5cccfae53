// Package fair says whose turn it is among callers of several processes that wait for the same units.
// It is start-time fair queueing: each flow (a job, a token, a process) has a clock that moves on by
// what its calls take, as a share of the limit, and a call may be asked for while its flow is
// hardly ahead of the one that is furthest behind. A heavy call is so passed by little, and nobody
// waits for ever.
//
// Classes of callers take turns in the same way, each as if it were a flow, and the flows of a class take those of
// the class. What a class takes moves its clock on by less, the more the class is entitled to.
//
// It has no clock, no store and no lock of its own: a [State] is changed, and is kept by others.
// It only holds calls back. Whether units are left, the store decides.
package fair

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

const (
	// Quiet is how long nobody has waited when a line is forgotten.
	Quiet = time.Minute
	// life is how long a ticket counts after its caller has shown it last, or a part of the time for which
	// the caller waits, if that is longer. A caller shows it more often.
	life        = 2 * time.Second
	lifePart    = 30
	longestLife = 30 * time.Second
	// Lead is by how much of the limit a flow may be ahead of another one that waits.
	Lead = 0.02
	// leadTime is for how long a flow may be ahead, if that is more: of a short window.
	leadTime = 1200 * time.Millisecond
	// shortestWindow is the length of window as which a shorter one counts. In one of a second, a clock could not be
	// further ahead than a flow may be, so nobody would be held back.
	shortestWindow = 5 * leadTime
	// lingers is how long a call is expected to be followed by another one of its flow.
	lingers = 100 * time.Millisecond
	// mostCredit is how much of the limit a flow may take later that asks for little now.
	mostCredit = 0.25
	// mostAhead is by how much of the limit a flow can be ahead, however much it took.
	mostAhead = 1.0
	// MostTickets bounds the callers in a line. Others wait in no order, until there is room.
	MostTickets = 64
	// shortest is the shortest time after which a caller that is held back is told to come again.
	shortest = 25 * time.Millisecond
	// mostFlows bounds the clocks that are kept.
	mostFlows = 64
	// leastWeight is the part of the limit that a class has in any case.
	leastWeight = 0.05
)

// State is the line of an account. Its zero value is a line in which nobody has waited.
type State struct {
	Level                    // of the flows without a class
	Warm    window.Instant   `json:"w,omitempty"` // when somebody waited last
	Tickets []Ticket         `json:"t,omitempty"`
	Classes Level            `json:"c,omitzero"`  // of the classes: each is a flow of it
	Inside  map[string]Level `json:"i,omitempty"` // of the flows of each class
}

// Level has the clocks of flows that are compared with each other.
type Level struct {
	Virtual float64 `json:"v,omitempty"` // where a flow begins that was not here
	Flows   []Flow  `json:"f,omitempty"`
}

// Class is the class of a flow. The zero value is that of flows without a class.
type Class struct {
	Name     string  `json:"n,omitempty"`
	Share    float64 `json:"s,omitempty"` // of the limit, that its flows have at least if they wait for so much
	Priority int     `json:"p,omitempty"` // what is no share of others is for the highest
}

// Flow is what a flow has taken.
type Flow struct {
	Name  string         `json:"n"`
	Clock float64        `json:"c"`
	Seen  window.Instant `json:"s"` // when it took units last
}

// Ticket is a caller that waits, or one that asks.
type Ticket struct {
	ID    string         `json:"i,omitempty"` // of the caller; "" if it was granted, and the next one of its flow is expected
	Flow  string         `json:"f"`
	Class Class          `json:"c,omitzero"`
	Tag   float64        `json:"t"`
	Since window.Instant `json:"n"`
	Seen  window.Instant `json:"s"`
	Dies  window.Instant `json:"d"` // unless it is shown again
	Pools []string       `json:"p"`
	Share float64        `json:"h"` // of the limit of the pool that it takes most of
	Units int64          `json:"u"` // of that pool
}

// Part returns the Share and the Per of a call that takes units of a window. A short window counts as one of 6 s with
// the same rate.
func Part(units, limit int64, per time.Duration) (share float64, of time.Duration) {
	share, of = float64(units)/float64(max(limit, 1)), per
	if per > 0 && per < shortestWindow {
		share, of = share*float64(per)/float64(shortestWindow), shortestWindow
	}
	return share, of
}

// Ask is a caller's question.
type Ask struct {
	Ticket
	Stays bool          // it would wait, so it leaves its ticket
	Waits bool          // it was refused before, and waits: so the line is kept
	Per   time.Duration // of the window in which it takes the largest share
	Wait  time.Duration // how long it waits for units, if that is known
}

// Answer is what it is told.
type Answer struct {
	Held  bool          // others come first
	Ahead int           // callers that come first
	Due   time.Duration // if it is held: when its turn is likely to come
}

// Ask says whether a caller may ask the store. The caller leaves its ticket if it waits.
func (s *State) Ask(a *Ask, now window.Instant) (answer Answer) {
	s.sweep(now)
	own := slices.IndexFunc(s.Tickets, func(t Ticket) bool { return t.ID == a.ID })
	a.Tag, a.Since, a.Seen, a.Dies = s.level(a.Class).tag(a.Flow), now, now, now.Add(a.Life())
	if own >= 0 {
		a.Tag, a.Since = s.Tickets[own].Tag, s.Tickets[own].Since
	}
	class, leastClass := s.Classes.tag(a.Class.Name), math.Inf(1)
	least, flows := math.Inf(1), 1
	for i := range s.Tickets {
		t := &s.Tickets[i]
		if i == own || t.dead(now) || !t.meets(a.Pools) {
			continue
		}
		if t.Class.Name != a.Class.Name {
			other := s.Classes.tag(t.Class.Name)
			leastClass = min(leastClass, other)
			if other < class {
				answer.Ahead++
			}
		} else {
			least = min(least, t.Tag)
			if t.Tag < a.Tag || t.Tag == a.Tag && t.Since < a.Since {
				answer.Ahead++
			}
		}
		if t.Flow != a.Flow && !slices.ContainsFunc(s.Tickets[:i], func(o Ticket) bool { return o.Flow == t.Flow }) {
			flows++
		}
	}
	if over := max(a.Tag-least, class-leastClass) - a.lead(); over > 0 {
		answer.Held = true
		answer.Due = max(time.Duration(min(over*float64(flows), 1)*float64(a.Per)), shortest)
	}
	if a.Waits {
		s.Warm = now
	}
	switch {
	case !a.Stays:
	case own >= 0:
		s.Tickets[own] = a.Ticket
	case s.room(now):
		s.Tickets = append(s.Tickets, a.Ticket)
	}
	return answer
}

// Shows reports whether a caller must show its ticket, because it has none, has shown it long ago, or waits for
// longer than the ticket counts.
func (s *State) Shows(a *Ask, now window.Instant) bool {
	i := slices.IndexFunc(s.Tickets, func(t Ticket) bool { return t.ID == a.ID })
	if i < 0 {
		return len(s.Tickets) < MostTickets || slices.ContainsFunc(s.Tickets, func(t Ticket) bool { return t.dead(now) })
	}
	t := &s.Tickets[i]
	return now.Sub(t.Seen).Abs() > life/4 && now.Add(a.Life()*3/4) > t.Dies || now.Add(a.Life()/2) > t.Dies
}

// Expects reports whether others wait, until an instant at least, for calls of the same flow and pools.
func (s *State) Expects(a *Ask, until window.Instant) bool {
	return slices.ContainsFunc(s.Tickets, func(t Ticket) bool {
		return t.Flow == a.Flow && slices.Equal(t.Pools, a.Pools) && !t.dead(until)
	})
}

// room makes room for a ticket, if need be in place of a dead one, and reports whether there is some.
func (s *State) room(now window.Instant) bool {
	if len(s.Tickets) < MostTickets {
		return true
	}
	i := slices.IndexFunc(s.Tickets, func(t Ticket) bool { return t.dead(now) })
	if i >= 0 {
		s.Tickets = slices.Delete(s.Tickets, i, i+1)
	}
	return i >= 0
}

// Life is how long the ticket counts if it is not shown again.
func (a *Ask) Life() time.Duration { return min(max(life, a.Wait/lifePart), longestLife) }

// lead is by how much of the limit the flow may be ahead.
func (a *Ask) lead() float64 {
	if a.Per <= 0 {
		return mostAhead
	}
	return min(max(Lead, leadTime.Seconds()/a.Per.Seconds()), mostAhead)
}

// Took notes that calls of a flow have got a share of the limit.
func (s *State) Took(c Class, flow string, share float64, now window.Instant) {
	s.sweep(now)
	waiting := math.Inf(1)
	for i := range s.Tickets {
		if t := &s.Tickets[i]; !t.dead(now) && t.Class.Name == c.Name {
			waiting = min(waiting, t.Tag)
		}
	}
	s.change(c, func(l *Level) { l.took(flow, share, waiting, now) })
	if classes := s.with(c, now); len(classes) > 1 {
		waiting = math.Inf(1)
		for _, other := range classes[1:] {
			waiting = min(waiting, s.Classes.tag(other.Name))
		}
		s.Classes.took(c.Name, share/weight(c, classes), waiting, now)
	}
}

// with returns a class and those that wait beside it: for the pools of its tickets, if it has some.
func (s *State) with(c Class, now window.Instant) []Class {
	all, pools := []Class{c}, []string(nil)
	for i := range s.Tickets {
		if t := &s.Tickets[i]; t.Class.Name == c.Name && !t.dead(now) {
			pools = append(pools, t.Pools...)
		}
	}
	for i := range s.Tickets {
		t := &s.Tickets[i]
		if !t.dead(now) && (pools == nil || t.meets(pools)) && !slices.ContainsFunc(all, func(o Class) bool { return o.Name == t.Class.Name }) {
			all = append(all, t.Class)
		}
	}
	return all
}

// took moves the clock of a flow on. Waiting is the least tag of those that wait.
func (l *Level) took(flow string, share, waiting float64, now window.Instant) {
	tag := l.tag(flow)
	l.move(flow, tag+share, now)
	// A flow that has just been here keeps its place while none of its callers has a ticket, but for a
	// part of the limit at most: a flow that asks for little would hold the time up for all.
	recent := tag
	for i := range l.Flows {
		if now.Sub(l.Flows[i].Seen) <= life {
			recent = min(recent, l.Flows[i].Clock)
		}
	}
	l.Virtual = max(l.Virtual, min(tag, max(recent, tag-mostCredit), waiting))
}

// weight is the part of the limit that a class has while others wait as well: its share, and what is no share of
// one that waits if no other has a higher priority. Of those, the ones without a share come first.
func weight(c Class, waiting []Class) float64 {
	left, first := 1.0, 0
	for _, o := range waiting {
		left -= o.Share
		first = max(first, o.Priority)
	}
	whole, without := 0.0, 0
	for _, o := range waiting {
		if o.Priority == first && o.Share == 0 {
			without++
		} else if o.Priority == first {
			whole += o.Share
		}
	}
	w := c.Share
	switch left = max(left, 0); {
	case c.Priority < first:
	case without == 0:
		w += left * c.Share / whole
	case c.Share == 0:
		w += left / float64(without)
	}
	return max(w, leastWeight)
}

// Corrected notes that calls of a flow took more than it was said, or less.
func (s *State) Corrected(c Class, flow string, share float64, now window.Instant) {
	s.change(c, func(l *Level) { l.corrected(flow, share) })
	if classes := s.with(c, now); len(classes) > 1 {
		s.Classes.corrected(c.Name, share/weight(c, classes))
	}
}

func (l *Level) corrected(flow string, share float64) {
	if i := l.flow(flow); i >= 0 {
		l.move(flow, l.Flows[i].Clock+share, l.Flows[i].Seen)
	}
}

// level returns the clocks of the flows of a class.
func (s *State) level(c Class) *Level {
	if c.Name == "" {
		return &s.Level
	}
	l := s.Inside[c.Name]
	return &l
}

// change changes the clocks of the flows of a class.
func (s *State) change(c Class, change func(*Level)) {
	l := s.level(c)
	if change(l); c.Name != "" {
		if s.Inside == nil {
			s.Inside = make(map[string]Level)
		}
		s.Inside[c.Name] = *l
	}
}

// Granted notes that a call of a flow has got its units. For a moment others still wait for the next one: where each call
// is granted at once, nobody would be seen to wait.
func (s *State) Granted(next Ticket, now window.Instant) {
	s.Tickets = slices.DeleteFunc(s.Tickets, func(t Ticket) bool { return t.ID == "" && t.Flow == next.Flow })
	next.ID, next.Tag, next.Seen, next.Dies = "", s.level(next.Class).tag(next.Flow), now, now.Add(lingers)
	if s.room(now) {
		s.Tickets = append(s.Tickets, next)
	}
}

// Leave takes a caller out of the line that waits no longer.
func (s *State) Leave(id string) {
	s.Tickets = slices.DeleteFunc(s.Tickets, func(t Ticket) bool { return t.ID == id })
}

// Idle reports whether nobody has waited for so long that the line need not be kept.
func (s *State) Idle(now window.Instant) bool { return now.Sub(s.Warm).Abs() > Quiet }

// Waiting returns who waits, in the order in which their turn comes.
func (s *State) Waiting(now window.Instant) []Ticket {
	c := s.Clone()
	c.Tickets = slices.DeleteFunc(c.Tickets, func(t Ticket) bool { return t.ID == "" || t.dead(now) })
	slices.SortFunc(c.Tickets, func(a, b Ticket) int {
		return cmp.Or(cmp.Compare(s.Classes.tag(a.Class.Name), s.Classes.tag(b.Class.Name)), cmp.Compare(a.Class.Name, b.Class.Name), cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.Since, b.Since))
	})
	return c.Tickets
}

// Clone returns a copy that shares nothing with s.
func (s *State) Clone() State {
	c := *s
	c.Flows, c.Tickets, c.Classes.Flows, c.Inside = slices.Clone(s.Flows), slices.Clone(s.Tickets), slices.Clone(s.Classes.Flows), maps.Clone(s.Inside)
	for name, l := range c.Inside {
		l.Flows = slices.Clone(l.Flows)
		c.Inside[name] = l
	}
	return c
}

// Shrink forgets what is missed least, and reports whether there was something: for a note that is too long.
func (s *State) Shrink(now window.Instant) bool {
	longest, most := s.Flows, "" // of the clocks of flows
	for name, l := range s.Inside {
		if len(l.Flows) > len(longest) {
			longest, most = l.Flows, name
		}
	}
	switch dead := slices.IndexFunc(s.Tickets, func(t Ticket) bool { return t.dead(now) }); {
	case dead >= 0:
		s.Tickets = slices.Delete(s.Tickets, dead, dead+1)
	case len(longest) > len(s.Tickets):
		s.change(Class{Name: most}, (*Level).forgetOldest)
	case len(s.Tickets) > 0:
		s.Tickets = s.Tickets[:len(s.Tickets)-1]
	case len(s.Inside) > 0:
		s.Inside = nil // before, tickets would stand in a time that nobody knows
	default:
		return false
	}
	return true
}

// sweep forgets callers that have not shown their tickets for long, and all after a quiet time. A clock
// that was set does that, too: what it forgets is order, and no units.
func (s *State) sweep(now window.Instant) {
	if s.Idle(now) {
		*s = State{}
	}
	s.Tickets = slices.DeleteFunc(s.Tickets, func(t Ticket) bool {
		return t.ID == "" && t.dead(now) || now > t.Dies.Add(Quiet) || t.Seen.Sub(now) > life
	})
}

// dead reports whether nobody waits for a caller, because it has not shown its ticket for too long. If it
// comes back soon, it has its place again.
func (t *Ticket) dead(now window.Instant) bool { return now > t.Dies || t.Seen.Sub(now) > life }

// tag is where the next call of a flow stands.
func (l *Level) tag(flow string) float64 {
	if i := l.flow(flow); i >= 0 {
		return max(l.Virtual, l.Flows[i].Clock)
	}
	return l.Virtual
}

func (l *Level) flow(name string) int {
	return slices.IndexFunc(l.Flows, func(f Flow) bool { return f.Name == name })
}

// move sets the clock of a flow. Clocks that say nothing more, and the oldest of too many, are forgotten.
func (l *Level) move(flow string, clock float64, now window.Instant) {
	clock = math.Round(min(clock, l.Virtual+mostAhead)*1e6) / 1e6
	if i := l.flow(flow); i >= 0 {
		l.Flows[i].Clock, l.Flows[i].Seen = clock, now
		return
	}
	l.Flows = slices.DeleteFunc(l.Flows, func(f Flow) bool { return f.Clock < l.Virtual && now.Sub(f.Seen).Abs() > life })
	if len(l.Flows) >= mostFlows {
		l.forgetOldest()
	}
	l.Flows = append(l.Flows, Flow{flow, clock, now})
}

func (l *Level) forgetOldest() {
	if len(l.Flows) > 0 {
		oldest := slices.MinFunc(l.Flows, func(a, b Flow) int { return cmp.Compare(a.Seen, b.Seen) })
		l.Flows = slices.DeleteFunc(l.Flows, func(f Flow) bool { return f.Name == oldest.Name })
	}
}

// meets reports whether a ticket is for one of the pools.
func (t *Ticket) meets(pools []string) bool {
	return slices.ContainsFunc(t.Pools, func(p string) bool { return slices.Contains(pools, p) })
}
