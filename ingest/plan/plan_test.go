package plan_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/plan"
)

// noon is in the middle of a day in California.
var noon = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

// defaults are the jobs of a configuration that has none.
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
