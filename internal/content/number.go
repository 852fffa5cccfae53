package content

import (
	"math"
	"math/bits"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
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

// mostText is the largest number of units.
var mostText = strconv.FormatInt(window.MaxUnits, 10)

// huge reports whether a text is a number above any quota.
func huge(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" || text[0] < '0' || text[0] > '9' || strings.Trim(text, "0123456789.eE+-") != "" {
		return false
	}
	f, _ := strconv.ParseFloat(text, 64)
	return f > float64(window.MaxUnits)
}

// add returns a + b, at most window.MaxUnits.
func add(a, b int64) int64 { return min(a+b, window.MaxUnits) }

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

// passed is the time to go of a time that has come.
const passed = time.Duration(-1)

// Time reads a time in one form: an instant by the upstream's clock, or the time to
// go. That is negative if the time has come: an upstream writes 0, a negative time, or a date
// of long ago. Time returns false for -1, which means none, and for a time too far off to be
// meant.
func Time(as book.TimeForm, text string) (until time.Time, wait time.Duration, ok bool) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil && (n == 0 || n < 0 && n != -1 && n >= -year9999) {
		return time.Time{}, passed, true // in each form that is a number
	}
	n, isNumber := fraction(text)
	unit := unitOf[as]
	switch as {
	case book.UnixTime, book.UnixMillis:
		if seconds := n * unit.Seconds(); isNumber && seconds <= year9999 {
			until = time.UnixMicro(int64(seconds * 1e6))
		}
		return until, 0, sensible(until)
	case book.SecondsToGo, book.MinutesToGo, book.RetryAfterTime:
		if isNumber && n*float64(unit) <= float64(book.MaxBlock) {
			return until, time.Duration(n * float64(unit)), true
		}
		if as == book.RetryAfterTime {
			return dated(http.ParseTime(text))
		}
	case book.DurationToGo:
		d, err := time.ParseDuration(text)
		if d <= 0 {
			d = passed
		}
		return until, d, err == nil && d <= book.MaxBlock
	case book.RFC3339Time:
		return dated(time.Parse(time.RFC3339Nano, strings.ToUpper(text)))
	case book.HTTPDate:
		return dated(http.ParseTime(text))
	}
	return until, 0, false
}

// unitOf has the units of the forms that are numbers.
var unitOf = map[book.TimeForm]time.Duration{
	book.UnixTime: time.Second, book.UnixMillis: time.Millisecond, book.SecondsToGo: time.Second, book.MinutesToGo: time.Minute, book.RetryAfterTime: time.Second,
}

func fraction(text string) (float64, bool) {
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

const (
	year2000 = 946_684_800 // dates before it stand for none
	year2001 = 1_000_000_000
	year9999 = 253_402_300_799
)

func dated(until time.Time, err error) (time.Time, time.Duration, bool) {
	if err == nil && until.Unix() < year2000 {
		return time.Time{}, passed, true
	}
	return until, 0, err == nil && sensible(until)
}

// sensible reports whether an upstream can mean an instant: not a small number that is no
// time since 1970.
func sensible(t time.Time) bool {
	return t.Unix() >= year2001 && t.Unix() <= year9999
}
