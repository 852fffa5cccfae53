package stretch

import (
	"fmt"
	"testing"
	"time"
)

// A timeline has a refusal a row: when it comes, when it may be tried again, and what the log
// then says.
func TestBegins(t *testing.T) {
	for name, rows := range map[string][]struct {
		at, retry time.Duration
		want      string
	}{
		"a short one lasts a minute": {
			{0, time.Second, "first 0"},
			{time.Second, 2 * time.Second, ""},
			{59 * time.Second, time.Minute, ""},
			{time.Minute, 61 * time.Second, "first 2"},
			{2 * time.Minute, 3 * time.Minute, "first 0"},
		},
		"as long as its first refusal says": {
			{0, 10 * time.Minute, "first 0"}, {9 * time.Minute, time.Hour, ""}, {10 * time.Minute, time.Hour, "first 1"},
		},
		"15 minutes at most":              {{0, 24 * time.Hour, "first 0"}, {15*time.Minute - 1, 24 * time.Hour, ""}, {15 * time.Minute, 24 * time.Hour, "first 1"}},
		"a clock that steps back ends it": {{0, time.Hour, "first 0"}, {-time.Minute, time.Hour, ""}, {-time.Hour, time.Hour, "first 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var s Set[string]
			noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
			for i, row := range rows {
				before, first := s.Begins("a", noon.Add(row.at), noon.Add(row.retry))
				got := ""
				if first {
					got = fmt.Sprint("first ", before)
				}
				if got != row.want {
					t.Errorf("row %d: %q, want %q", i, got, row.want)
				}
			}
		})
	}
}

func TestASetIsBounded(t *testing.T) {
	var s Set[string]
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for i := range 3 * maxStretches {
		if _, first := s.Begins(fmt.Sprint(i), now, now.Add(time.Hour)); !first {
			t.Fatal("another pool gets no line")
		}
	}
	if len(s.of) > maxStretches {
		t.Errorf("%d stretches", len(s.of))
	}
}
