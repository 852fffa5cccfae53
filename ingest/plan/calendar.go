package plan

import (
	"fmt"
	"time"
)

const (
	upstream = "youtube"
	pacific  = "America/Los_Angeles" // the upstream counts days in this zone

	// MaxDays is the largest number of days of a plan.
	MaxDays = 366

	// A plan begins in these years. Before them the simulated upstream lacks some of its
	// channels. Long after them a schedule has no next time.
	firstYear, lastYear = 2024, 2999
)

// midnight returns the beginning of the day of t, or of a day some days later.
func midnight(t time.Time, zone *time.Location, days int) time.Time {
	t = t.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day()+days, 0, 0, 0, 0, zone)
}

// ParseDay returns the beginning of a day of the upstream's calendar, such as 2027-03-01.
// It returns an error if no plan can begin then.
func ParseDay(text string) (time.Time, error) {
	zone, err := time.LoadLocation(pacific)
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.ParseInLocation(time.DateOnly, text, zone)
	if err != nil {
		return t, fmt.Errorf("%q is not a day; write it as 2027-03-01", text)
	}
	return t, checkStart(t)
}

// checkStart returns an error if no plan can begin at an instant.
func checkStart(t time.Time) error {
	if year := t.Year(); year < firstYear || year > lastYear {
		return fmt.Errorf("a plan begins in the years %d to %d, not in %d", firstYear, lastYear, year)
	}
	return nil
}
