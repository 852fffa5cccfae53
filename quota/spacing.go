package quota

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// An upstream may have a limit that no answer tells, such as one of bursts beside that of the hour. It shows when
// an answer refuses a call and tells that all windows of its pool have units left: see [Unexplained]. After that
// block, the calls of this process are spaced: they leave evenly, at four fifths of the rate at which calls passed
// until the block ended, but never at less than the windows of the pool allow in the long run. After 400 calls the
// rate begins to rise, slowly at first. If nothing is refused, it is soon so high that it holds nobody back, and is
// forgotten: the refusal was by chance. It is also forgotten after a day without a refusal.
//
// Other processes that meet the block space their calls, too: each by what it has sent itself.

const (
	// spacedShare is which part of the rate that passed is sent.
	spacedShare = .8
	// spacedCalls is after how many calls the rate begins to rise.
	spacedCalls = 400
	// fewCalls are too few to measure a rate by.
	fewCalls = 4
	// spacedRise is how far it has risen when it is forgotten.
	spacedRise = 30
	// spacedFor is for how long it lasts without a refusal.
	spacedFor = 24 * time.Hour
	// mostMarks is how many calls of a pool are remembered. The older they are, the more of them are left out.
	mostMarks = 64
)

const (
	// spacedReason is why a call is refused that is spaced.
	spacedReason = "calls are spaced, because the upstream has refused one and told that units are left"
	// unexplained ends the reason of a block that no limit explains which the answer tells.
	unexplained = " though units are left"
)

// Unexplained marks the reason of a block: the upstream has refused a call, and its answer tells that all windows of
// the pool have units left. So another limit has refused it, one that no answer tells. Calls of the pool are spaced
// after such a block.
func Unexplained(reason string) string {
	if len(reason)+len(unexplained) > maxReason {
		return reason
	}
	return reason + unexplained
}

func isUnexplained(reason string) bool { return strings.HasSuffix(reason, unexplained) }

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

// Spacing is how a process spaces the calls of a pool.
type Spacing struct {
	Rate  float64   // units a second
	Since time.Time // the end of the block after which it was measured
}

// spacingOf returns nil if calls of a pool are not spaced.
func (h *heard) spacingOf(pool Pool, now time.Time) *Spacing {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.spaced[pool]; s != nil && s.rate > 0 && !s.over(now) {
		return &Spacing{s.current(), s.measured}
	}
	return nil
}

// over reports whether a rate is to be forgotten.
func (s *spaced) over(now time.Time) bool {
	return s.current() > spacedRise*s.rate || now.Sub(s.measured) > spacedFor
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
		if len(h.spaced) >= mostHeard {
			return
		}
		if h.spaced == nil {
			h.spaced = make(map[Pool]*spaced)
		}
		s = &spaced{}
		h.spaced[c.Pool] = s
	}
	switch n := len(s.marks); {
	case n > 0 && s.marks[n-1].at.Sub(now) > time.Second: // the clock was set back
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

// shut notes that the upstream has refused a call of a pool that answers report about, for want of a limit that no
// answer tells.
func (h *heard) shut(c *Charge, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.spaced[c.Pool]
	if s == nil { // no call of this process was sent
		return
	}
	if !s.busy() {
		h.spacing.Add(1)
	}
	if until.After(s.until) {
		s.until = until
	}
}

// forgetSpacing ends the spacing of a pool.
func (h *heard) forgetSpacing(pool Pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.spaced[pool]; s != nil {
		h.stop(s)
	}
}

// forgetSpaced ends all spacing: another price book may count in other units.
func (h *heard) forgetSpaced() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spaced = nil
	h.spacing.Store(0)
}

// stop ends a spacing. The caller holds the lock.
func (h *heard) stop(s *spaced) {
	if s.busy() {
		h.spacing.Add(-1)
	}
	*s = spaced{dearest: s.dearest}
}

