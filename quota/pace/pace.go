// Package pace learns a limit that nobody publishes, from which calls were refused.
//
// It needs no shape of a window, only how many units pass in a second: it sends evenly at the
// rate that was measured last. After a refusal it stops, lets what is in flight end, and probes
// with one call at a time until one passes. Such a stretch is an episode. Its end measures the rate
// anew: what was accepted since an earlier end, over the time since then. From there the rate
// rises along a cubic that is flat near the measured rate.
//
// If refusals show that the upstream limits the calls in flight, the rule counts places instead.
//
// The state is a struct of numbers that a store can keep. Time is an argument, and there are no
// locks: whoever keeps the state changes it as a whole.
package pace

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Bounds are what is known of a limit before anything was learned.
type Bounds struct {
	From float64 // units in a second at first
	To   float64 // never faster
	Obey bool    // believe each wait that the upstream names
}

// State is what was learned of one limit. Its zero value has learned nothing. Rates are units a
// second, and an instant of 0 is none.
type State struct {
	Latest window.Instant `json:"at"`              // the latest instant seen
	Began  window.Instant `json:"began"`           // when the first call was asked for
	Total  float64        `json:"total"`           // units that were accepted
	Size   float64        `json:"size,omitempty"`  // units of a call, on average
	Idle   float64        `json:"idle"`            // seconds in which no call waited for the rate
	Slack  float64        `json:"slack,omitempty"` // how long the rate waits for a call, in calls, on average
	Said   int64          `json:"said"`            // calls that were refused

	Next   window.Instant `json:"next"`            // the earliest instant of the next call
	Flight []Sent         `json:"flight"`          // the calls in flight, in the order in which they were sent
	Slow   float64        `json:"slow"`            // seconds that slow calls take
	Swift  float64        `json:"swift,omitempty"` // seconds that slow refusals take
	Mean   float64        `json:"mean,omitempty"`  // seconds that calls take on average

	Turns int64   `json:"turns"` // episodes that have ended
	Ends  []End   `json:"ends"`  // the ends of the last ones
	N     float64 `json:"n"`     // units accepted since the last end
	N0    float64 `json:"n0"`    // after so many of them the rate is the measured one again
	Rate0 float64 `json:"r0"`    // the rate right after the last end
	Rate  float64 `json:"rm"`    // the measured rate; 0: none yet
	Back  float64 `json:"d"`     // how far the rate falls at an end, as a share
	Gap   float64 `json:"gap"`   // after an end the next call waits as for so many calls
	Avg   float64 `json:"avg"`   // refusals of an episode, on average
	Cycle float64 `json:"cycle"` // seconds from the last end but one to the last one
	Low   int64   `json:"low"`   // the last episodes before which hardly any call was accepted
	Young int64   `json:"young"` // episodes since the rate was last unknown

	Lower float64 `json:"lower,omitempty"` // what was measured at the last end, if that took a higher rate

	Open   window.Instant `json:"open"`   // when the episode began that has not ended
	Said0  int64          `json:"said0"`  // refusals in it
	Failed int64          `json:"failed"` // probes that were refused in it
	Probe  window.Instant `json:"probe"`  // when the probe was sent that is in flight
	No     window.Instant `json:"no"`     // when a probe was refused last
	After  window.Instant `json:"after"`  // the earliest instant of the next probe
	Named  window.Instant `json:"named"`  // the end of the wait that the upstream named

	// An upstream may limit the calls in flight instead. See [State.places].
	Places int            `json:"c,omitempty"`    // so many calls may be in flight; 0: that is not the limit
	Full   float64        `json:"full,omitempty"` // calls accepted with all places taken, since their number changed
	Most   int            `json:"most,omitempty"` // the most calls in flight with one that was accepted, since the last end
	Fits   int            `json:"fits,omitempty"` // refusals in a row that speak for such a limit, or against the one in Places
	Set    window.Instant `json:"set,omitempty"`  // when Places changed

	// Others may fill the places by chance. See [State.gamble].
	Chance bool    `json:"chance,omitempty"` // Places is found by the share that is refused
	Luck   float64 `json:"luck,omitempty"`   // share of the last episodes that came early and ended at once
	Peak   float64 `json:"peak,omitempty"`   // the highest measured rate, which fades
	Retry  int64   `json:"retry,omitempty"`  // the earliest episode after which places are tried again
	Beat   float64 `json:"beat,omitempty"`   // the rate that a trial must beat; 0: there is none
	Trial  End     `json:"trial,omitzero"`   // its beginning

	Trust  Trust `json:"trust"`  // in such waits
	Tested int64 `json:"tested"` // the number of the episode that tested it last
}

