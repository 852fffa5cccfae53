// Package fair says whose turn it is among callers of several processes that wait for the same units.
// It is start-time fair queueing: each flow (a job, a token, a process) has a clock that moves on by
// what its calls take, as a share of the limit, and a call may be asked for while its flow is
// hardly ahead of the one that is furthest behind. A heavy call is so passed by little, and nobody
// waits for ever.
//
// It has no clock, no store and no lock of its own: a [State] is changed, and is kept by others.
// It only holds calls back. Whether units are left, the store decides.
package fair

import (
	"cmp"
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
)

// State is the line of an account. Its zero value is a line in which nobody has waited.
type State struct {
	Virtual float64        `json:"v,omitempty"` // where a flow begins that was not here
	Warm    window.Instant `json:"w,omitempty"` // when somebody waited last
	Flows   []Flow         `json:"f,omitempty"`
	Tickets []Ticket       `json:"t,omitempty"`
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
	Tag   float64        `json:"t"`
	Since window.Instant `json:"n"`
	Seen  window.Instant `json:"s"`
	Dies  window.Instant `json:"d"` // unless it is shown again
	Pools []string       `json:"p"`
	Share float64        `json:"h"` // of the limit of the pool that it takes most of
	Units int64          `json:"u"` // of that pool
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
	a.Tag, a.Since, a.Seen, a.Dies = s.tag(a.Flow), now, now, now.Add(a.Life())
	if own >= 0 {
		a.Tag, a.Since = s.Tickets[own].Tag, s.Tickets[own].Since
	}
	least, flows := math.Inf(1), 1
	for i := range s.Tickets {
		t := &s.Tickets[i]
		if i == own || t.dead(now) || !t.meets(a.Pools) {
			continue
		}
		if t.Tag < a.Tag || t.Tag == a.Tag && t.Since < a.Since {
			answer.Ahead++
		}
		least = min(least, t.Tag)
		if t.Flow != a.Flow && !slices.ContainsFunc(s.Tickets[:i], func(o Ticket) bool { return o.Flow == t.Flow }) {
			flows++
		}
	}
	lead := a.lead()
	if over := a.Tag - least - lead; over > 0 {
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
func (s *State) Took(flow string, share float64, now window.Instant) {
	s.sweep(now)
	tag := s.tag(flow)
	s.move(flow, tag+share, now)
	// A flow that has just been here keeps its place while none of its callers has a ticket, but for a
	// part of the limit at most: a flow that asks for little would hold the time up for all.
	recent := tag
	for i := range s.Flows {
		if now.Sub(s.Flows[i].Seen) <= life {
			recent = min(recent, s.Flows[i].Clock)
		}
	}
	tag = min(tag, max(recent, tag-mostCredit))
	for i := range s.Tickets {
		if t := &s.Tickets[i]; !t.dead(now) {
			tag = min(tag, t.Tag)
		}
	}
	s.Virtual = max(s.Virtual, tag)
}

// Corrected notes that calls of a flow took more than it was said, or less.
func (s *State) Corrected(flow string, share float64, now window.Instant) {
	if i := s.flow(flow); i >= 0 {
		s.move(flow, s.Flows[i].Clock+share, s.Flows[i].Seen)
	}
}

// Granted takes a caller out of the line that has got its units. For a moment others still wait for the next call of
// its flow: where each call is granted at once, nobody would be seen to wait.
func (s *State) Granted(id string, now window.Instant) {
	i := slices.IndexFunc(s.Tickets, func(t Ticket) bool { return t.ID == id })
	if i < 0 {
		return
	}
	next := s.Tickets[i]
	s.Tickets = slices.DeleteFunc(s.Tickets, func(t Ticket) bool { return t.ID == id || t.ID == "" && t.Flow == next.Flow })
	next.ID, next.Tag, next.Dies = "", s.tag(next.Flow), now.Add(lingers)
	s.Tickets = append(s.Tickets, next)
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
	slices.SortFunc(c.Tickets, func(a, b Ticket) int { return cmp.Or(cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.Since, b.Since)) })
	return c.Tickets
}

// Clone returns a copy that shares nothing with s.
func (s *State) Clone() State {
	c := *s
	c.Flows, c.Tickets = slices.Clone(s.Flows), slices.Clone(s.Tickets)
	return c
}

// Shrink forgets what is missed least, and reports whether there was something: for a note that is too long.
func (s *State) Shrink(now window.Instant) bool {
	switch dead := slices.IndexFunc(s.Tickets, func(t Ticket) bool { return t.dead(now) }); {
	case dead >= 0:
		s.Tickets = slices.Delete(s.Tickets, dead, dead+1)
	case len(s.Flows) > len(s.Tickets):
		oldest := slices.MinFunc(s.Flows, func(a, b Flow) int { return cmp.Compare(a.Seen, b.Seen) })
		s.Flows = slices.DeleteFunc(s.Flows, func(f Flow) bool { return f.Name == oldest.Name })
	case len(s.Tickets) > 0:
		s.Tickets = s.Tickets[:len(s.Tickets)-1]
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
func (s *State) tag(flow string) float64 {
	if i := s.flow(flow); i >= 0 {
		return max(s.Virtual, s.Flows[i].Clock)
	}
	return s.Virtual
}

func (s *State) flow(name string) int {
	return slices.IndexFunc(s.Flows, func(f Flow) bool { return f.Name == name })
}

// move sets the clock of a flow. Clocks that say nothing more, and the oldest of too many, are forgotten.
func (s *State) move(flow string, clock float64, now window.Instant) {
	clock = math.Round(min(clock, s.Virtual+mostAhead)*1e6) / 1e6
	if i := s.flow(flow); i >= 0 {
		s.Flows[i].Clock, s.Flows[i].Seen = clock, now
		return
	}
	s.Flows = slices.DeleteFunc(s.Flows, func(f Flow) bool { return f.Clock < s.Virtual && now.Sub(f.Seen).Abs() > life })
	if len(s.Flows) >= mostFlows {
		oldest := slices.MinFunc(s.Flows, func(a, b Flow) int { return cmp.Compare(a.Seen, b.Seen) })
		s.Flows = slices.DeleteFunc(s.Flows, func(f Flow) bool { return f.Name == oldest.Name })
	}
	s.Flows = append(s.Flows, Flow{flow, clock, now})
}

// meets reports whether a ticket is for one of the pools.
func (t *Ticket) meets(pools []string) bool {
	return slices.ContainsFunc(t.Pools, func(p string) bool { return slices.Contains(pools, p) })
}
