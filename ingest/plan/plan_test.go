package plan_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/plan"
)

// noon is noon in California.
var noon = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

// defaults returns the jobs of a configuration without jobs.
func defaults(t *testing.T) *ingest.Config {
	t.Helper()
	c := &ingest.Config{Jobs: map[string]ingest.Job{
		"trending":  {Kind: ingest.Trending, Cron: "15 * * * *"},
		"stats":     {Kind: ingest.Stats, Cron: "40 */6 * * *"},
		"retention": {Kind: ingest.Retention, Cron: "45 */6 * * *"},
	}}
	for _, fault := range c.Prepare() {
		t.Fatal(fault)
	}
	return c
}

func TestDefaultScheduleFits(t *testing.T) {
	book, err := headroom.Load("")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Make(t.Context(), defaults(t), book, &plan.Options{From: noon, Days: 3})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Fits || p.First != nil || len(p.Stale) > 0 || p.Refused > 0 {
		t.Errorf("it does not fit: %+v", p)
	}
	units := map[string][]int64{}
	for _, pool := range p.Pools {
		for _, d := range pool.Days {
			units[pool.Pool] = append(units[pool.Pool], d.Units)
		}
	}
	// Eight charts of four pages, each hour.
	if got := units["youtube/units"]; len(got) != 3 || got[1] != 24*32 {
		t.Errorf("units are %v", units)
	}
}

// TestRecordsCount: a pass has the length of its record, even if the simulated upstream has
// fewer or more pages.
func TestRecordsCount(t *testing.T) {
	book, err := headroom.Load("")
	if err != nil {
		t.Fatal(err)
	}
	c := &ingest.Config{Regions: []string{"US"}, Jobs: map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 * * *", Pages: 10}}}
	for _, fault := range c.Prepare() {
		t.Fatal(fault)
	}
	for pages, want := range map[int]int64{0: 4, 1: 1, 3: 3, 7: 7} {
		p, err := plan.Make(t.Context(), c, book, &plan.Options{
			From: noon, Days: 1, Records: map[plan.Work]plan.Record{{Job: "charts", Work: "US"}: {Pages: pages}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Calls; got != want || !p.Fits {
			t.Errorf("with a record of %d pages it makes %d calls, want %d", pages, got, want)
		}
	}
}

// TestCompared: a plan that does not fit is compared with sliding windows only and with
// calendars only. A plan that fits is the same with both.
func TestCompared(t *testing.T) {
	from := time.Date(2026, 10, 31, 7, 0, 0, 0, time.UTC) // before a day of 25 hours
	for units, differ := range map[int]bool{20: true, 9000: false} {
		p, err := plan.Make(t.Context(), defaults(t), bookOf(t, units), &plan.Options{From: from, Days: 3})
		if err != nil {
			t.Fatal(err)
		}
		var spent []int64
		for i, name := range []string{plan.Configured, plan.SlidingOnly, plan.CalendarOnly} {
			if p.Compared[i].Windows != name {
				t.Errorf("number %d is %q, want %q", i, p.Compared[i].Windows, name)
			}
			spent = append(spent, p.Compared[i].Units["youtube/units"])
		}
		if differ == p.Fits {
			t.Errorf("with %d units a day it fits: %v", units, p.Fits)
		}
		// On a day of 25 hours a window of 24h is free before the day is over.
		if both := spent[0]; differ != (both < spent[1]) || both > spent[2] {
			t.Errorf("with %d units a day, as configured, sliding only and calendar only spend %v", units, spent)
		}
		if p.Refused > 0 {
			t.Errorf("the upstream refused %d calls", p.Refused)
		}
	}
}
