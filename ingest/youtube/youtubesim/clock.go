package youtubesim

import (
	"time"
	_ "time/tzdata" // for machines without time zone files
)

// systemClock returns the machine's time. Only it uses time.Now in this package.
func systemClock() time.Time { return time.Now() }

// pacific is the zone of the upstream's day.
var pacific = mustLoad("America/Los_Angeles")

func mustLoad(zone string) *time.Location {
	l, err := time.LoadLocation(zone)
	if err != nil {
		panic(err) // it is built in
	}
	return l
}

// dayOf returns the name, the start and the end of the Pacific day of a time. Twice a year
// the day has 23 or 25 hours.
func dayOf(t time.Time) (name string, begins, ends time.Time) {
	t = t.In(pacific)
	y, m, d := t.Date()
	begins = time.Date(y, m, d, 0, 0, 0, 0, pacific)
	ends = time.Date(y, m, d+1, 0, 0, 0, 0, pacific)
	return begins.Format(time.DateOnly), begins, ends
}
