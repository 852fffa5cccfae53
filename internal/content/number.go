package content

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/quota/window"
)

// Number reads a number of units. A fraction is rounded up. It returns false for a
// negative number, one above any quota, and any other text.
func Number(text string) (int64, bool) {
	text = strings.TrimSpace(text)
	if text == "" || text[0] != '.' && (text[0] < '0' || text[0] > '9') {
		return 0, false
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, n <= window.MaxUnits
	}
	if strings.Trim(text, "0123456789.eE+-") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if f = math.Ceil(f); err != nil || f > float64(window.MaxUnits) {
		return 0, false
	}
	return int64(f), true
}

// add returns a + b, at most window.MaxUnits.
func add(a, b int64) int64 {
	if b > window.MaxUnits-a {
		return window.MaxUnits
	}
	return a + b
}

// scale returns n divided by per, rounded up, times so many; at most window.MaxUnits.
func scale(n, per, times int64) int64 {
	if per > 1 && n > 0 {
		n = (n-1)/per + 1
	}
	if times > 1 {
		high, low := bits.Mul64(uint64(n), uint64(times))
		if high > 0 || low > window.MaxUnits {
			return window.MaxUnits
		}
		n = int64(low)
	}
	return n
}
