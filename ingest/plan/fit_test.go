package plan_test

import (
	"maps"
	"slices"
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
		never []string
	}{
		"the least change": {map[string]ingest.Job{"charts": charts("*/5 * * * *", "")}, 400, nil, true, map[string]string{"charts": "*/30 * * * *"}, nil},
		"keeps its minute": {map[string]ingest.Job{"charts": charts("20 * * * *", "")}, 100, nil, true, map[string]string{"charts": "20 */3 * * *"}, nil},
		"keeps its hour":   {map[string]ingest.Job{"charts": charts("20 7,19 * * *", "Asia/Tokyo")}, 16, nil, true, map[string]string{"charts": "20 7 * * *"}, nil},
		"the one that spends most first": {map[string]ingest.Job{
			"charts": charts("0 * * * *", ""), "small": {Kind: ingest.Trending, Cron: "30 */2 * * *", Regions: []string{"DE"}, Pages: 1},
		}, 120, nil, true, map[string]string{"charts": "0 */2 * * *"}, nil},
		"two jobs": {map[string]ingest.Job{
			"charts": charts("0 * * * *", ""), "small": {Kind: ingest.Trending, Cron: "30 */2 * * *", Regions: []string{"DE"}, Pages: 1},
		}, 20, nil, true, map[string]string{"charts": "0 0 * * *", "small": "30 */6 * * *"}, nil},
		"none":                  {map[string]ingest.Job{"charts": charts("0 */12 * * *", "")}, 7, nil, false, nil, []string{"charts"}},
		"not today":             {map[string]ingest.Job{"charts": charts("0 */12 * * *", "")}, 400, past, true, map[string]string{}, nil},
		"on its days and hours": {map[string]ingest.Job{"charts": charts("0 8-20 * * 6,0", "")}, 70, nil, true, map[string]string{"charts": "0 8-20/2 * * 6,0"}, nil},
		"in its hours":          {map[string]ingest.Job{"charts": charts("*/10 8-20 * * *", "Asia/Tokyo")}, 220, nil, true, map[string]string{"charts": "*/30 8-20 * * *"}, nil},
		"once on its days":      {map[string]ingest.Job{"charts": charts("5 8,9 * * 6", "")}, 8, nil, true, map[string]string{"charts": "5 8 * * 6"}, nil},
		"beside one that never fits": {map[string]ingest.Job{
			"charts": charts("0 * * * *", ""), "news": {Kind: ingest.Search, Cron: "30 */2 * * *", Regions: []string{"US"}, Queries: []string{"a", "b", "c", "d", "e", "f"}},
		}, 120, nil, false, map[string]string{"charts": "0 */2 * * *"}, []string{"news"}},
		"not even after that": {map[string]ingest.Job{"charts": charts("0 */2 * * *", "")}, 50, past, true, map[string]string{"charts": "0 */6 * * *"}, nil},
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
			if p.Fits || r == nil || r.Fits != c.fits || !maps.Equal(r.Schedules, c.want) || !slices.Equal(r.Never, c.never) {
				t.Fatalf("it fits: %v, and the remedy is %+v, want %v, and %v never", p.Fits, r, c.want, c.never)
			}
			config = &ingest.Config{Jobs: maps.Clone(c.jobs)}
			for _, name := range r.Never {
				delete(config.Jobs, name)
			}
			if len(config.Jobs) == 0 {
				return
			}
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

// A job that is due after more than a week is tried until then.
func TestRemedyOfAMonthlyJob(t *testing.T) {
	config := &ingest.Config{Jobs: map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 8-20 29 * *", Regions: []string{"US", "GB"}, Pages: 4}}}
	if faults := config.Prepare(); len(faults) > 0 {
		t.Fatal(faults)
	}
	p, err := plan.Make(t.Context(), config, bookOf(t, 60), &plan.Options{From: noon, Days: 10})
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Remedy; p.Fits || r == nil || !r.Fits || r.Schedules["charts"] != "0 8-20/2 29 * *" {
		t.Errorf("it fits: %v, and the remedy is %+v", p.Fits, r)
	}
}
