package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
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

// TestAPlanSaysWhatProgramsCost: in dollars, by what their last runs have spent of budgets.
func TestAPlanSaysWhatProgramsCost(t *testing.T) {
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
budgets: {all: {quota: 20 USD, windows: [{per: month}], of: llm}}
upstreams:
  llm:
    hosts: [llm.example.com]
    pools: {calls: {quota: 100, windows: [{per: 1m}]}}
    methods: {ask: {route: POST /ask, cost: 1, bill: 0.05 USD}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	config := &ingest.Config{Jobs: map[string]ingest.Job{"app": {Kind: ingest.Command, Cron: "@hourly", MaxUnits: 5, Program: ingest.Program{Command: []string{"app"}, Upstreams: []string{"llm"}}}}}
	if faults := config.Prepare(); len(faults) > 0 {
		t.Fatal(faults)
	}
	delete(config.Jobs, "retention") // as settings do without youtube
	run := func(cents int64) catalog.RunRecord {
		return catalog.RunRecord{Job: "app", Work: []catalog.WorkRecord{{Work: "program", Pages: 1, Units: 3, State: catalog.Done, Charges: catalog.Charges{"llm/calls": 3, "budgets/all": cents * 10_000}}}}
	}
	records := plan.ReadRecords([]catalog.RunRecord{run(16), run(15), run(14)})
	p, err := plan.Make(t.Context(), config, costs, &plan.Options{From: noon, Days: 2, Records: records, Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	runs := p.Runs
	want := fmt.Sprintf("job app: its program spends about 0.15 USD of budgets/all a run, as its last runs did; that is %s in %d runs", book.FormatMoney(int64(runs)*150_000), runs)
	if text := strings.Join(p.Notes, "\n"); !strings.Contains(text, want) || !strings.Contains(text, "The budget has 20.00 USD in month") || runs < 30 {
		t.Errorf("%d runs: %s\nwant %s", runs, text, want)
	}
	for i, want := range []struct {
		pool  string
		units int64 // on a whole day
	}{{"budgets/all", 24 * 150_000}, {"llm/calls", 24 * 3}} {
		if got := p.Pools[i]; got.Pool != want.pool || got.Days[1].Units != want.units {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if !p.Fits {
		t.Error("5.25 of 20 dollars do not fit")
	}
	records[plan.Work{Job: "app", Work: "program"}] = plan.Record{Pages: 1, Units: 3, Money: map[string]int64{"budgets/all": 1_000_000}}
	if p, err = plan.Make(t.Context(), config, costs, &plan.Options{From: noon, Days: 2, Records: records, Alone: true}); err != nil {
		t.Fatal(err)
	}
	if p.Fits || p.First == nil || p.First.Pool != "budgets/all" || p.Pools[0].Days[0].Units+p.Pools[0].Days[1].Units+p.Pools[0].Days[2].Units != 20_000_000 {
		t.Errorf("35 of 20 dollars fit: %+v, %+v", p.First, p.Pools[0])
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
