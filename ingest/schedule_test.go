package ingest

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func TestSchedule(t *testing.T) {
	for _, tt := range []struct {
		name       string
		expression string
		zone       string
		after      string
		due        []string
	}{
		{"every six hours", "15 */6 * * *", "", "2026-11-20T05:00:00Z", []string{
			"2026-11-20T06:15:00Z", "2026-11-20T12:15:00Z", "2026-11-20T18:15:00Z", "2026-11-21T00:15:00Z",
		}},
		{"hours are the zone's", "0 9 * * *", "America/Los_Angeles", "2026-11-20T00:00:00Z", []string{
			"2026-11-20T17:00:00Z", "2026-11-21T17:00:00Z",
		}},
		{"an hour that is skipped is due when the jump is over", "30 2 * * *", "America/Los_Angeles", "2026-03-07T12:00:00Z", []string{
			"2026-03-08T10:00:00Z", "2026-03-09T09:30:00Z",
		}},
		{"an hour that comes twice counts once", "30 1 * * *", "America/Los_Angeles", "2026-10-31T12:00:00Z", []string{
			"2026-11-01T08:30:00Z", "2026-11-02T09:30:00Z",
		}},
		{"between the two it is not due again", "30 1 * * *", "America/Los_Angeles", "2026-11-01T08:45:00Z", []string{
			"2026-11-02T09:30:00Z",
		}},
		{"half-hours run through the hour that comes twice", "*/30 * * * *", "America/Los_Angeles", "2026-11-01T07:45:00Z", []string{
			"2026-11-01T08:00:00Z", "2026-11-01T08:30:00Z", "2026-11-01T09:00:00Z", "2026-11-01T09:30:00Z", "2026-11-01T10:00:00Z",
		}},
		{"half-hours run over the hour that is missing", "*/30 * * * *", "America/Los_Angeles", "2026-03-08T09:15:00Z", []string{
			"2026-03-08T09:30:00Z", "2026-03-08T10:00:00Z", "2026-03-08T10:30:00Z",
		}},
		{"a zone that changes at midnight", "0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", []string{
			"2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z",
		}},
		{"every names no first instant", "@every 90m", "", "2026-11-20T01:00:00Z", []string{
			"2026-11-20T01:30:00Z", "2026-11-20T03:00:00Z",
		}},
		{"the 29th of February", "0 0 29 2 *", "", "2026-11-20T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
		{"daily", "@daily", "", "2026-11-20T00:00:00Z", []string{"2026-11-21T00:00:00Z"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := ParseSchedule(tt.expression, tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, tt.after)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.due {
				at = s.Next(at)
				if got := at.UTC().Format(time.RFC3339); got != want {
					t.Fatalf("due at %s, want %s", got, want)
				}
			}
		})
	}
}

// TestScheduleNeverGoesBack walks schedules through a year of every zone's jumps.
func TestScheduleNeverGoesBack(t *testing.T) {
	for _, expression := range []string{"30 2 * * *", "*/20 * * * *", "0 0,1,2,3 * * 0", "59 23 * * *"} {
		for _, zone := range []string{"America/Los_Angeles", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "Asia/Kolkata"} {
			s, err := ParseSchedule(expression, zone)
			if err != nil {
				t.Fatal(err)
			}
			at, end := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
			for at.Before(end) {
				next := s.Next(at)
				if !next.After(at) || next.Sub(at) > 8*24*time.Hour {
					t.Fatalf("%s: after %s due at %s", s, at, next)
				}
				at = next
			}
		}
	}
}

func TestScheduleRefused(t *testing.T) {
	for _, tt := range []struct{ name, expression, zone, want string }{
		{"empty", " ", "", "is empty"},
		{"never", "0 0 31 2 *", "", "never due"},
		{"four fields", "* * * *", "", "five fields"},
		{"panics the parser", "CRON_TZ=UTC", "", "give the zone beside"},
		{"panics the parser, too", "TZ=0", "", "give the zone beside"},
		{"a zone inside", "CRON_TZ=UTC 0 0 * * *", "", "give the zone beside"},
		{"minute 60", "60 * * * *", "", "above maximum"},
		{"no such zone", "0 0 * * *", "Mars/Olympus", "there is no zone"},
		{"the machine's zone", "0 0 * * *", "Local", "depends on the machine"},
		{"every nothing", "@every 0s", "", "once a minute at most"},
		{"every second", "@every 1s", "", "once a minute at most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseSchedule(tt.expression, tt.zone)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add("15 */6 * * *", "UTC")
	f.Add("@every 1h", "")
	f.Add("0 0 29 2 *", "Europe/Berlin")
	f.Fuzz(func(t *testing.T, expression, zone string) {
		s, err := ParseSchedule(expression, zone)
		if err != nil {
			return
		}
		at := time.Date(2026, 10, 31, 12, 0, 0, 0, time.UTC)
		for range 3 {
			next := s.Next(at)
			if !next.After(at) {
				t.Fatalf("%s: after %s due at %s", s, at, next)
			}
			at = next
		}
	})
}

func TestLastTimeDue(t *testing.T) {
	for _, tt := range []struct{ expression, zone, at, want string }{
		{"* * * * *", "", "2026-11-20T05:00:30Z", "2026-11-20T05:00:00Z"},
		{"15 */6 * * *", "", "2026-11-20T05:00:00Z", "2026-11-20T00:15:00Z"},
		{"15 */6 * * *", "", "2026-11-20T06:15:00Z", "2026-11-20T06:15:00Z"},
		{"0 9 * * *", "America/Los_Angeles", "2026-11-20T16:59:59Z", "2026-11-19T17:00:00Z"},
		{"@monthly", "", "2026-11-30T00:00:00Z", "2026-11-01T00:00:00Z"},
		{"0 0 29 2 *", "", "2026-11-20T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"@every 90m", "", "2026-11-20T01:00:00Z", "2026-11-20T00:00:00Z"},
		{"@hourly", "", "2026-11-20T01:00:00.5Z", "2026-11-20T01:00:00Z"},
	} {
		s, err := ParseSchedule(tt.expression, tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Last(at).UTC().Format(time.RFC3339Nano); got != tt.want {
			t.Errorf("%s at %s: last due at %s, want %s", tt.expression, tt.at, got, tt.want)
		}
	}
}
