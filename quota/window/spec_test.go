package window

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestSpec(t *testing.T) {
	const h, day = time.Hour, 24 * time.Hour
	la := zone(t, "America/Los_Angeles")

	t.Run("defaults", func(t *testing.T) {
		for _, c := range []struct {
			spec      Spec
			name      string
			layout    string
			precision time.Duration
		}{
			{Spec{Per: day}, "24h", "ring 24h0m0s 1m0s", time.Minute},
			{Spec{Per: 10 * time.Minute}, "10m", "ring 10m0s 1s", time.Second},
			{Spec{Per: h}, "1h", "ring 1h0m0s 2.5s", 2500 * time.Millisecond},
			{Spec{Per: time.Second}, "1s", "ring 1s 100ms", 100 * time.Millisecond},
			{Spec{Per: 500 * time.Millisecond}, "500ms", "ring 500ms 50ms", 50 * time.Millisecond},
			{Spec{Per: time.Millisecond}, "1ms", "ring 1ms 100µs", 100 * time.Microsecond},
			{Spec{Per: 90 * time.Second}, "90s", "ring 1m30s 1s", time.Second},
			{Spec{Per: MaxPer}, "8784h", "ring 8784h0m0s 6h6m0s", 6*h + 6*time.Minute},
			{Spec{Per: 86_399_999 * time.Millisecond}, "23h59m59.999s", "ring 23h59m59.999s 1m1.714285s", 61_714_285 * time.Microsecond},
			{Spec{Per: 1009 * time.Second}, "1009s", "ring 16m49s 1s", time.Second},
			{Spec{Per: day, Precision: h}, "24h", "ring 24h0m0s 1h0m0s", h},
			{Spec{Per: day, Algorithm: Exact}, "24h log", "log 24h0m0s 0s", 0},
			{Spec{Per: time.Minute, Algorithm: Estimate}, "1m counter", "counter 1m0s 0s", 0},
			{Spec{Per: 2 * time.Minute, Algorithm: InFlight}, "at once", "in_flight 2m0s 0s", 0},
			{Spec{Per: time.Second, Algorithm: Leaky, Rate: 50}, "50 per 1s bucket", "bucket 1s 50", 0},
			{Spec{Per: time.Minute, Late: 3 * time.Second}, "1m", "ring 1m0s 1s late 3s", time.Second},
			{Spec{Per: time.Minute, Wide: true}, "1m", "ring 1m0s 1s wide", time.Second},
			{Spec{Per: time.Minute, Late: 3 * time.Second, Wide: true}, "1m", "ring 1m0s 1s late 3s wide", time.Second},
			{Spec{Period: Day}, "day UTC", "calendar day UTC 1m0s", 0},
			{Spec{Period: Day, Zone: la}, "day America/Los_Angeles", "calendar day America/Los_Angeles 1m0s", 0},
			{Spec{Period: Minute}, "minute UTC", "calendar minute UTC 1s", 0},
			{Spec{Period: Hour}, "hour UTC", "calendar hour UTC 1m0s", 0},
			{Spec{Period: Month, Lag: h}, "month UTC", "calendar month UTC 1h0m0s", 0},
			{Spec{Period: Week, Lag: -h}, "week UTC", "calendar week UTC -1ns", 0},
			{Spec{Period: Week, Lag: -1}, "week UTC", "calendar week UTC -1ns", 0},
		} {
			s, err := c.spec.Normal()
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if s.String() != c.name {
				t.Errorf("%s: name is %q", c.name, s)
			}
			if s.Layout() != c.layout {
				t.Errorf("%s: layout is %q, want %q", c.name, s.Layout(), c.layout)
			}
			if s.Precision != c.precision {
				t.Errorf("%s: precision is %s, want %s", c.name, s.Precision, c.precision)
			}
			if again, err := s.Normal(); err != nil || again != s {
				t.Errorf("%s: normal once more it is %+v, %v", c.name, again, err)
			}
			if back, err := ParseLayout(s.Layout()); err != nil || back != s {
				t.Errorf("%s: layout reads back as %+v, %v", c.name, back, err)
			}
		}
	})

	t.Run("bad", func(t *testing.T) {
		for _, c := range []struct {
			spec Spec
			want string
		}{
			{Spec{}, "per must be above 0, is 0s"},
			{Spec{Per: -h}, "per must be above 0, is -1h0m0s"},
			{Spec{Per: MaxPer + time.Second}, "per may be at most 8784h, is 31622401s"},
			{Spec{Per: time.Second + 1}, "per must be a whole number of milliseconds, is 1.000000001s"},
			{Spec{Per: h, Precision: -h}, "precision must be at least 100µs, is -1h0m0s"},
			{Spec{Per: h, Precision: time.Microsecond}, "precision must be at least 100µs, is 1µs"},
			{Spec{Per: h, Precision: 2 * h}, "precision 2h is above per 1h"},
			{Spec{Per: h, Precision: 7 * time.Minute}, "precision 7m0s does not divide per 1h; try 450s"},
			{Spec{Per: time.Second, Precision: time.Millisecond + 1}, "precision 1.000001ms does not divide per 1s; try 1.25ms"},
			{ // a search for a divisor from 1 ms up would take minutes
				Spec{Per: 31_622_399_999 * time.Millisecond, Precision: 1001 * time.Microsecond},
				"precision 1.001ms does not divide per 8783h59m59.999s; try 8h47m2.399999s",
			},
			{Spec{Per: day, Precision: time.Second}, "precision 1s would cut 24h into 86400 buckets, at most 14400 are allowed; try 6s"},
			{Spec{Per: h, Algorithm: Exact, Precision: time.Second}, "precision belongs to a ring, not to a log"},
			{Spec{Per: h, Algorithm: Estimate, Precision: time.Second}, "precision belongs to a ring, not to a counter"},
			{Spec{Per: h, Algorithm: Exact, Late: time.Second}, "late belongs to a ring, not to a log"},
			{Spec{Per: h, Algorithm: Leaky, Rate: 1, Wide: true}, "late belongs to a ring, not to a bucket"},
			{Spec{Period: Day, Late: time.Second}, "late belongs to a ring, not to a window per day"},
			{Spec{Per: h, Late: -1}, "late may be 0s to per 1h, is -1ns"},
			{Spec{Per: h, Late: h + 1}, "late may be 0s to per 1h, is 1h0m0.000000001s"},
			{Spec{Per: h, Algorithm: Leaky}, "a bucket drains 1 to 9007199254740991 units in each 1h, not 0"},
			{Spec{Per: h, Algorithm: Leaky, Rate: MaxUnits + 1}, "a bucket drains 1 to 9007199254740991 units in each 1h, not 9007199254740992"},
			{Spec{Per: h, Rate: 5}, "a rate belongs to a bucket, not to a ring"},
			{Spec{Per: h, Zone: la}, "zone and lag belong to a window per minute, hour, day, week or month"},
			{Spec{Per: h, Lag: h}, "zone and lag belong to a window per minute, hour, day, week or month"},
			{Spec{Per: h, Algorithm: "gcra"}, `algorithm "gcra" must be ring, log, counter or bucket`},
			{Spec{Period: Day, Algorithm: Exact}, `a window per day counts by the calendar; it takes no algorithm "log"`},
			{Spec{Period: "year"}, `per "year" is no duration and none of minute, hour, day, week, month`},
			{Spec{Algorithm: ByCalendar}, `per "" is no duration and none of minute, hour, day, week, month`},
			{Spec{Period: Day, Per: h}, "a window per day takes no precision"},
			{Spec{Period: Day, Precision: h}, "a window per day takes no precision"},
			{Spec{Period: Hour, Lag: 31 * time.Minute}, "lag may be at most 30m in a window per hour, is 31m"},
			{Spec{Period: Day, Lag: 1}, "lag must be a whole number of microseconds, is 1ns"},
			{Spec{Period: Day, Zone: time.Local}, `zone "Local" is not in the IANA database; name one that is, like America/Los_Angeles`},
			{Spec{Period: Day, Zone: time.FixedZone("", 3600)}, `zone "" is not in the IANA database; name one that is, like America/Los_Angeles`},
			{Spec{Period: Day, Zone: time.FixedZone("Mars/Olympus", 99)}, `zone "Mars/Olympus" is not in the IANA database; name one that is, like America/Los_Angeles`},
		} {
			_, err := c.spec.Normal()
			if err == nil {
				t.Errorf("%+v is taken, want %q", c.spec, c.want)
			} else if err.Error() != c.want {
				t.Errorf("%+v:\n got %q\nwant %q", c.spec, err, c.want)
			}
		}
	})

	t.Run("bad_layouts", func(t *testing.T) {
		for _, text := range []string{
			"", "ring", "ring 24h", "ring 24h 1m", "ring 24h0m0s 1m0s x", "ring x 1m0s", "ring 24h0m0s x", "ring 24h0m0s 7m0s",
			"ring 1m0s 1s late 1500ms", "ring 1m0s 1s late 0s", "ring 1m0s 1s late", "ring 1m0s 1s wide late 3s", "ring 1m0s 1s wide wide",
			"log 1m0s 0s wide", "counter 1m0s 0s late 1s", "bucket 1s 0", "bucket 1s 50 wide", "bucket 1s x", "bucket 1s 050",
			"gcra 24h0m0s 0s", "log 24h0m0s 1s", "log -1h0m0s 0s", " log 24h0m0s 0s", "calendar day UTC", "calendar day UTC x",
			"calendar year UTC 1m0s", "calendar day Mars/Olympus 1m0s", "calendar day Local 1m0s", "calendar day ../etc/passwd 1m0s",
			"calendar day UTC 0s", "calendar day UTC -1h0m0s", "calendar 24h0m0s 1m0s",
		} {
			if s, err := ParseLayout(text); err == nil {
				t.Errorf("%q is read as %+v", text, s)
			} else if !strings.Contains(err.Error(), "window layout \""+text) {
				t.Errorf("%q: the error does not name it: %v", text, err)
			}
		}
	})

	t.Run("span_is_when_all_has_left", func(t *testing.T) {
		for _, s := range []Spec{
			{Per: h}, {Per: h, Late: 7 * time.Second}, {Per: h, Algorithm: Exact}, {Per: h, Algorithm: Estimate}, {Period: Minute}, {Period: Day, Zone: la}, {Period: Month},
		} {
			s = normal(t, s)
			for at := in(0); at < in(40*day); at += in(7*h+13*time.Minute) - epoch {
				w := New(s)
				w.Add(at, limit)
				if free := w.Free(at, limit, limit); free.Sub(at) > s.Span() {
					t.Errorf("%s: at %s it is free %s later, its span is %s", s, at.Time(), free.Sub(at), s.Span())
				}
			}
		}
	})
}