// Clone returns a copy that shares nothing.
func (s *State) Clone() State {
	c := *s
	c.Flight, c.Ends = slices.Clone(s.Flight), slices.Clone(s.Ends)
	return c
}

// Sent is a call in flight.
type Sent struct {
	At    window.Instant `json:"t"`
	Units float64        `json:"u"`
	Free  bool           `json:"f,omitempty"` // the rate did not hold it back
	With  int            `json:"w,omitempty"` // calls in flight with it; 0: unknown
}

// End is the end of an episode.
type End struct {
	At    window.Instant `json:"t"`
	Total float64        `json:"n"`
	Idle  float64        `json:"i,omitempty"`
}

// Trust says whether the waits that an upstream names were true.
type Trust int

// A wait is tested before it is believed.
const (
	Untested Trust = iota
	Believed
	Ignored
)

const (
	maxEnds = 32
	// maxFlight bounds the calls in flight that are known. The oldest are forgotten first.
	maxFlight = 48
	// leastProbe is the shortest wait before a probe.
	leastProbe = 150 * time.Millisecond
	// testAgain is how many episodes pass until waits that were false are tested again.
	testAgain = 8
	// slowest is how many times slower than at first the rate may become.
	slowest = 100
	// young is how many episodes it takes until refusals are as rare as they are to be.
	young = 8
	// stepBack is how far the clock may seem to go back, because machines differ. One that goes back
	// farther was set back, and takes all instants with it.
	stepBack = 2 * time.Second
	// most is how many times faster than measured calls are sent, until so many times N0 of them have
	// passed that this is what was measured.
	most, outgrown = 4., 8
	// aged is after how long a pause the rate moves fast again.
	aged = 24 * time.Hour
	// idle is how long nobody asks until the time counts as idle, at high rates. Shorter pauses
	// count if they are the rule.
	idle = 100 * time.Millisecond
	// leastPatience is how long to wait at least for an answer, before one asks again.
	leastPatience = 10 * time.Millisecond
	// lull is how long an episode waits at most for the calls in flight to end: refusals come soon.
	lull = 2 * time.Second
	// few calls are no evidence, and sure is how many refusals in a row are.
	few, sure = 20, 2
	// perRefusal is the share of calls that the rule accepts to be refused.
	perRefusal = .0024
	// perChance is the same while others fill places by chance, and proof is how many calls more or
	// fewer than that change their number.
	perChance, proof = .0085, 250.
	// settled is how many episodes it takes until a rate that falls on is no longer about the first ones.
	settled = 10
)

// Send asks whether a call of some units may be sent now. If it may, wait is zero, and the call
// is in flight until [State.Accepted], [State.Refused] or [State.Unsent] is told its instant.
// Otherwise it says when to ask again; an answer may make that earlier.
func (s *State) Send(b Bounds, now window.Instant, units float64) (sent window.Instant, wait time.Duration) {
	if back := s.Latest.Sub(now); s.Began != 0 && back > stepBack { // an answer may come late, but not this
		s.move(now - s.Latest)
	}
	now = s.enter(now)
	if s.Open != 0 && s.unrefused(now) {
		s.end(b, now)
	}
	if s.Open != 0 {
		switch {
		case s.Probe != 0, len(s.Flight) > 0 && now.Sub(s.Open) < lull:
			return 0, s.patience()
		case now < s.After:
			return 0, s.After.Sub(now)
		}
		s.Probe = s.sent(now, units, false)
		return s.Probe, 0
	}
	if s.Places > 0 && len(s.Flight) >= s.Places {
		return 0, min(s.patience(), max(seconds(cmp.Or(s.Mean, s.Slow)/float64(s.Places)), leastPatience))
	}
	if now < s.Next {
		return 0, s.Next.Sub(now)
	}
	rate, free := s.RateNow(b), false
	if s.Places > 0 {
		rate = max(b.To, b.From)
	} else {
		free = s.free(now.Sub(s.Next), s.size()/rate)
	}
	s.Next = max(s.Next, later(now, -.5*s.size()/rate))
	s.Next = later(s.Next, units/rate)
	return s.sent(now, units, free), 0
}

