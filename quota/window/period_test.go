package window

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// bounds is a period that is known from elsewhere: at lies in it.
type bounds struct{ zone, at, start, end string }

func testBounds(t *testing.T, p Period, table []bounds) {
	t.Helper()
	for _, c := range table {
		s := normal(t, Spec{Period: p, Zone: zone(t, c.zone)})
		at, from, to := on(t, c.at), on(t, c.start), on(t, c.end)
		for _, probe := range []Instant{at, from, to - 1} {
			if start, end := s.Bounds(probe); start != from || end != to {
				t.Errorf("%s at %s: %s to %s, want %s to %s", s, probe.Time().Format(time.RFC3339Nano),
					start.Time().Format(time.RFC3339), end.Time().Format(time.RFC3339), c.start, c.end)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	t.Run("a_spring_day_has_23_hours_and_an_autumn_day_25", func(t *testing.T) {
		testBounds(t, Day, []bounds{
			{"America/Los_Angeles", "2026-03-07T12:00:00-08:00", "2026-03-07T08:00:00Z", "2026-03-08T08:00:00Z"},
			{"America/Los_Angeles", "2026-03-08T12:00:00-07:00", "2026-03-08T08:00:00Z", "2026-03-09T07:00:00Z"},
			{"America/Los_Angeles", "2026-11-01T01:30:00-07:00", "2026-11-01T07:00:00Z", "2026-11-02T08:00:00Z"},
			{"America/Los_Angeles", "2026-11-01T01:30:00-08:00", "2026-11-01T07:00:00Z", "2026-11-02T08:00:00Z"},
			{"Africa/Casablanca", "2026-02-15T12:00:00Z", "2026-02-14T23:00:00Z", "2026-02-16T00:00:00Z"},
			{"Africa/Casablanca", "2026-03-22T12:00:00Z", "2026-03-22T00:00:00Z", "2026-03-22T23:00:00Z"},
		})
	})
	t.Run("where_midnight_does_not_exist_a_day_begins_after_the_gap", func(t *testing.T) {
		testBounds(t, Day, []bounds{
			{"America/Sao_Paulo", "2017-10-15T12:00:00Z", "2017-10-15T03:00:00Z", "2017-10-16T02:00:00Z"},
			{"Africa/Cairo", "2024-04-26T12:00:00Z", "2024-04-25T22:00:00Z", "2024-04-26T21:00:00Z"},
			{"Asia/Beirut", "2024-03-31T12:00:00Z", "2024-03-30T22:00:00Z", "2024-03-31T21:00:00Z"},
			{"America/Havana", "2024-03-10T12:00:00Z", "2024-03-10T05:00:00Z", "2024-03-11T04:00:00Z"},
			{"America/Toronto", "1919-03-31T12:00:00Z", "1919-03-31T04:30:00Z", "1919-04-01T04:00:00Z"}, // from 23:30 to 00:30
		})
	})
	t.Run("where_the_date_falls_back_the_second_midnight_counts", func(t *testing.T) {
		testBounds(t, Day, []bounds{
			{"America/Sao_Paulo", "2018-02-17T12:00:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},
			{"Africa/Cairo", "2024-10-31T12:00:00Z", "2024-10-30T21:00:00Z", "2024-10-31T22:00:00Z"},
			{"Asia/Beirut", "2024-10-26T12:00:00Z", "2024-10-25T21:00:00Z", "2024-10-26T22:00:00Z"},
			// At 00:01 the clock goes back to 23:01: the 29th has been there for a minute.
			{"America/St_Johns", "2006-10-29T02:30:30Z", "2006-10-28T02:30:00Z", "2006-10-29T03:30:00Z"},
			{"America/St_Johns", "2006-04-02T12:00:00Z", "2006-04-02T03:30:00Z", "2006-04-03T02:30:00Z"},
		})
	})
	t.Run("where_only_the_first_hour_repeats_the_first_midnight_counts", func(t *testing.T) {
		testBounds(t, Day, []bounds{
			{"America/Havana", "2024-11-03T04:30:00Z", "2024-11-03T04:00:00Z", "2024-11-04T05:00:00Z"},
			{"America/Havana", "2024-11-03T05:30:00Z", "2024-11-03T04:00:00Z", "2024-11-04T05:00:00Z"},
		})
	})
	t.Run("a_date_that_a_zone_skips_has_no_day", func(t *testing.T) {
		testBounds(t, Day, []bounds{
			{"Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
			{"Pacific/Apia", "2011-12-30T11:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		})
		testBounds(t, Month, []bounds{{"Pacific/Apia", "2011-12-30T11:00:00Z", "2011-12-01T10:00:00Z", "2011-12-31T10:00:00Z"}})
	})
	t.Run("offsets_of_any_size", func(t *testing.T) {
		testBounds(t, Day, []bounds{
			{"Antarctica/Troll", "2026-03-29T12:00:00Z", "2026-03-29T00:00:00Z", "2026-03-29T22:00:00Z"},
			{"Antarctica/Troll", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-26T00:00:00Z"},
			{"Australia/Lord_Howe", "2026-04-05T00:00:00Z", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"},
			{"Australia/Lord_Howe", "2026-10-04T00:00:00Z", "2026-10-03T13:30:00Z", "2026-10-04T13:00:00Z"},
			{"Asia/Kathmandu", "2026-05-05T00:00:00Z", "2026-05-04T18:15:00Z", "2026-05-05T18:15:00Z"},
			{"Pacific/Kiritimati", "2026-05-05T00:00:00Z", "2026-05-04T10:00:00Z", "2026-05-05T10:00:00Z"},
			{"Pacific/Pago_Pago", "2026-05-05T00:00:00Z", "2026-05-04T11:00:00Z", "2026-05-05T11:00:00Z"},
		})
	})
	t.Run("a_week_begins_on_monday", func(t *testing.T) {
		testBounds(t, Week, []bounds{
			{"UTC", "2026-03-01T23:59:59Z", "2026-02-23T00:00:00Z", "2026-03-02T00:00:00Z"},
			{"UTC", "2026-03-02T00:00:00Z", "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"},
			{"America/Los_Angeles", "2026-03-08T23:00:00-07:00", "2026-03-02T08:00:00Z", "2026-03-09T07:00:00Z"},
			{"UTC", "1969-12-31T12:00:00Z", "1969-12-29T00:00:00Z", "1970-01-05T00:00:00Z"},
		})
	})
	t.Run("months_have_their_own_lengths", func(t *testing.T) {
		testBounds(t, Month, []bounds{
			{"UTC", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
			{"UTC", "2100-02-28T12:00:00Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z"},
			{"UTC", "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
			{"America/Los_Angeles", "2026-03-31T23:00:00-07:00", "2026-03-01T08:00:00Z", "2026-04-01T07:00:00Z"},
		})
	})
	t.Run("hours_and_minutes_are_the_zone's", func(t *testing.T) {
		testBounds(t, Hour, []bounds{
			{"UTC", "1969-12-31T23:30:00Z", "1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z"},
			{"Asia/Kathmandu", "2026-05-05T00:00:00Z", "2026-05-04T23:15:00Z", "2026-05-05T00:15:00Z"},
			{"Australia/Lord_Howe", "2026-04-04T14:30:00Z", "2026-04-04T14:00:00Z", "2026-04-04T15:00:00Z"},
			{"Australia/Lord_Howe", "2026-04-04T15:10:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z"}, // 01:30 to 02:00 once more
			{"America/Los_Angeles", "2026-11-01T01:30:00-08:00", "2026-11-01T09:00:00Z", "2026-11-01T10:00:00Z"},
		})
		testBounds(t, Minute, []bounds{
			{"America/Los_Angeles", "2026-03-08T10:00:30Z", "2026-03-08T10:00:00Z", "2026-03-08T10:01:00Z"},
			{"America/Los_Angeles", "1850-01-01T00:00:00Z", "1849-12-31T23:59:58Z", "1850-01-01T00:00:58Z"}, // -7:52:58
		})
	})
	t.Run("the_last_day_of_a_leap_year", func(t *testing.T) {
		// where time.Time.ZoneBounds ends before it begins
		testBounds(t, Day, []bounds{
			{"America/Los_Angeles", "2028-12-31T12:00:00Z", "2028-12-31T08:00:00Z", "2029-01-01T08:00:00Z"},
			{"America/Los_Angeles", "2040-12-31T00:30:00Z", "2040-12-30T08:00:00Z", "2040-12-31T08:00:00Z"},
		})
		testBounds(t, Minute, []bounds{{"Europe/Lisbon", "2076-12-31T23:59:30Z", "2076-12-31T23:59:00Z", "2077-01-01T00:00:00Z"}})
	})
	t.Run("no_hour_is_cut_at_new_year", func(t *testing.T) {
		// where time.Time.ZoneBounds names a change of offset in every year
		testBounds(t, Hour, []bounds{
			{"Australia/Adelaide", "2044-01-01T00:10:00Z", "2043-12-31T23:30:00Z", "2044-01-01T00:30:00Z"},
			{"America/St_Johns", "2045-01-01T00:10:00Z", "2044-12-31T23:30:00Z", "2045-01-01T00:30:00Z"},
		})
	})
	t.Run("far_off_years", func(t *testing.T) {
		testBounds(t, Day, []bounds{
			{"America/Los_Angeles", "2150-07-01T12:00:00Z", "2150-07-01T07:00:00Z", "2150-07-02T07:00:00Z"},
			{"America/Los_Angeles", "2150-12-01T12:00:00Z", "2150-12-01T08:00:00Z", "2150-12-02T08:00:00Z"},
			{"UTC", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-02T00:00:00Z"},
			{"UTC", "9999-12-30T12:00:00Z", "9999-12-30T00:00:00Z", "9999-12-31T00:00:00Z"},
		})
	})
}

// oddZones have changed by more, less, or elsewhere in the day than most.
var oddZones = []string{
	"UTC", "America/Los_Angeles", "America/New_York", "America/Chicago", "America/Anchorage", "America/Juneau", "America/Sitka",
	"America/St_Johns", "America/Goose_Bay", "America/Havana", "America/Sao_Paulo", "America/Santiago", "America/Asuncion",
	"America/Caracas", "America/Bogota", "America/Nuuk", "America/Scoresbysund", "America/Mexico_City", "America/Port-au-Prince",
	"America/Argentina/San_Luis", "America/Halifax", "America/Toronto", "America/Iqaluit", "Atlantic/Azores", "Atlantic/Reykjavik",
	"Africa/Cairo", "Africa/Casablanca", "Africa/El_Aaiun", "Africa/Monrovia", "Africa/Windhoek", "Africa/Khartoum", "Africa/Tripoli",
	"Antarctica/Troll", "Antarctica/Casey", "Antarctica/Macquarie", "Europe/London", "Europe/Dublin", "Europe/Lisbon",
	"Europe/Amsterdam", "Europe/Moscow", "Europe/Istanbul", "Europe/Volgograd", "Europe/Warsaw", "Asia/Amman", "Asia/Beirut",
	"Asia/Damascus", "Asia/Gaza", "Asia/Hebron", "Asia/Jerusalem", "Asia/Tehran", "Asia/Kabul", "Asia/Kathmandu", "Asia/Kolkata",
	"Asia/Dhaka", "Asia/Yangon", "Asia/Pyongyang", "Asia/Seoul", "Asia/Tokyo", "Asia/Manila", "Asia/Singapore", "Asia/Kuala_Lumpur",
	"Asia/Dili", "Australia/Lord_Howe", "Australia/Adelaide", "Australia/Eucla", "Australia/Sydney", "Pacific/Apia",
	"Pacific/Fakaofo", "Pacific/Kwajalein", "Pacific/Kiritimati", "Pacific/Enderbury", "Pacific/Tongatapu", "Pacific/Chatham",
	"Pacific/Norfolk", "Pacific/Guam", "Pacific/Honolulu", "Pacific/Pago_Pago", "Etc/GMT+12", "Etc/GMT-14", "EST5EDT",
}

// aroundChanges draws instants of 1900 to 2150, half of them within three days
// of a change of the zone's offset.
func aroundChanges(z *time.Location) *rapid.Generator[Instant] {
	first, last := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC)
	return rapid.Custom(func(t *rapid.T) Instant {
		at := time.UnixMicro(rapid.Int64Range(first.UnixMicro(), last.UnixMicro()).Draw(t, "micros"))
		if rapid.Bool().Draw(t, "near") {
			if start, _ := at.In(z).ZoneBounds(); start.After(first) {
				at = start.Add(time.Duration(rapid.Int64Range(-3*24*3600*1e6, 3*24*3600*1e6).Draw(t, "off")) * time.Microsecond)
			}
		}
		return At(at)
	})
}

// TestNoZoneChangesTwiceWithinThreeDays is what lets Bounds look for one change.
func TestNoZoneChangesTwiceWithinThreeDays(t *testing.T) {
	for _, name := range oddZones {
		z, last := zone(t, name), int64(-1<<62)
		for unix := int64(-2.5e9); unix < 5.7e9; unix += 24 * 3600 {
			if now := offset(unix, z); now != offset(unix-24*3600, z) {
				if unix-last < 3*24*3600 {
					t.Errorf("%s changes twice before %s", name, time.Unix(unix, 0).UTC())
				}
				last = unix
			}
		}
	}
}

func TestBoundsProperties(t *testing.T) {
	sane := map[Period][2]time.Duration{
		Minute: {time.Second, time.Minute},
		Hour:   {time.Second, time.Hour},         // cut where the offset changes
		Day:    {12 * time.Hour, 48 * time.Hour}, // a station in Antarctica is founded within a day
		Week:   {6 * 24 * time.Hour, 8 * 24 * time.Hour},
		Month:  {27 * 24 * time.Hour, 32 * 24 * time.Hour},
	}
	rapid.Check(t, func(t *rapid.T) {
		for _, name := range oddZones {
			z, err := loadZone(name)
			if err != nil {
				t.Fatal(err)
			}
			at := aroundChanges(z).Draw(t, "at")
			for _, period := range []Period{Minute, Hour, Day, Week, Month} {
				s := Spec{Algorithm: ByCalendar, Period: period, Zone: z}
				where := fmt.Sprintf("%s at %s", s, at.Time().Format(time.RFC3339Nano))
				start, end := s.Bounds(at)
				if at < start || at >= end {
					t.Fatalf("%s: outside of its period, %s to %s", where, start.Time(), end.Time())
				}
				if d := end.Sub(start); d < sane[period][0] || d > sane[period][1] {
					t.Fatalf("%s: %s to %s is %s long", where, start.Time(), end.Time(), d)
				}
				for _, probe := range []Instant{start, start + 1, start + (end-start)/3, (start + end) / 2, end - (end-start)/60, end - 1} {
					if a, b := s.Bounds(probe); a != start || b != end {
						t.Fatalf("%s: %s to %s, but at %s of it %s to %s", where, start.Time(), end.Time(), probe.Time(), a.Time(), b.Time())
					}
				}
				if _, b := s.Bounds(start - 1); b != start {
					t.Fatalf("%s: begins at %s, the one before ends at %s", where, start.Time(), b.Time())
				}
				if a, _ := s.Bounds(end); a != end {
					t.Fatalf("%s: ends at %s, the one after begins at %s", where, end.Time(), a.Time())
				}
			}
		}
	})
}

// TestBoundsAgainstTheWallClock walks through the zone's wall clock minute by
// minute, as a person would who looks for the last time that it turns to a date.
func TestBoundsAgainstTheWallClock(t *testing.T) {
	reached := func(at time.Time, d date, z *time.Location) bool { return !dateOf(at.In(z)).Before(d) }
	rapid.Check(t, func(t *rapid.T) {
		z, err := loadZone(rapid.SampledFrom(oddZones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		at := aroundChanges(z).Draw(t, "at")
		start, end := Spec{Algorithm: ByCalendar, Period: Day, Zone: z}.Bounds(at)
		d := dateOf(end.Time().In(z)) // what the day after is called
		var last time.Time
		for m := d.Add(-50 * time.Hour); m.Before(d.Add(50 * time.Hour)); m = m.Add(time.Minute) {
			if next := m.Add(time.Minute); !reached(m, d, z) && reached(next, d, z) {
				for last = m; !reached(last, d, z); {
					last = last.Add(time.Second)
				}
			}
		}
		if !last.Equal(end.Time()) {
			t.Fatalf("%s: the day from %s ends at %s, but the wall clock turns to %s at %s",
				z, start.Time(), end.Time(), d.Format(time.DateOnly), last)
		}
	})
}
