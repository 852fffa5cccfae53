package pace

import "github.com/headroom-quota/headroom/quota/window"

// places reports whether a refusal is due to a limit of the calls in flight, and lowers their number
// if so. Such a limit refuses a call only if more are in flight with it than with any accepted one.
// Other limits refuse calls regardless of that.
func (s *State) places(f Sent, now window.Instant) bool {
	switch {
	case s.Chance:
		return s.lost(f, now)
	case s.Places == 0 && (f.With < max(s.Most, 2) || f.With >= maxFlight || s.Turns == 0 || s.N < few*s.size()):
		s.Fits = 0
		return false
	case s.Places == 0 && f.With == s.Most: // it may have arrived after another one had ended
		return false
	case s.Places == 0:
		if s.Fits++; s.Fits < sure {
			return false
		}
		s.Places, s.Fits = f.With, 0
	case f.At != 0 && f.At < s.Set: // it was sent before the last change
		return true
	case s.Full < few:
		s.Fits = 0
	default:
		s.Fits++
	}
	if s.Places--; s.Places == 0 || s.Fits == sure {
		s.evenly()
		return false
	}
	s.Full, s.Set = 0, now
	return true
}

// roomy raises the number of calls in flight after enough were accepted with all places taken.
func (s *State) roomy(f Sent) {
	if f.With >= s.Places && f.At > s.Set {
		s.Full++
	}
	enough := 1 / perRefusal
	switch {
	case s.Chance && s.Beat > 0: // a trial is to be short
		enough = proof / 4
	case s.Chance:
		enough = proof
	}
	if s.Full >= enough {
		s.Places++
		s.Full, s.Set = 0, s.Latest
		if s.Places >= maxFlight { // more are not known
			s.evenly()
		}
	}
}

// evenly returns to the rate.
func (s *State) evenly() {
	if s.Chance && s.Beat == 0 { // it was not measured for long
		s.Young = min(s.Young, 1)
	}
	s.Places, s.Fits, s.Full, s.Chance = 0, 0, 0, false
}

// gamble tries places at the end of an episode, if lower and lower rates were refused all the same.
// Calls of others that come and go by chance refuse some at any rate, but fewer if fewer are in flight.
func (s *State) gamble(b Bounds) {
	early := 0.
	if s.N < s.N0/2 && s.Failed == 0 {
		early = 1
	}
	s.Luck += (early - s.Luck) / 16
	if s.Turns < settled || len(s.Ends) == 0 {
		return
	}
	passed := s.since(s.Ends[max(0, len(s.Ends)-8)], s.Latest)
	s.Peak = max(min(s.Rate, 1.5*passed), .99*s.Peak) // a window with room takes a burst, which is no rate
	if s.Places > 0 || b.Obey || s.Turns < s.Retry || s.Luck < .4 || s.Back < .3 || s.Rate > .65*s.Peak || s.Rate*s.Slow < .5 {
		return
	}
	s.Places, s.Chance, s.Full, s.Set = 1, true, 0, s.Latest
	s.Retry = s.Turns + s.Turns/4 + 4
	s.Trial = End{s.Latest, s.Total, s.Idle}
	s.Beat = passed
}

// lost takes a place away if more calls are refused than chance explains. A trial ends then, and
// with it the places if fewer calls passed than before.
func (s *State) lost(f Sent, now window.Instant) bool {
	if f.At != 0 && f.At < s.Set {
		return true
	}
	s.Full -= 1 / perChance
	switch trial := s.Beat > 0; {
	case now.Sub(s.Trial.At) > aged: // a rate may hold by now, and would refuse less
		s.evenly()
		return false
	case s.Full > -proof:
		return true
	case trial && s.since(s.Trial, now) < .9*s.Beat, s.Places == 1 && (trial || s.Full <= -4*proof):
		s.evenly()
		return false
	case s.Places == 1: // there are no fewer: only a rate can be this far too high
		return true
	}
	s.Places--
	s.Full, s.Set, s.Beat = 0, now, 0
	return true
}
