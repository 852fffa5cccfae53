package quota

import (
	"maps"
	"slices"
	"time"
)

// An upstream may have a limit that no answer tells, such as one of bursts beside that of the hour. It shows when
// an answer refuses a call and says that all windows of its pool have units left. After that block, the calls of this
// process are spaced: they leave evenly, at four fifths of the rate at which calls passed until the block ended. After
// 400 calls the rate begins to rise, slowly at first. If nothing is refused, it is soon so high that it holds nobody
// back, and is forgotten: the refusal was by chance. It is also forgotten after a day without a refusal.
//
// Other processes that meet the block space their calls, too, if an answer has told them in these seconds that units
// are left: each by what it has sent itself.

const (
	// spacedShare is which part of the rate that passed is sent.
	spacedShare = .8
	// spacedCalls is after how many calls the rate begins to rise.
	spacedCalls = 400
	// fewCalls are too few to measure a rate by.
	fewCalls = 8
	// spacedRise is how far it has risen when it is forgotten.
	spacedRise = 30
	// spacedFor is for how long it lasts without a refusal.
	spacedFor = 24 * time.Hour
	// leastLeft is which part of a limit is left if the limit explains no refusal: a 32nd.
	leastLeft = 32
	// toldFresh is how old a report of what is left may be when a pool is shut.
	toldFresh = 5 * time.Second
	// longestBurst is how long a block may be that ends a burst.
	longestBurst = time.Hour
	// mostMarks is how many calls of a pool are remembered. The older they are, the more of them are left out.
	mostMarks = 64
)

// spacedReason is why a call is refused that is spaced.
const spacedReason = "calls are spaced, because the upstream has refused one and said that units are left"

// spaced is the rate of the calls of a pool. Instants are by the ledger's clock.
type spaced struct {
	sent    float64   // units of calls that passed or are in flight
	marks   []mark    // when calls were sent since the rate was measured
	dearest int64     // of the calls that were sent
	until   time.Time // the end of a block after which the rate is to be measured; zero: none

	rate     float64   // units a second at first; 0: calls are not spaced
	calls    float64   // that were sent since
	measured time.Time // when the rate was measured
	next     time.Time // the earliest instant of the next call
}

// mark is the beginning of a call.
type mark struct {
	at     time.Time
	before float64 // of sent
}

// busy reports whether calls are spaced, or will be when the block ends.
func (s *spaced) busy() bool { return s.rate > 0 || !s.until.IsZero() }

// drew counts a call that has drawn from a hold.
func (h *heard) drew(charges []Charge, p *prices, now time.Time) {
	if !h.on.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range charges {
		h.starts(&charges[i], p, now)
	}
}

// starts counts a call of a pool that answers report about. The caller holds the lock.
func (h *heard) starts(c *Charge, p *prices, now time.Time) {
	s := h.spaced[c.Pool]
	if s == nil {
		if !p.of(c.Pool.Upstream, c.Pool.Name).reported {
			return
		}
		if len(h.spaced) >= mostHeard { // of many keys
			maps.DeleteFunc(h.spaced, func(_ Pool, s *spaced) bool { return !s.busy() })
		}
		if h.spaced == nil {
			h.spaced = make(map[Pool]*spaced)
		}
		s = &spaced{}
		h.spaced[c.Pool] = s
	}
	switch n := len(s.marks); {
	case n > 0 && s.marks[n-1].at.Sub(now) > toldFresh: // the clock was set back
		s.marks = nil
	case n >= mostMarks:
		for i := range mostMarks / 4 {
			s.marks[i] = s.marks[2*i]
		}
		s.marks = slices.Delete(s.marks, mostMarks/4, mostMarks/2)
	}
	s.marks = append(s.marks, mark{now, s.sent})
	s.sent += float64(c.Units)
	s.dearest = max(s.dearest, c.Units)
}

// settled counts that a call has cost more than it was sent with, or less. The caller holds the lock.
func (s *spaced) settled(more int64) {
	s.sent += float64(more)
	if s.rate > 0 {
		s.next = s.next.Add(inSeconds(float64(more) / s.current()))
	}
}

