package view_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

var (
	pacific, noZone = time.LoadLocation("America/Los_Angeles")
	losAngeles      = window.Spec{Period: window.Day, Zone: pacific}
	day24           = window.Spec{Per: 24 * time.Hour}
	log24           = window.Spec{Per: 24 * time.Hour, Algorithm: window.Exact}
)

// usage is a pool that is half used up and shut, and one that nobody has charged.
func usage() []quota.Usage {
	windowUsage := func(s window.Spec, used int64) quota.WindowUsage {
		const limit = 90
		s, err := s.Normal()
		if err != nil {
			panic(err)
		}
		w := quota.WindowUsage{
			WindowState: quota.WindowState{Window: s.String(), Used: used, Limit: limit, ResetAt: now.Add(12 * time.Hour)},
			Spec:        s, Quota: limit + 10, Headroom: 10, Remaining: limit - used,
		}
		if used > 0 {
			w.NextUnits, w.NextAt = used/2, now.Add(time.Hour)
		}
		return w
	}
	zone := time.FixedZone("PST", -8*60*60)
	return []quota.Usage{
		{
			PageState: quota.PageState{
				Pool: quota.Pool{Upstream: "maps", Account: "staging", Name: "units"}, Known: true, Now: now.In(zone), Blocked: now.Add(time.Minute).In(zone), Reason: "the console says so",
			},
			BlockedBy:  quota.BlockedByPerson,
			Allowances: []quota.WindowUsage{windowUsage(day24, 50), windowUsage(losAngeles, 40)},
		},
		{
			PageState:  quota.PageState{Pool: quota.Pool{Upstream: "maps", Account: "default", Name: "units"}, Now: now, Blocked: now, Reason: "over"},
			BlockedBy:  quota.BlockedByPerson,
			Allowances: []quota.WindowUsage{windowUsage(day24, 0), windowUsage(losAngeles, 0)},
		},
	}
}

func TestABlockThatIsOverIsNotShown(t *testing.T) {
	if p := view.Pools(usage())[1]; p.Blocked != nil || p.BlockedBy != "" || p.Reason != "" {
		t.Errorf("the pool is %+v", p)
	}
}

func TestAnUnusedWindowHasAResetOnlyIfACalendarSaysSo(t *testing.T) {
	p := view.Pools(usage())[1]
	if p.Windows[0].ResetAt != nil || p.Windows[0].NextAt != nil {
		t.Errorf("a window that slides is %+v", p.Windows[0])
	}
	if p.Windows[1].ResetAt == nil {
		t.Errorf("a calendar is %+v", p.Windows[1])
	}
}

func TestAWindowHasItsZoneOnlyWhereTwoHaveTheSamePeriod(t *testing.T) {
	p := pool(t, day24, log24, losAngeles, window.Spec{Period: window.Month})
	for i, want := range []string{"24h", "24h log", "day", "month"} {
		if got := p.Name(i); got != want {
			t.Errorf("it is called %q, not %q", got, want)
		}
	}
	p = pool(t, losAngeles, window.Spec{Period: window.Day})
	if got := p.Name(0) + ", " + p.Name(1); got != "day America/Los_Angeles, day UTC" {
		t.Errorf("they are called %s", got)
	}
}

func TestALogIsNoCalendar(t *testing.T) {
	if p := pool(t, log24); p.Windows[0].ResetAt != nil {
		t.Errorf("an unused log resets at %v", p.Windows[0].ResetAt)
	}
}

// pool returns a pool with these windows and nothing used.
func pool(t *testing.T, specs ...window.Spec) view.Pool {
	t.Helper()
	var u quota.Usage
	for _, s := range specs {
		spec, err := s.Normal()
		if err != nil || noZone != nil {
			t.Fatal(err, noZone)
		}
		u.Allowances = append(u.Allowances, quota.WindowUsage{WindowState: quota.WindowState{Window: spec.String(), ResetAt: now}, Spec: spec})
	}
	return view.Pools([]quota.Usage{u})[0]
}

func TestAPoolSaysThatItsCallsAreSpaced(t *testing.T) {
	one := usage()[1]
	one.Spaced = &quota.Spacing{Rate: 1.9, Since: time.Date(2026, 11, 23, 9, 12, 0, 0, time.UTC)}
	const want = "calls are spaced since 2026-11-23 09:12:00 UTC, sending 1.9 a second: the upstream refused one though units were left"
	if got := view.Pools([]quota.Usage{one})[0].Spaced.Words(); got != want {
		t.Errorf("it says %q", got)
	}
}

func TestShutSaysByWhomIfThatIsKnown(t *testing.T) {
	for by, want := range map[quota.Blocker]string{quota.BlockedByPerson: "is shut by hand", quota.BlockedByUpstream: "is shut by the upstream", "": "is shut"} {
		if got := view.Shut(by); got != want {
			t.Errorf("Shut(%q) = %q, want %q", by, got, want)
		}
	}
}

// spent is a call, a correction, and a call that named nothing.
func spent() []quota.Spent {
	pool := quota.Pool{Upstream: "maps", Account: "staging", Name: "units"}
	return []quota.Spent{
		{Pool: pool, Day: "2026-11-20", Labels: quota.Labels{Method: "geocode", Job: "night", Region: "DE", Class: "backfill"}, Model: "large", Key: "alice", Units: 1500, Calls: 300},
		{Pool: pool, Day: "2026-11-20", Labels: quota.Labels{Reason: "seen in the console"}, Units: -5},
		{Pool: pool, Day: "2026-11-20", Units: 1, Calls: 1},
	}
}

func TestSpendTable(t *testing.T) {
	shows(t, view.SpendTable(view.Spend(spent(), view.Dimensions), view.Dimensions),
		"pool~ | method~ | model~ | key~ | job~ | region~ | class~ | account~ | day | units# | calls# | reason~",
		"maps/units | geocode | large | alice | night | DE | backfill | staging | 2026-11-20 | 1500 | 300 | ",
		"maps/units | (correction) | (correction) | (correction) | (correction) | (correction) | (correction) | staging | 2026-11-20 | -5 | 0 | seen in the console",
		"maps/units | - | - | - | - | - | - | staging | 2026-11-20 | 1 | 1 | ",
	)
	by := []quota.Dimension{quota.ByMethod}
	shows(t, view.SpendTable(view.Spend(spent()[:1], by), by), "pool~ | method~ | units# | calls#", "maps/units | geocode | 1500 | 300")
}

func TestSpendNamesAccountsOnlyIfItWasSummedByThem(t *testing.T) {
	if all := view.Spend(spent(), []quota.Dimension{quota.ByJob}); all[0].Account != "" {
		t.Errorf("the account is %s", all[0].Account)
	}
}
