package meter

import (
	"math"

	"github.com/headroom-quota/headroom/quota/window"
)

const (
	// enoughCalls is how many calls must have been seen before they are an estimate. Fewer
	// do not show the one in twenty that costs most.
	enoughCalls = 20
	// halfLife is after how many calls one counts half.
	halfLife = 200
	// perOctave is how many steps there are from a cost to twice the cost.
	perOctave = 8
	// steps cover all costs: 0, and up to 2^63.
	steps = 1 + 63*perOctave
)

// recent is what the recent calls of a method have cost: how many of them there are in each
// step of a scale on which a step is 9% more. Older ones fade.
type recent struct {
	Seen  int64             // calls ever
	Count map[int16]float64 // of calls, by step
	Sum   float64           // of their costs
}

// sound reports whether it may have been written by us.
func (r *recent) sound() bool {
	if r == nil || r.Seen < 0 || !(r.Sum >= 0) || math.IsInf(r.Sum, 0) {
		return false
	}
	for step, n := range r.Count {
		if step < 0 || step >= steps || !(n > 0) || math.IsInf(n, 0) {
			return false
		}
	}
	return len(r.Count) > 0 // nothing seen would be an estimate of nothing
}

func (r *recent) add(units int64) {
	fade := math.Exp2(-1.0 / halfLife)
	for step := range r.Count {
		if r.Count[step] *= fade; r.Count[step] < 1e-4 {
			delete(r.Count, step)
		}
	}
	if r.Count == nil {
		r.Count = make(map[int16]float64)
	}
	r.Seen++
	r.Count[stepOf(units)]++
	r.Sum = r.Sum*fade + float64(units)
}

func stepOf(units int64) int16 {
	if units <= 0 {
		return 0
	}
	return 1 + int16(math.Ceil(math.Log2(float64(units))*perOctave-1e-9))
}

// within returns the units that a share of the calls, in percent, stayed within. It is at
// least their mean: where a few calls cost very much, a share of the cheap ones would leave
// nothing for these.
func (r *recent) within(share int) int64 {
	all := 0.0
	for _, n := range r.Count {
		all += n
	}
	if all == 0 {
		return 0
	}
	units, below := 0.0, 0.0
	for step := range int16(steps) {
		if below += r.Count[step]; r.Count[step] > 0 && below >= all*float64(share)/100-1e-9 {
			if step > 0 {
				units = math.Exp2(float64(step-1) / perOctave)
			}
			break
		}
	}
	return int64(min(math.Ceil(max(units, r.Sum/all)-1e-6), window.MaxUnits))
}