// shut notes that the upstream has shut a pool that answers report about.
func (h *heard) shut(c *Charge, until, now time.Time) {
	if !h.on.Load() || until.Sub(now) > longestBurst {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.spaced[c.Pool]
	if s == nil { // no call of this process was sent
		return
	}
	if !s.busy() {
		h.spacing.Add(1)
	}
	if until.Sub(s.until) > time.Second { // else others have met the same block
		for i := range c.Windows {
			if w := h.windows[heardKey{c.Pool, c.Windows[i].Layout}]; w != nil && now.Sub(w.told) > toldFresh {
				w.least = 0
			} else if w != nil {
				w.least = w.left
			}
		}
	}
	if until.After(s.until) {
		s.until = until
	}
}

// unclear notes that it is not known what a window has left: its last report came late.
func (h *heard) unclear(c *Charge) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.windows[heardKey{c.Pool, c.Windows[c.Window].Layout}]; w != nil {
		w.told, w.least = time.Time{}, 0
	}
}

// unexplained reports whether all answers have said since the upstream refused a call that each window of its pool
// had units left. The caller holds the lock.
func (h *heard) unexplained(c *Charge, s *spaced) bool {
	for i := range c.Windows {
		w := h.windows[heardKey{c.Pool, c.Windows[i].Layout}]
		if w == nil || w.least < max(w.of/leastLeft, 2*s.dearest) {
			return false
		}
	}
	return len(c.Windows) > 0
}

// measure measures the rate at which calls passed: what passed in a second, the block included, was at most the
// upstream's limit. If hardly any call has passed since it was measured last, the block before was too short, and the
// calls before that block count again.
func (s *spaced) measure() {
	if s.calls >= fewCalls {
		s.marks = slices.DeleteFunc(s.marks, func(m mark) bool { return m.at.Before(s.measured) })
	}
	rate := 0.
	for _, m := range s.marks {
		rate = max(rate, spacedShare*(s.sent-m.before)/max(s.until.Sub(m.at).Seconds(), .001))
	}
	if s.rate > 0 {
		rate = min(rate, s.current())
	}
	s.rate, s.calls, s.next, s.measured = rate, 0, s.until, s.until
	s.marks = append(s.marks, mark{s.until, s.sent})
}

// current returns the rate, in units a second.
func (s *spaced) current() float64 {
	over := max(s.calls/spacedCalls-1, 0)
	return s.rate * (1 + .03*over*over*over)
}

// spacedUntil returns the pool that holds a call back, and how long; nil if none does.
func (h *heard) spacedUntil(charges []Charge, now time.Time) (*Charge, time.Duration) {
	if h.spacing.Load() == 0 {
		return nil, 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range charges {
		s := h.spaced[charges[i].Pool]
		if s == nil || !s.busy() {
			continue
		}
		if !s.until.IsZero() && !now.Before(s.until) {
			if h.unexplained(&charges[i], s) {
				s.measure()
			}
			s.until = time.Time{}
		}
		if !s.busy() || s.rate > 0 && (s.current() > spacedRise*s.rate || now.Sub(s.measured) > spacedFor) {
			*s = spaced{dearest: s.dearest}
			h.spacing.Add(-1)
			continue
		}
		if wait := s.next.Sub(now); s.rate > 0 && 0 < wait && wait < longestBurst {
			return &charges[i], wait
		}
	}
	return nil, 0
}

// spaces moves the calls that follow one away from it.
func (h *heard) spaces(charges []Charge, now time.Time) {
	if h.spacing.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range charges {
		if s := h.spaced[charges[i].Pool]; s != nil && s.rate > 0 {
			rate := s.current()
			s.calls++
			if earliest := now.Add(-inSeconds(.5 / rate)); s.next.Before(earliest) || s.next.Sub(now) > longestBurst {
				s.next = earliest
			}
			s.next = s.next.Add(inSeconds(float64(charges[i].Units) / rate))
		}
	}
}

func inSeconds(s float64) time.Duration { return time.Duration(min(s, 1e9) * float64(time.Second)) }

// spacedVerdict refuses a call that is too early.
func (l *Ledger) spacedVerdict(charges []Charge, id string) *Verdict {
	now := l.now()
	c, wait := l.heard.spacedUntil(charges, now)
	if c == nil {
		return nil
	}
	at := now.Add(wait)
	return &Verdict{ID: id, Pool: c.Pool, Window: "the spacing of calls", Units: c.Units, At: now, RetryAfter: wait, RetryAt: at, ResetAt: at, Reason: spacedReason}
}