// measure measures the rate at which calls passed: what passed in a second, the block included, was at most the
// upstream's limit. If hardly any call has passed since it was measured last, the block before was too short, and the
// calls before that block count again.
func (s *spaced) measure(c *Charge) {
	if s.calls >= fewCalls {
		s.marks = slices.DeleteFunc(s.marks, func(m mark) bool { return m.at.Before(s.measured) })
	}
	if len(s.marks) < fewCalls {
		return
	}
	rate := 0.
	for _, m := range s.marks {
		rate = max(rate, spacedShare*(s.sent-m.before)/max(s.until.Sub(m.at).Seconds(), .001))
	}
	if s.rate > 0 {
		rate = min(rate, s.current())
	}
	s.rate, s.calls, s.next, s.measured = max(rate, longRun(c)), 0, s.until, s.until
	s.marks = append(s.marks, mark{s.until, s.sent})
}

// longRun returns how many units a second the windows of a charge allow in the long run.
func longRun(c *Charge) float64 {
	least := float64(0)
	for i := range c.Windows {
		if rate := float64(c.Windows[i].Limit) / c.Windows[i].Spec.Length().Seconds(); i == 0 || rate < least {
			least = rate
		}
	}
	return least
}

// current returns the rate, in units a second.
func (s *spaced) current() float64 {
	over := max(s.calls/spacedCalls-1, 0)
	return s.rate * (1 + .03*over*over*over)
}

// wait returns how long a call of a charge must wait. It is never longer than two of the dearest calls need: the clock
// may have been set back, and a call that was settled may have cost far more than others do.
func (s *spaced) wait(c *Charge, now time.Time) time.Duration {
	wait := s.next.Sub(now)
	if wait > inSeconds(2*float64(max(s.dearest, c.Units))/s.current()) {
		s.next = now
	}
	return max(s.next.Sub(now), 0)
}

// space returns the charge that holds a call back for longest, and how long; nil if none does. A call that takes its
// place moves those that follow away from it.
func (h *heard) space(charges []Charge, now time.Time, takes bool) (last *Charge, longest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range charges {
		c := &charges[i]
		s := h.spaced[c.Pool]
		if s == nil || !s.busy() || c.Units == 0 {
			continue
		}
		if !s.until.IsZero() && !now.Before(s.until) {
			h.spacing.Add(-1)
			s.measure(c)
			if s.until = (time.Time{}); s.busy() {
				h.spacing.Add(1)
			}
		}
		if s.rate == 0 {
			continue
		}
		if s.over(now) {
			h.stop(s)
		} else if wait := s.wait(c, now); wait > longest {
			last, longest = c, wait
		}
	}
	for i := range charges {
		if s := h.spaced[charges[i].Pool]; takes && last == nil && s != nil && s.rate > 0 {
			rate := s.current()
			s.calls++
			if earliest := now.Add(-inSeconds(.5 / rate)); s.next.Before(earliest) {
				s.next = earliest
			}
			s.next = s.next.Add(inSeconds(float64(charges[i].Units) / rate))
		}
	}
	return last, longest
}

// notSpaced gives the place of a call back that is not sent after all.
func (h *heard) notSpaced(p *price) {
	if h.spacing.Load() == 0 || p.held {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range p.charges {
		if s := h.spaced[p.charges[i].Pool]; s != nil && s.rate > 0 && s.calls > 0 {
			s.next = s.next.Add(-inSeconds(float64(p.charges[i].Units) / s.current()))
			s.calls--
		}
	}
}

func inSeconds(s float64) time.Duration { return time.Duration(min(s, 1e9) * float64(time.Second)) }

// spaces refuses a call that is too early. Otherwise it may take its place.
func (l *Ledger) spaces(charges []Charge, id string, takes bool) *Verdict {
	now := l.now()
	c, wait := l.heard.space(charges, now, takes)
	if c == nil {
		return nil
	}
	at := now.Add(wait)
	return &Verdict{
		ID: id, Pool: c.Pool, Window: c.Windows[0].Name, Units: c.Units, Limit: c.Windows[0].Limit, At: now,
		RetryAfter: wait, RetryAt: at, ResetAt: at, Reason: spacedReason,
	}
}
