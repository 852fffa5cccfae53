package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// stamp writes an instant for people, in the zone of the machine.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04 MST")
}

// span writes how long something takes, in its two largest units.
func span(d time.Duration) string {
	d = max(d, 0)
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return two(int64(d/day), "d", int64(d%day/time.Hour), "h")
	case d >= time.Hour:
		return two(int64(d/time.Hour), "h", int64(d%time.Hour/time.Minute), "m")
	case d >= time.Minute:
		return two(int64(d/time.Minute), "m", int64(d%time.Minute/time.Second), "s")
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

func two(a int64, unit string, b int64, part string) string {
	if b == 0 {
		return fmt.Sprintf("%d%s", a, unit)
	}
	return fmt.Sprintf("%d%s%d%s", a, unit, b, part)
}

// parseSpan reads 90s, 6h and, as time.ParseDuration does not, 7d.
func parseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no length of time; write it as 90s, 6h or 7d", text)
	}
	return d, nil
}

// parseMoment reads a day, an instant, or how long ago it was.
func parseMoment(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if d, err := parseSpan(text); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is no time; write a day as 2026-11-01, an instant as 2026-11-01T12:00:00Z, or how long ago as 7d or 12h", text)
}
