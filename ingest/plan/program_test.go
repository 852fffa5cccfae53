package plan_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/quota/book"
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

// TestAPlanTakesAnyBook: a price book without the upstream youtube has plans of its programs, too.
func TestAPlanTakesAnyBook(t *testing.T) {
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  maps:
    pools:
      daily: {quota: 1000, windows: [{per: day}, {per: 1m, quota: 30}]}
      concurrent: {windows: [{in_flight: 2, ttl: 1m}]}
    methods: {geocode: {charge: {daily: 1, concurrent: 1}}}
  mail:
    pools: {sent: {quota: 5000, windows: [{per: 24h}]}}
    methods: {send: 1}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		most  int64
		to    []string
		days  int
		units map[string]int64 // on the second day
		fits  string           // empty, or a schedule that fits
	}{
		"it fits":       {40, []string{"maps"}, 3, map[string]int64{"maps/daily": 24 * 40}, ""},
		"too much":      {50, []string{"maps"}, 3, map[string]int64{"maps/daily": 1000}, "0 */2 * * *"},
		"all upstreams": {40, nil, 3, map[string]int64{"maps/daily": 24 * 40, "mail/sent": 24 * 40}, ""},
		"a short plan":  {130, []string{"maps"}, 1, map[string]int64{"maps/daily": 1000}, "0 */4 * * *"}, // every 2 hours would fit the plan, but not a whole day
	} {
		t.Run(name, func(t *testing.T) {
			program := ingest.Program{Command: []string{"tap"}, Upstreams: c.to}
			config := &ingest.Config{MaxWait: ingest.DefaultMaxWait, Jobs: map[string]ingest.Job{
				"tap": {Kind: ingest.Command, Cron: "@hourly", MaxUnits: c.most, Program: program},
			}}
			if faults := config.Prepare(); len(faults) > 0 {
				t.Fatal(faults)
			}
			delete(config.Jobs, "retention") // as settings do without youtube
			p, err := plan.Make(t.Context(), config, costs, &plan.Options{From: noon, Days: c.days})
			if err != nil {
				t.Fatal(err)
			}
			units := map[string]int64{}
			for _, pool := range p.Pools {
				units[pool.Pool] = pool.Days[1].Units
			}
			if !maps.Equal(units, c.units) || p.Fits != (c.fits == "") || len(p.Stale) > 0 && p.Fits {
				t.Errorf("%v, fits %v, %v, %q", units, p.Fits, p.Stale, p.Notes)
			}
			want := map[string]string{"tap": c.fits}
			if r := p.Remedy; p.Fits != (r == nil) || r != nil && (!r.Fits || !maps.Equal(r.Schedules, want)) {
				t.Errorf("the remedy is %+v, want %v", r, want)
			}
		})
	}
}

// TestAPlanKnowsNoKeys: a plan says which upstreams it leaves out, because their pools count by key; of anthropic, it
// takes one pool that does not.
func TestAPlanKnowsNoKeys(t *testing.T) {
	for name, taken := range map[string]bool{"slack": false, "anthropic": true} {
		t.Run(name, func(t *testing.T) { knowsNoKeys(t, name, taken) })
	}
}

func knowsNoKeys(t *testing.T, name string, taken bool) {
	costs, err := headroom.Load("builtin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	job := ingest.Job{Kind: ingest.Command, Cron: "@hourly", MaxUnits: 100, Program: ingest.Program{Command: []string{"tap"}}}
	config := &ingest.Config{Jobs: map[string]ingest.Job{"tap": job}}
	if faults := config.Prepare(); len(faults) > 0 {
		t.Fatal(faults)
	}
	delete(config.Jobs, "retention")
	p, err := plan.Make(t.Context(), config, costs, &plan.Options{From: noon, Days: 1})
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(p.Notes, "\n")
	if !strings.Contains(notes, "job tap: the plan leaves out what its program spends of pools by key, such as a model, and of open calls, at "+name) || strings.Contains(notes, "max_units") != taken {
		t.Errorf("the notes are %q", notes)
	}
	if want := "Nothing is deferred, but the plan leaves out spend of tap."; p.Outcome() != want || !slices.Equal(p.LeftOut, []string{"tap"}) {
		t.Errorf("%v: %q, want %q", p.LeftOut, p.Outcome(), want)
	}
}