func TestSpecAnswersForItsAlgorithm(t *testing.T) {
	const h, day = time.Hour, 24 * time.Hour
	at := At(time.Date(2026, 11, 20, 12, 0, 3, 0, time.UTC))
	for _, c := range []struct {
		spec                Spec
		calendar, estimates bool
		length              time.Duration
		slack, before       time.Duration // at 3 seconds past noon, and 3 seconds before 1970
	}{
		{Spec{Per: day, Precision: time.Minute}, false, false, day, 57 * time.Second, 3 * time.Second},
		{Spec{Per: time.Minute, Precision: 3 * time.Second}, false, false, time.Minute, 3 * time.Second, 3 * time.Second}, // a bucket begins
		{Spec{Per: h, Algorithm: Exact}, false, false, h, 0, 0},
		{Spec{Per: h, Algorithm: Estimate}, false, true, h, 0, 0},
		{Spec{Per: time.Minute, Precision: 3 * time.Second, Late: time.Minute}, false, false, time.Minute, 3 * time.Second, 3 * time.Second},
		{Spec{Per: h, Algorithm: Leaky, Rate: 5}, false, false, h, 0, 0},
		{Spec{Period: Hour}, true, false, h, math.MaxInt64, math.MaxInt64},
		{Spec{Period: Month}, true, false, 31 * day, math.MaxInt64, math.MaxInt64},
	} {
		s, err := c.spec.Normal()
		if err != nil {
			t.Fatal(err)
		}
		if s.Calendar() != c.calendar || s.Estimates() != c.estimates || s.Length() != c.length {
			t.Errorf("%s: a calendar %t, an estimate %t, %s long", s, s.Calendar(), s.Estimates(), s.Length())
		}
		if slack, before := s.Slack(at), s.Slack(-3_000_000); slack != c.slack || before != c.before {
			t.Errorf("%s: the slack is %s, and %s before 1970; want %s and %s", s, slack, before, c.slack, c.before)
		}
	}
}

