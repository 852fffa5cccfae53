package plan

import (
	"fmt"
	"time"
)

const (
	upstream = "youtube"
	pacific  = "America/Los_Angeles" // whose days the upstream counts by

	// MaxDays is how long a plan may be.
	MaxDays = 366

	// A plan begins in these years: before, the simulated upstream has not all of its
	// channels yet, and far behind no schedule has a next time.
	firstYear, lastYear = 2024, 2999
)

// midnight is when the day of an instant begins, or one that is some days later.
func midnight(t time.Time, zone *time.Location, days int) time.Time {
	t = t.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day()+days, 0, 0, 0, 0, zone)
}

// BeginOf is when a day of the upstream's calendar begins, of the years in which a plan
// can.
func BeginOf(text string) (time.Time, error) {
	zone, err := time.LoadLocation(pacific)
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.ParseInLocation(time.DateOnly, text, zone)
	if err != nil {
		return t, fmt.Errorf("%q is no day; write it as 2027-03-01", text)
	}
	return t, begins(t)
}

// begins says why no plan can begin at an instant.
func begins(t time.Time) error {
	if year := t.Year(); year < firstYear || year > lastYear {
		return fmt.Errorf("a plan begins in the years %d to %d, not in %d", firstYear, lastYear, year)
	}
	return nil
}
