package svg

import "math"

// Ticks returns about as many round numbers for an axis as asked for, in steps of 1, 2 or 5
// times a power of ten. The first is at or below low, the last at or above high. If low and
// high are whole numbers, no step is below 1.
func Ticks(low, high float64, about int) []float64 {
	if high <= low {
		high = low + 1
	}
	step := roundStep((high - low) / float64(max(about, 1)))
	if low == math.Trunc(low) && high == math.Trunc(high) {
		step = max(step, 1)
	}
	var all []float64
	for n := math.Floor(low / step); ; n++ {
		tick := math.Round(n*step*1e9) / 1e9         // 3 times 0.1 is 0.3
		if all = append(all, tick); !(tick < high) { // NaN ends it too
			return all
		}
	}
}

// roundStep returns the lowest round number that is at least v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power {
			return m * power
		}
	}
	return 10 * power
}