// unrefused reports whether the probe would have been refused by now: calls take longer than refusals.
func (s *State) unrefused(now window.Instant) bool {
	soon := max(4*s.Swift, lull.Seconds())
	return s.Probe != 0 && s.Slow >= soon && now.Sub(s.Probe).Seconds() >= soon
}

// free reports whether the rate has not held a call back, which came some time after it might have.
// Each is the time between two calls at that rate.
// A demand below the rate says nothing about the limit: its calls do not raise the rate, and its
// pauses do not lower what is measured.
func (s *State) free(rest time.Duration, each float64) bool {
	if s.Next == 0 {
		return false
	}
	s.Slack += (min(rest.Seconds()/each, 4) - s.Slack) / 32
	if rest <= max(seconds(2*each), idle) && s.Slack <= 1 {
		return false
	}
	s.Idle += rest.Seconds()
	return true
}

// enter brings the state to an instant: time does not move back.
func (s *State) enter(now window.Instant) window.Instant {
	if s.Began == 0 {
		s.Began, s.Latest = now, now
	}
	if now.Sub(s.Latest) > aged { // the limit may be another one by now
		s.Young = min(s.Young, 1)
	}
	s.Latest = max(s.Latest, now)
	life := s.life()
	s.Flight = slices.DeleteFunc(s.Flight, func(f Sent) bool {
		lost := s.Latest.Sub(f.At) > life
		if lost && f.At == s.Probe {
			s.Probe = 0
		}
		return lost
	})
	return s.Latest
}

// move moves all instants.
func (s *State) move(by window.Instant) {
	for _, at := range []*window.Instant{&s.Latest, &s.Began, &s.Next, &s.Open, &s.Probe, &s.After, &s.Named, &s.No, &s.Set, &s.Trial.At} {
		if *at != 0 {
			*at += by
		}
	}
	for i := range s.Flight {
		s.Flight[i].At += by
	}
	for i := range s.Ends {
		s.Ends[i].At += by
	}
}

// life is how long a call may be in flight: a process that ends does not say that its calls did.
func (s *State) life() time.Duration { return max(5*time.Second, seconds(4*s.Slow)) }

// patience is when to ask again if an answer must come first.
func (s *State) patience() time.Duration {
	return min(max(seconds(s.Slow/4), leastPatience), time.Second)
}

func (s *State) sent(now window.Instant, units float64, free bool) window.Instant {
	s.Size = cmp.Or(s.Size, units)
	s.Size += (units - s.Size) / 32
	if n := len(s.Flight); n > 0 && s.Flight[n-1].At >= now {
		now = s.Flight[n-1].At + 1 // no two are alike
	}
	if len(s.Flight) >= maxFlight {
		s.Flight = slices.Delete(s.Flight, 0, len(s.Flight)-maxFlight+1)
	}
	s.Flight = append(s.Flight, Sent{now, units, free, len(s.Flight) + 1})
	return now
}

// size is how many units a call has on average. It is unknown at first.
func (s *State) size() float64 { return max(cmp.Or(s.Size, 1), 1e-3) }

// RateNow is the rate at which calls are sent now, in units a second. While the calls in flight are
// limited instead, it is the last rate before that.
func (s *State) RateNow(b Bounds) float64 {
	rate := b.From + s.N*math.Ln2 // doubled each second
	if s.Rate > 0 {
		switch u := s.N / max(s.N0, 1); {
		case u < 1:
			rate = s.Rate - (s.Rate-s.Rate0)*cube(1-u)
		default:
			times := most
			if s.Young < young { // it may have been measured while a window was full
				times = 1000
			}
			rate = s.Rate * min(times, 1+s.steep()*cube(u-1))
		}
	}
	return min(max(rate, b.From/slowest), max(b.To, b.From))
}

// steep is how steeply the rate rises above the measured one. The slower the calls are, the less of
// their time an episode costs, and the longer a higher limit would stay unknown.
func (s *State) steep() float64 {
	most := 1.
	if s.Avg > 1.5 { // a refusal is not the only one
		most = .4
	}
	return min(max(.03, .003*s.N0/s.Rate), most)
}

// answered takes a call out of those in flight, and reports whether it was known.
func (s *State) answered(sent window.Instant) (f Sent, known bool) {
	i := slices.IndexFunc(s.Flight, func(f Sent) bool { return f.At == sent })
	if i < 0 {
		return f, false
	}
	f = s.Flight[i]
	s.Flight = slices.Delete(s.Flight, i, i+1)
	return f, true
}

