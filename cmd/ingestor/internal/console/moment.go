package console

import (
	"fmt"
	"time"
)

// Stamp formats an instant for people, in the zone of the machine.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04 MST")
}

// Span formats a duration with its two largest units.
func Span(d time.Duration) string {
	d = max(d, 0)
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return twoUnits(int64(d/day), "d", int64(d%day/time.Hour), "h")
	case d >= time.Hour:
		return twoUnits(int64(d/time.Hour), "h", int64(d%time.Hour/time.Minute), "m")
	case d >= time.Minute:
		return twoUnits(int64(d/time.Minute), "m", int64(d%time.Minute/time.Second), "s")
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

func twoUnits(a int64, unit string, b int64, part string) string {
	if b == 0 {
		return fmt.Sprintf("%d%s", a, unit)
	}
	return fmt.Sprintf("%d%s%d%s", a, unit, b, part)
}

// Length formats a duration, to the millisecond where it is short.
func Length(d time.Duration) string {
	if d < time.Minute {
		return d.String()
	}
	return Span(d)
}
