package pace

import (
	"math"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// pause is how long to wait for the next probe, in seconds.
func (s *State) pause(now window.Instant) float64 {
	el := now.Sub(s.Open).Seconds()
	return max(s.leastPause(), min(el, max(.05*s.Cycle, .2*el)))
}

// leastPause is the shortest pause before a probe, in seconds.
func (s *State) leastPause() float64 {
	least := leastProbe.Seconds()
	if s.Rate > 0 {
		least = max(least, .5*s.size()/s.Rate)
	}
	return least
}

// name notes the wait that an upstream names. It is believed only after it was tested: a probe
// before its end is refused, and one after it passes. Now and then it is tested again.
func (s *State) name(b Bounds, now window.Instant, named time.Duration) {
	if named <= 0 {
		return
	}
	at := now.Add(named)
	if s.Named == 0 {
		s.Named = at
	}
	if b.Obey || s.Trust == Believed && s.Turns%testAgain != 0 {
		s.After = max(s.After, at)
	}
}

// judge judges the wait that was named in an episode that ends now.
func (s *State) judge(now window.Instant) {
	if s.Named == 0 {
		return
	}
	whole := s.Named.Sub(s.Open).Seconds()
	early := s.Named.Sub(now).Seconds()
	switch {
	case early > max(.1*whole, .2), s.No > s.Named: // accepted clearly earlier, or refused after it
		s.Trust, s.Tested = Ignored, s.Turns
	case s.Trust == Untested && s.Failed > 0, s.Trust == Ignored && s.Turns-s.Tested >= testAgain:
		s.Trust, s.Tested = Believed, s.Turns
	}
}

// end ends an episode with a probe that has passed.
func (s *State) end(b Bounds, now window.Instant) {
	s.judge(now)
	s.Turns++
	s.Young++
	meas, accepted := s.measured(now)
	rate := s.RateNow(b)
	if s.Turns == 1 {
		s.Avg, s.Back, s.Gap = 1, .1, 3
		if s.Rate = meas; s.short() {
			s.Rate = max(meas, rate/2)
		}
		s.N, s.N0 = 25*s.Rate, max(25*s.Rate, 1)
	}
	s.Avg += .25 * (float64(s.Said0) - s.Avg)
	s.careful()
	s.gamble(b)
	target, weight := meas, min(1, (accepted/s.size()+20)/400)
	lower := s.Lower
	s.Lower = 0
	switch late := s.N > 1.5*s.N0; {
	case lower > 0 && s.N < s.N0/10: // the limit had not risen: a long window had room from slower times
		target, weight = min(lower, s.Rate), 1
	case s.short() && s.N < s.N0/2:
		target, weight = max(min(meas, rate), rate*(1-s.Back)), .5
	case s.short(): // it was hardly too fast
		target, weight = max(meas, rate), 1
	case late && rate > meas: // the limit has risen, and most was measured before that
		target, weight, s.Lower = min(math.Sqrt(meas*rate), 2*meas), 1, meas
	}
	s.Rate += (target - s.Rate) * weight
	s.drop(now)
	s.Rate0 = min(max(meas, .5*s.Rate), (1-s.Back)*s.Rate)
	s.N0 = max(s.Avg/perRefusal*s.size(), accepted/4, 15*s.Rate)
	if s.Young < young {
		s.N0 = max(10*s.size(), s.N0*float64(s.Young*s.Young)/(young*young))
	}
	// A rate that a full window has made tiny would be believed for longer than anything is known.
	first := s.Began
	if len(s.Ends) == maxEnds {
		first = s.Ends[0].At
	}
	s.N0 = max(10*s.size(), min(s.N0, s.Rate*now.Sub(first).Seconds()/2))
	last := s.Began
	if n := len(s.Ends); n > 0 {
		last = s.Ends[n-1].At
	}
	s.Cycle = now.Sub(last).Seconds()
	s.Ends = append(s.Ends, End{now, s.Total, s.Idle})
	if len(s.Ends) > maxEnds {
		s.Ends = slices.Delete(s.Ends, 0, len(s.Ends)-maxEnds)
	}
	s.N, s.Open, s.Probe, s.Named, s.Most = 0, 0, 0, 0, 0
	s.Next = later(now, s.Gap*s.size()/max(s.Rate, b.From/slowest))
}

// short reports whether there was room at once in the episode that ends. There was not if the first
// probe passed only because it waited for as long as the upstream had named.
func (s *State) short() bool {
	if s.Failed >= 2 || s.Named == 0 || s.After < s.Named {
		return s.Failed < 2
	}
	last := s.Began
	if n := len(s.Ends); n > 0 {
		last = s.Ends[n-1].At
	}
	return s.Named.Sub(s.Open) < max(1500*time.Millisecond, s.Latest.Sub(last)/10)
}

// measured returns the rate at which units were accepted since an earlier end, and how many
// were. After a long episode the time ends with the last probe that was refused: there may have
// been room since then, and a rate that is too high costs less than one that is too low.
func (s *State) measured(now window.Instant) (rate, accepted float64) {
	from := End{At: s.Began}
	for i := len(s.Ends) - 1; i >= 0; i-- {
		if from = s.Ends[i]; s.Total-from.Total >= 100*s.size() || len(s.Ends)-i >= 4 {
			break
		}
	}
	until := now
	if !s.short() && s.No != 0 {
		until = s.No
	}
	accepted = s.Total - from.Total
	return accepted / max(until.Sub(from.At).Seconds()-(s.Idle-from.Idle), .001), accepted
}

// careful falls farther, and waits longer at first, the sooner the refusal came.
func (s *State) careful() {
	if s.N < s.N0/2 {
		s.Back = min(.4, 1.25*s.Back)
	} else {
		s.Back = max(.005, .8*s.Back)
	}
	if s.N < s.N0/10 {
		s.Gap = min(.15*s.N0/s.size(), 2*s.Gap)
	} else {
		s.Gap = max(3, min(s.Gap/2, .15*s.N0/s.size())) // an earlier version wrote it in units
	}
}

// drop lowers the rate by a lot if, after the first episode, hardly any call was accepted
// between two of them: the burst of a bucket has ended, and was no rate.
func (s *State) drop(now window.Instant) {
	if s.N >= min(s.N0/20, 20*s.size()) {
		s.Low = 0
		return
	}
	s.Low++
	n := len(s.Ends) - 2
	if s.Low < 2 || s.Low != s.Turns-1 {
		return
	}
	if n >= 0 {
		s.Rate = min(s.Rate, max(2*s.since(s.Ends[n], now), s.Rate/4))
	}
	s.Gap, s.Back, s.Young, s.Avg, s.Peak = 3, max(s.Back, .1), 1, min(s.Avg, 4), 0
}
