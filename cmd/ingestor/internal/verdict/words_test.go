package verdict

import (
	"testing"
	"time"
)

// page is the state of a page at 20:00 UTC.
var page = &State{Now: time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)}

func TestTimesSayTheirDayUnlessItIsToday(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                     "20:00 UTC (now)",
		29 * time.Second:      "20:00 UTC (now)",
		30 * time.Second:      "20:00 UTC (in 30 s)",
		-90 * time.Minute:     "18:30 UTC (1 h 30 min ago)",
		4 * time.Hour:         "00:00 UTC tomorrow (in 4 h)",
		-20*time.Hour - 1:     "23:59 UTC yesterday (20 h ago)",
		3 * 24 * time.Hour:    "20:00 UTC on 23 November (in 3 days)",
		60 * 24 * time.Hour:   "20:00 UTC on 19 January 2027 (in 60 days)",
		-400 * 24 * time.Hour: "20:00 UTC on 16 October 2025 (400 days ago)",
	} {
		if got := Say(page.Moment(page.Now.Add(d))).String(); got != want {
			t.Errorf("%s from now is %q, not %q", d, got, want)
		}
	}
}

func TestSpansHaveTwoPlacesAtMost(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "under 1 s", 400 * time.Millisecond: "under 1 s", time.Second: "1 s", 59 * time.Second: "59 s", time.Minute: "1 min", 119 * time.Second: "1 min",
		time.Hour: "1 h", 90 * time.Minute: "1 h 30 min", 10*time.Hour + 29*time.Minute: "10 h", 47*time.Hour + 30*time.Minute: "48 h",
		48 * time.Hour: "2 days", 1000 * 24 * time.Hour: "1,000 days",
	} {
		if got := Span(d); got != want {
			t.Errorf("%s is %q, not %q", d, got, want)
		}
	}
}

func TestListsNameTheFirstFive(t *testing.T) {
	for want, names := range map[string][]string{
		"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}, "a, b, c, d and e": {"a", "b", "c", "d", "e"},
		"a, b, c, d, e and 2 more": {"a", "b", "c", "d", "e", "f", "g"},
	} {
		if got := List(names); got != want {
			t.Errorf("%v is %q, not %q", names, got, want)
		}
	}
}

func TestThingsAreCounted(t *testing.T) {
	for n, want := range map[int64]string{0: "0 units", 1: "1 unit", 2: "2 units", 1234: "1,234 units"} {
		if got := Count(n, "unit"); got != want {
			t.Errorf("it is %q, not %q", got, want)
		}
	}
}
