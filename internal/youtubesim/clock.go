package youtubesim

import (
	"time"
	_ "time/tzdata" // so that the Pacific day is known on a machine that has no files of zones
)

// systemClock is the machine's clock: this package's one use of time.Now.
func systemClock() time.Time { return time.Now() }

// pacific is where the upstream's day begins.
var pacific = mustLoad("America/Los_Angeles")

func mustLoad(zone string) *time.Location {
	l, err := time.LoadLocation(zone)
	if err != nil {
		panic(err) // it is built in
	}
	return l
}

// dayOf names the Pacific day of a time and says when it begins and ends, which
// twice a year is 23 or 25 hours later.
func dayOf(t time.Time) (name string, begins, ends time.Time) {
	t = t.In(pacific)
	y, m, d := t.Date()
	begins = time.Date(y, m, d, 0, 0, 0, 0, pacific)
	ends = time.Date(y, m, d+1, 0, 0, 0, 0, pacific)
	return begins.Format(time.DateOnly), begins, ends
}
