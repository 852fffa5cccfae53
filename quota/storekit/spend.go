package storekit

import (
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// SpendDays is how many days a store keeps spend at least.
const SpendDays = 30

// MaxSpendLabels is how many sets of labels a store tells apart per pool and day. It
// counts later ones under [quota.OtherLabels].
const MaxSpendLabels = 2000

// DayOf returns the day of a zone's calendar that an instant falls in; nil is
// UTC.
func DayOf(at window.Instant, zone *time.Location) (start, end window.Instant) {
	if zone == nil {
		zone = time.UTC
	}
	return window.Spec{Period: window.Day, Zone: zone}.Bounds(at)
}

// DayName names the day of a zone's calendar that an instant falls in:
// 2026-11-20.
func DayName(at window.Instant, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return at.Time().In(zone).Format(time.DateOnly)
}

// Covers reports whether a query asks for a day of a zone's calendar.
func Covers(q quota.SpendQuery, day string, zone *time.Location) bool {
	if !q.Since.IsZero() && day < DayName(window.At(q.Since), zone) {
		return false
	}
	return q.Until.IsZero() || day <= DayName(window.At(q.Until), zone)
}