// A quota has the window that it needs, or is refused with what to do.
func TestSpecForAQuota(t *testing.T) {
	const h = time.Hour
	for _, c := range []struct {
		spec  Spec
		quota int64
		want  string // the layout, or the error
	}{
		{Spec{Per: h}, 1<<31 - 1, "ring 1h0m0s 2.5s"},
		{Spec{Per: h}, 1 << 31, "ring 1h0m0s 2.5s"},
		{Spec{Per: h}, 1<<32 - 2, "ring 1h0m0s 2.5s"},
		{Spec{Per: h}, 1<<32 - 1, "ring 1h0m0s 2.5s wide"},
		{Spec{Per: h}, MaxUnits, "ring 1h0m0s 2.5s wide"},
		{Spec{Per: h}, MaxUnits + 1, "a window has room for 9007199254740991 units, not for 9007199254740992"},
		{Spec{Per: h, Algorithm: Exact}, MaxUnits, "log 1h0m0s 0s"},
		{Spec{Period: Day}, MaxUnits, "calendar day UTC 1m0s"},
		{Spec{Per: h, Algorithm: Estimate}, 1 << 32, "counter 1h0m0s 0s"},
		{Spec{Per: h, Algorithm: Estimate}, 1<<32 + 1, "a counter has room for 4294967296 units, not for 4294967297; use a ring"},
		{Spec{Per: time.Second, Algorithm: Leaky, Rate: 1}, 9_007_199_254, "bucket 1s 1"},
		{Spec{Per: time.Second, Algorithm: Leaky, Rate: 1}, 9_007_199_255, "a bucket of 1 per 1s has room for 9007199254 units at most, not for 9007199255; " +
			"lower burst, or write the rate with a shorter per"},
		{Spec{Per: time.Millisecond, Algorithm: Leaky, Rate: 1000}, MaxUnits, "bucket 1ms 1000"},
	} {
		s, err := normal(t, c.spec).For(c.quota)
		got := s.Layout()
		if err != nil {
			got = err.Error()
		} else if s.MaxLimit() < c.quota {
			t.Errorf("%s for %d: the largest limit is %d", s, c.quota, s.MaxLimit())
		}
		if got != c.want {
			t.Errorf("%s for %d:\n got %s\nwant %s", s, c.quota, got, c.want)
		}
	}
}
