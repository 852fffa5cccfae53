package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseSpan parses a duration, as [time.ParseDuration] does, and days, such as 7d.
func ParseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%.40q is not a duration; write it as 90s, 6h or 7d", text)
	}
	return d, nil
}

// ParseMoment parses a day, a time in RFC 3339, or how long ago a time was, such as 7d.
func ParseMoment(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if d, err := ParseSpan(text); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time; write a day as 2026-11-01, a time as 2026-11-01T12:00:00Z, or how long ago as 7d or 12h", text)
}
