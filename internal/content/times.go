package content

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
)

// Time reads a time in one form: an instant by the upstream's clock, or the time to
// go. It returns false for a negative time, and for one too far off to be meant.
func Time(as book.TimeForm, text string) (until time.Time, wait time.Duration, ok bool) {
	text = strings.TrimSpace(text)
	switch as {
	case book.UnixTime:
		return instantOf(text, time.Second)
	case book.UnixMillis:
		return instantOf(text, time.Millisecond)
	case book.SecondsToGo:
		wait, ok = toGo(text, time.Second)
	case book.MinutesToGo:
		wait, ok = toGo(text, time.Minute)
	case book.DurationToGo:
		d, err := time.ParseDuration(text)
		wait, ok = d, err == nil && d >= 0 && d <= book.MaxBlock
	case book.RFC3339Time:
		until, err := time.Parse(time.RFC3339Nano, strings.ToUpper(text))
		return until, 0, err == nil && sensible(until)
	case book.HTTPDate:
		until, err := http.ParseTime(text)
		return until, 0, err == nil && sensible(until)
	case book.RetryAfterTime:
		if wait, ok = toGo(text, time.Second); ok {
			return time.Time{}, wait, true
		}
		return Time(book.HTTPDate, text)
	}
	return time.Time{}, wait, ok
}

// toGo reads a number of units of time.
func toGo(text string, unit time.Duration) (time.Duration, bool) {
	n, ok := fraction(text)
	if most := float64(book.MaxBlock); !ok || n*float64(unit) > most {
		return 0, false
	}
	return time.Duration(n * float64(unit)), true
}

// instantOf reads units of time since 1970.
func instantOf(text string, unit time.Duration) (until time.Time, wait time.Duration, ok bool) {
	n, ok := fraction(text)
	seconds := n * unit.Seconds()
	if !ok || seconds > year9999 {
		return time.Time{}, 0, false
	}
	until = time.UnixMicro(int64(seconds * 1e6))
	return until, 0, sensible(until)
}

// fraction reads a number that is not negative.
func fraction(text string) (float64, bool) {
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

const year9999 = 253_402_300_799

// sensible reports whether an upstream can mean an instant: not a small number that is no
// time since 1970.
func sensible(t time.Time) bool {
	const year2001 = 1_000_000_000
	return t.Unix() >= year2001 && t.Unix() <= year9999
}
