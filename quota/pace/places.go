package pace

import "github.com/headroom-quota/headroom/quota/window"

// places reports whether a refusal is due to a limit of the calls in flight, and lowers their number
// if so. Such a limit refuses a call only if more are in flight with it than with any accepted one.
// Other limits refuse calls regardless of that.
func (s *State) places(f Sent, now window.Instant) bool {
	switch {
	case s.Places == 0 && (f.With < max(s.Most, 2) || f.With >= maxFlight || s.Turns == 0 || s.N < few):
		s.Fits = 0
		return false
	case s.Places == 0 && f.With == s.Most: // it may have arrived after another one had ended
		return false
	case s.Places == 0:
		if s.Fits++; s.Fits < sure {
			return false
		}
		s.Places, s.Fits = f.With, 0
	case f.At < s.Set: // it was sent before the last change
		return true
	case s.Full < few:
		s.Fits = 0
	default:
		s.Fits++
	}
	if s.Places--; s.Places == 0 || s.Fits == sure {
		s.Places, s.Fits = 0, 0
		return false
	}
	s.Full, s.Set = 0, now
	return true
}

// roomy raises the number of calls in flight after enough were accepted with all places taken.
func (s *State) roomy(f Sent, units float64) {
	if f.With >= s.Places && f.At > s.Set {
		s.Full += units
	}
	if s.Full >= 1/perRefusal {
		s.Places++
		s.Full, s.Set = 0, s.Latest
		if s.Places >= maxFlight { // more are not known
			s.Places, s.Fits = 0, 0
		}
	}
}
