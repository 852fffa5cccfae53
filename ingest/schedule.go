package ingest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule says when a job is due. Schedules are compared with a clock that may
// stand anywhere: nothing in them remembers a run.
type Schedule struct {
	expression string
	zone       *time.Location
	every      time.Duration // of "@every 30m"; zero for the others
	fields     cron.Schedule
	fixedHours bool // it names hours: due once at each, also on days of 23 and 25 hours
}

// ParseSchedule reads a cron expression of five fields, or one of @hourly,
// @daily, @weekly, @monthly and @every 30m. Its hours are those of the zone; an
// empty zone is UTC. A schedule that would never be due is refused.
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
			return Schedule{}, fmt.Errorf("schedule %q: a job is due every minute at most; write at least a minute", s.expression)
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

// allHours are the bits that cron sets for an hour field of *.
const allHours = 1<<24 - 1

// parseFields turns what the parser panics about into an error, too.
func parseFields(expression string) (s cron.Schedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("this is no cron expression")
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
// Where a zone's clock jumps ahead over a named hour, it is due when the jump is
// over; where it falls back, a named hour counts the first time only. Hours that
// are not named, as in "*/30 * * * *", are all there.
func (s Schedule) Next(t time.Time) time.Time {
	switch {
	case s.fields == nil:
		return time.Time{}
	case s.every > 0: // from midnight of 1970, so that a restart changes nothing
		return t.UTC().Truncate(s.every).Add(s.every)
	case !s.fixedHours:
		return s.stepping(t)
	}
	for wall := onTheWall(t.In(s.zone)).Add(-time.Hour); ; { // -1h: t may be in the hour that comes twice
		wall = s.fields.Next(wall)
		if due := s.offTheWall(wall); due.After(t) {
			return due
		}
	}
}

// lookBack is how far Last looks, each further than the one before: schedules that
// are due every minute are found in the first, those of a 29 February in the last.
var lookBack = []time.Duration{2 * time.Hour, 48 * time.Hour, 32 * 24 * time.Hour, 366 * 24 * time.Hour, 9 * 366 * 24 * time.Hour}

// Last returns the last instant at or before t at which the schedule was due, or
// zero if there was none in years.
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

// longestDay is how long a day is on which the clock falls back.
const longestDay = 25 * time.Hour

// rests reports whether there is a day of the year on which the schedule is not due.
func (s Schedule) rests() bool {
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

// stepping finds the next due minute in a zone whose hours are all allowed.
func (s Schedule) stepping(t time.Time) time.Time {
	wall := onTheWall(t.In(s.zone))
	ahead := s.fields.Next(wall).Sub(wall)
	due := t.Truncate(time.Second).Add(ahead).UTC()
	if onTheWall(due.In(s.zone)).Sub(wall) == ahead {
		return due
	}
	// the zone's clock jumps in between: go minute by minute
	for due = t.UTC().Truncate(time.Minute).Add(time.Minute); !s.due(due); {
		due = due.Add(time.Minute)
	}
	return due
}

// due reports whether the schedule is due at a full minute.
func (s Schedule) due(t time.Time) bool {
	wall := onTheWall(t.In(s.zone))
	return s.fields.Next(wall.Add(-time.Second)).Equal(wall)
}

// onTheWall returns what a clock on the wall shows, as if it hung in Greenwich,
// where no hour is missing and none comes twice.
func onTheWall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// offTheWall returns the first instant at which the wall's clock in the zone
// shows this, or something later.
func (s Schedule) offTheWall(wall time.Time) time.Time {
	for _, before := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		_, offset := wall.Add(-before).In(s.zone).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second)
		if onTheWall(t.In(s.zone)).Equal(wall) {
			return t
		}
	}
	// in the gap: the instant at which it ends
	_, offset := wall.Add(-24 * time.Hour).In(s.zone).Zone()
	start, _ := wall.Add(-time.Duration(offset) * time.Second).In(s.zone).ZoneBounds()
	return start.UTC()
}
