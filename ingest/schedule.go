package ingest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule says when a job is due. It keeps no state, so it works with any clock.
type Schedule struct {
	expression string
	zone       *time.Location
	every      time.Duration // of "@every 30m"; otherwise zero
	fields     cron.Schedule
	fixedHours bool // it names hours, and is due once at each, also on days of 23 and 25 hours
}

// ParseSchedule parses a cron expression of five fields, or one of @hourly, @daily, @weekly,
// @monthly and @every 30m. Its hours are in the zone. An empty zone means UTC.
// ParseSchedule returns an error if the schedule would never be due.
func ParseSchedule(expression, zone string) (Schedule, error) {
	s := Schedule{expression: strings.Join(strings.Fields(expression), " ")}
	var err error
	if s.zone, err = parseZone(zone); err != nil {
		return Schedule{}, err
	}
	switch {
	case s.expression == "":
		return Schedule{}, errors.New(`the schedule is empty; write a cron expression, such as "15 */6 * * *"`)
	case strings.Contains(s.expression, "TZ="):
		return Schedule{}, fmt.Errorf("schedule %q: give the zone beside the schedule, as zone: America/Los_Angeles", s.expression)
	}
	if s.fields, err = parseFields(s.expression); err != nil {
		return Schedule{}, fmt.Errorf("schedule %q: %w", s.expression, err)
	}
	switch f := s.fields.(type) {
	case cron.ConstantDelaySchedule:
		s.every = f.Delay
		if s.every < time.Minute {
			return Schedule{}, fmt.Errorf("schedule %q: a job can be due once a minute at most; write @every 1m or more", s.expression)
		}
	case *cron.SpecSchedule:
		f.Location = time.UTC
		s.fixedHours = f.Hour&allHours != allHours
		if f.Next(time.Unix(0, 0).UTC()).IsZero() {
			return Schedule{}, fmt.Errorf("schedule %q is never due: there is no such day", s.expression)
		}
	}
	return s, nil
}

// allHours are the bits that package cron sets for an hour field of *.
const allHours = 1<<24 - 1

// parseFields parses an expression. It turns a panic of the parser into an error.
func parseFields(expression string) (s cron.Schedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("this is not a cron expression")
		}
	}()
	s, err = cron.ParseStandard(expression)
	if err != nil {
		return nil, fmt.Errorf("%w; write five fields: minute, hour, day of month, month, day of week", err)
	}
	return s, nil
}

func parseZone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if name == "Local" {
		return nil, errors.New("zone Local depends on the machine; name one, such as Europe/Berlin")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("there is no zone %q; write one such as America/Los_Angeles", name)
	}
	return zone, nil
}

// String returns the expression and its zone.
func (s Schedule) String() string {
	if s.zone == nil || s.zone == time.UTC || s.every > 0 {
		return s.expression
	}
	return s.expression + " " + s.zone.String()
}

// Next returns the first instant after t at which the schedule is due.
//
// If the clock of the zone jumps forward over a named hour, the schedule is due right after
// the jump. If the clock falls back, a named hour counts only the first time. A schedule
// that names no hours, as "*/30 * * * *", is due in every hour.
func (s Schedule) Next(t time.Time) time.Time {
	switch {
	case s.fields == nil:
		return time.Time{}
	case s.every > 0: // counted from midnight of 1970, so that a restart changes nothing
		return t.UTC().Truncate(s.every).Add(s.every)
	case !s.fixedHours:
		return s.nextMinute(t)
	}
	for wall := wallClock(t.In(s.zone)).Add(-time.Hour); ; { // -1h: t may be in an hour that occurs twice
		wall = s.fields.Next(wall)
		if due := s.fromWallClock(wall); due.After(t) {
			return due
		}
	}
}

// lookBack is how far Last looks back, in steps. A schedule that is due every minute is
// found in the first step, one for 29 February in the last.
var lookBack = []time.Duration{2 * time.Hour, 48 * time.Hour, 32 * 24 * time.Hour, 366 * 24 * time.Hour, 9 * 366 * 24 * time.Hour}

// Last returns the last instant at or before t at which the schedule was due. It returns
// zero if there was none in nine years.
func (s Schedule) Last(t time.Time) (last time.Time) {
	for _, back := range lookBack {
		for due := s.Next(t.Add(-back)); !due.IsZero() && !due.After(t); due = s.Next(due) {
			last = due
		}
		if !last.IsZero() {
			return last
		}
	}
	return last
}

// longestDay is the length of a day on which the clock falls back.
const longestDay = 25 * time.Hour

// star is the bit that package cron sets in a field of *.
const star = 1 << 63

// skipsDays reports whether the schedule skips a day of the year.
func (s Schedule) skipsDays() bool {
	if f, is := s.fields.(*cron.SpecSchedule); is && f.Dom&f.Month&f.Dow&star != 0 {
		return false // without a look at each hour of a year, at each start of the program
	}
	at := s.Next(time.Unix(0, 0))
	for end := at.AddDate(1, 0, 0); at.Before(end); {
		next := s.Next(at)
		if next.Sub(at) > longestDay {
			return true
		}
		if at = at.Add(time.Hour); at.Before(next) {
			at = next
		}
	}
	return false
}

// nextMinute finds the next due minute of a schedule that names no hours.
func (s Schedule) nextMinute(t time.Time) time.Time {
	wall := wallClock(t.In(s.zone))
	ahead := s.fields.Next(wall).Sub(wall)
	due := t.Truncate(time.Second).Add(ahead).UTC()
	if wallClock(due.In(s.zone)).Sub(wall) == ahead {
		return due
	}
	// the clock of the zone jumps in between, so go minute by minute
	for due = t.UTC().Truncate(time.Minute).Add(time.Minute); !s.due(due); {
		due = due.Add(time.Minute)
	}
	return due
}

func (s Schedule) due(t time.Time) bool {
	wall := wallClock(t.In(s.zone))
	return s.fields.Next(wall.Add(-time.Second)).Equal(wall)
}

// wallClock returns the local time of t as if it were UTC, where no hour is missing and
// none occurs twice.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// fromWallClock returns the first instant at which a clock in the zone shows this local
// time, or a later one.
func (s Schedule) fromWallClock(wall time.Time) time.Time {
	for _, before := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		_, offset := wall.Add(-before).In(s.zone).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second)
		if wallClock(t.In(s.zone)).Equal(wall) {
			return t
		}
	}
	// the local time is skipped: return the instant after the gap
	_, offset := wall.Add(-24 * time.Hour).In(s.zone).Zone()
	start, _ := wall.Add(-time.Duration(offset) * time.Second).In(s.zone).ZoneBounds()
	return start.UTC()
}