// took notes how long a call took, also one that is no longer known because it took so long. That one counts only in
// part: its program may have slept.
func (s *State) took(sent, now window.Instant, known, refused bool) {
	d := now.Sub(sent).Seconds()
	if d <= 0 { // somebody else has told it, or the clock was set back
		return
	}
	if !known {
		d = min(d, 2*s.life().Seconds())
	}
	s.Slow = max(d, s.Slow+(d-s.Slow)/64)
	if refused {
		s.Swift = max(d, s.Swift+(d-s.Swift)/64)
	} else {
		s.Mean = cmp.Or(s.Mean, d)
		s.Mean += (d - s.Mean) / 16
	}
}

// Unsent says that a call was never sent.
func (s *State) Unsent(b Bounds, sent, now window.Instant) {
	s.enter(now)
	f, known := s.answered(sent)
	if sent == s.Probe {
		s.Probe = 0
	}
	if known && s.Open == 0 {
		s.Next = later(s.Next, -f.Units/s.RateNow(b))
	}
}

// Unclear says that a call has ended, and that nobody knows whether it was refused. It was sent all the same.
func (s *State) Unclear(sent, now window.Instant) {
	now = s.enter(now)
	s.answered(sent)
	if s.Probe != 0 && sent == s.Probe {
		s.Probe, s.After = 0, max(s.After, later(now, s.pause(now)))
	}
}

// Accepted says that the upstream has accepted a call.
func (s *State) Accepted(b Bounds, sent, now window.Instant, units float64) {
	now = s.enter(now)
	f, known := s.answered(sent)
	s.took(sent, now, known, false)
	switch {
	case s.Places > 0:
		s.roomy(f)
	case !f.Free:
		s.N += units
		s.outgrow(b, now)
	}
	s.Most = max(s.Most, f.With)
	s.Total += units
	if s.Open != 0 && sent >= s.Open && sent <= now { // a probe, which may have been slower than any call before
		s.end(b, now)
	}
}

// outgrow takes a higher rate for the measured one, because no refusal would tell that this is far
// too low. It is at most twice what has passed: a demand that is a little slower than the rate says
// no more.
func (s *State) outgrow(b Bounds, now window.Instant) {
	rate := s.RateNow(b)
	if s.Open != 0 || s.Rate <= 0 || s.N <= outgrown*s.N0 || rate < most*s.Rate {
		return
	}
	last := End{At: s.Began}
	if n := len(s.Ends); n > 0 {
		last = s.Ends[n-1]
	}
	if rate = min(rate, 2*s.since(last, now)); rate > s.Rate {
		s.Rate, s.N = rate, s.N0
	}
}

// since returns the units in a second that were accepted after an end, without the pauses of the demand.
func (s *State) since(e End, now window.Instant) float64 {
	return (s.Total - e.Total) / max(now.Sub(e.At).Seconds()-(s.Idle-e.Idle), .001)
}

// Refused says that the upstream has refused a call, and which wait it has named, if any.
func (s *State) Refused(b Bounds, sent, now window.Instant, named time.Duration) {
	now = s.enter(now)
	f, known := s.answered(sent)
	s.took(sent, now, known, true)
	s.Said++
	switch n := len(s.Ends); {
	case s.Open != 0 && sent == s.Probe:
		s.Said0++
		s.Failed++
		s.Probe, s.No = 0, now
		s.name(b, now, named)
		s.After = max(s.After, later(now, s.pause(now)))
	case s.Open != 0:
		s.Said0++
		s.name(b, now, named)
	case n > 0 && sent < s.Ends[n-1].At: // it belongs to the last episode
	case !(b.Obey && named > 0) && s.places(f, now):
	default:
		if s.Places > 0 { // it obeys: in an episode places measure nothing
			s.evenly()
		}
		s.Open, s.Said0, s.Failed, s.Probe, s.Named, s.No = now, 1, 0, 0, 0, 0
		s.After = later(now, s.leastPause())
		s.name(b, now, named)
	}
}

func cube(x float64) float64 { return x * x * x }

func later(at window.Instant, s float64) window.Instant { return at.Add(seconds(s)) }

func seconds(s float64) time.Duration {
	return time.Duration(min(s, 1e9) * float64(time.Second))
}
