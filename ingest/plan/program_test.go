package plan_test

import (
	"strings"
	"testing"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/plan"
)

// TestProgramsSpend: a plan counts what programs may spend, or have spent, and says so.
func TestProgramsSpend(t *testing.T) {
	book, err := headroom.Load("")
	if err != nil {
		t.Fatal(err)
	}
	records := map[plan.Work]plan.Record{{Job: "tap", Work: "program"}: {Pages: 1, Units: 200}}
	for name, c := range map[string]struct {
		job   ingest.Job
		most  map[plan.Work]plan.Record
		units int64 // on a whole day
		fits  bool
		note  string
	}{
		"its bound":       {ingest.Job{MaxUnits: 100}, nil, 24 * 100, true, "job tap: its program is taken to spend 100 units of youtube/units a run, its max_units"},
		"its record":      {ingest.Job{MaxUnits: 300}, records, 24 * 200, true, "200 units of youtube/units a run, what its earlier runs spent"},
		"no more than it": {ingest.Job{MaxUnits: 100}, records, 24 * 100, true, "its max_units"},
		"too much":        {ingest.Job{MaxUnits: 1000}, nil, 9500, false, "its max_units"},
		"unknown":         {ingest.Job{}, nil, 0, true, "what its program spends is unknown"},
		"of others":       {ingest.Job{MaxUnits: 100, Program: ingest.Program{Upstreams: []string{"github"}}}, nil, 0, true, "a plan covers youtube only"},
	} {
		t.Run(name, func(t *testing.T) {
			c.job.Kind, c.job.Cron, c.job.Program.Command = ingest.Command, "@hourly", []string{"tap"}
			config := &ingest.Config{Jobs: map[string]ingest.Job{"tap": c.job}}
			if faults := config.Prepare(); len(faults) > 0 {
				t.Fatal(faults)
			}
			p, err := plan.Make(t.Context(), config, book, &plan.Options{From: noon, Days: 2, Records: c.most, Alone: true})
			if err != nil {
				t.Fatal(err)
			}
			units := int64(0)
			for _, pool := range p.Pools {
				if pool.Pool == "youtube/units" {
					units = pool.Days[1].Units
				}
			}
			if units != c.units || p.Fits != c.fits || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], c.note) {
				t.Errorf("%d units, fits %v, %q", units, p.Fits, p.Notes)
			}
		})
	}
}
