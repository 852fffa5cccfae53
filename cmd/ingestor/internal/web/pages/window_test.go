package pages

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

func TestWindowsAreDescribedByTheirSpec(t *testing.T) {
	la, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		spec   window.Spec
		within string
		guard  bool
	}{
		{window.Spec{Per: 24 * time.Hour}, "in 24 h", false},
		{window.Spec{Per: 24 * time.Hour, Algorithm: window.Exact}, "in 24 h", false},
		{window.Spec{Per: 10 * time.Minute}, "in 10 min", true},
		{window.Spec{Per: 10 * time.Minute, Algorithm: window.Exact}, "in 10 min", true},
		{window.Spec{Per: time.Minute, Algorithm: window.Estimate}, "in 1 min", true},
		{window.Spec{Period: window.Minute}, "this minute", true},
		{window.Spec{Period: window.Hour, Zone: la}, "this hour", true},
		{window.Spec{Period: window.Day, Zone: la}, "since midnight Pacific", false},
		{window.Spec{Period: window.Month}, "this month", false},
	} {
		spec, err := test.spec.Normal()
		if err != nil {
			t.Fatal(err)
		}
		w := &quota.WindowUsage{WindowState: quota.WindowState{Window: spec.String()}, Spec: spec}
		if got := period(w); got != test.within {
			t.Errorf("%s is %q, want %q", spec, got, test.within)
		}
		if got := verdict.IsShort(w); got != test.guard {
			t.Errorf("%s is a guard: %t, want %t", spec, got, test.guard)
		}
	}
}

func TestAForecastOfALogIsForOneDay(t *testing.T) {
	spec, err := window.Spec{Per: 24 * time.Hour, Algorithm: window.Exact}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	u := &quota.Usage{Allowances: []quota.WindowUsage{{
		WindowState: quota.WindowState{Window: spec.String(), Used: 1, Limit: 10, ResetAt: now.Add(time.Hour)}, Spec: spec, Remaining: 9,
	}}}
	s := &state{State: &verdict.State{Now: now}}
	if f := s.forecast(u); f.Until.ISO != "2026-11-21T12:00:00Z" {
		t.Errorf("the forecast is until %s", f.Until.ISO)
	}
}
