package plan_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/plan"
)

var update = flag.Bool("update", false, "write the golden file")

// TestSVG draws a plan with every element.
func TestSVG(t *testing.T) {
	at := time.Date(2026, 11, 1, 4, 0, 0, 0, time.UTC)
	first := plan.Deferral{At: at, Job: "trending", Work: "DE", Region: "DE", Pool: "youtube/units", Window: "24h", Until: at.Add(20 * time.Hour)}
	p := &plan.Plan{
		From: at.Add(-10 * time.Hour), Until: at.Add(52 * time.Hour), Zone: "America/Los_Angeles", First: &first,
		Pools: []plan.Pool{
			{Pool: "youtube/searches", Limit: 9500, Days: []plan.Day{
				{Day: "2026-10-31", Hours: 13, Units: 5, Jobs: map[string]int64{"news <b>": 5}},
				{Day: "2026-11-01", Hours: 25, Units: 12, Jobs: map[string]int64{"news <b>": 12}},
				{Day: "2026-11-02", Hours: 24},
			}},
			{Pool: "youtube/units", Limit: 95, Days: []plan.Day{
				{Day: "2026-10-31", Hours: 13, Before: 40, Units: 55, Jobs: map[string]int64{"trending": 55}, Deferred: 3},
				{Day: "2026-11-01", Hours: 25, Units: 90, Jobs: map[string]int64{"trending": 60, "retention": 30}},
				{Day: "2026-11-02", Hours: 24, Units: 80, Jobs: map[string]int64{"trending": 80}},
			}},
		},
		Deferred: []plan.Deferred{{Deferral: first, Times: 3}},
		Stale: []plan.Stale{
			{Job: "trending", Work: "DE", Region: "DE", Since: at, Behind: 72_000, Missed: 3},
			{Job: "news <b>", Work: "DE/a query that is much longer than its place", Since: at, Behind: 200_000, Missed: 1, Error: "503"},
		},
	}
	got := p.SVG()
	golden := filepath.Join("testdata", "plan.svg")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the picture is another one; -update writes it anew, and then look at it:\n%s", got)
	}
}
