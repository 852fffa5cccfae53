package plan_test

import (
	"maps"
	"testing"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/quota"
)

// TestRemedy: a plan that does not fit says which schedule would, and a plan of that schedule fits.
func TestRemedy(t *testing.T) {
	charts := func(schedule, zone string) ingest.Job {
		return ingest.Job{Kind: ingest.Trending, Cron: schedule, Zone: zone, Regions: []string{"US", "GB"}, Pages: 4}
	}
	past := &plan.Past{Spent: []plan.Spent{{Pool: quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}, At: noon, Units: 395}}}
	for name, c := range map[string]struct {
		jobs  map[string]ingest.Job
		units int // of a day
		past  *plan.Past
		fits  bool
		want  map[string]string
	}{
		"the least change": {map[string]ingest.Job{"charts": charts("*/5 * * * *", "")}, 400, nil, true, map[string]string{"charts": "*/30 * * * *"}},
		"keeps its minute": {map[string]ingest.Job{"charts": charts("20 * * * *", "")}, 100, nil, true, map[string]string{"charts": "20 */3 * * *"}},
		"keeps its hour":   {map[string]ingest.Job{"charts": charts("20 7,19 * * *", "Asia/Tokyo")}, 16, nil, true, map[string]string{"charts": "20 7 * * *"}},
		"the one that spends most first": {map[string]ingest.Job{
			"charts": charts("0 * * * *", ""), "small": {Kind: ingest.Trending, Cron: "30 */2 * * *", Regions: []string{"DE"}, Pages: 1},
		}, 120, nil, true, map[string]string{"charts": "0 */2 * * *"}},
		"two jobs": {map[string]ingest.Job{
			"charts": charts("0 * * * *", ""), "small": {Kind: ingest.Trending, Cron: "30 */2 * * *", Regions: []string{"DE"}, Pages: 1},
		}, 20, nil, true, map[string]string{"charts": "0 0 * * *", "small": "30 */6 * * *"}},
		"none":                {map[string]ingest.Job{"charts": charts("0 */12 * * *", "")}, 7, nil, false, nil},
		"not today":           {map[string]ingest.Job{"charts": charts("0 */12 * * *", "")}, 400, past, true, map[string]string{}},
		"not even after that": {map[string]ingest.Job{"charts": charts("0 */2 * * *", "")}, 50, past, true, map[string]string{"charts": "0 */6 * * *"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := &ingest.Config{Jobs: maps.Clone(c.jobs)}
			if faults := config.Prepare(); len(faults) > 0 {
				t.Fatal(faults)
			}
			p, err := plan.Make(t.Context(), config, bookOf(t, c.units), &plan.Options{From: noon, Days: 3, Past: c.past})
			if err != nil {
				t.Fatal(err)
			}
			r := p.Remedy
			if p.Fits || r == nil || r.Fits != c.fits || c.fits && !maps.Equal(r.Schedules, c.want) {
				t.Fatalf("it fits: %v, and the remedy is %+v, want %v", p.Fits, r, c.want)
			}
			if !r.Fits {
				return
			}
			config = &ingest.Config{Jobs: maps.Clone(c.jobs)}
			for name, schedule := range r.Schedules {
				j := config.Jobs[name]
				j.Cron = schedule
				config.Jobs[name] = j
			}
			if faults := config.Prepare(); len(faults) > 0 {
				t.Fatal(faults)
			}
			p, err = plan.Make(t.Context(), config, bookOf(t, c.units), &plan.Options{From: noon, Days: 3, Alone: true})
			if err != nil || !p.Fits {
				t.Errorf("with the remedy it fits: %v, %v, %v", p.Fits, p.First, err)
			}
		})
	}
}
