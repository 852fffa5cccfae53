package ingest

import (
	"strings"
	"testing"
	"time"
)

func TestConfigFaults(t *testing.T) {
	trending := func(change func(*Job)) Config {
		j := Job{Kind: Trending, Cron: "0 */6 * * *"}
		change(&j)
		return Config{Jobs: map[string]Job{"charts": j}}
	}
	for _, tt := range []struct {
		name   string
		config Config
		path   string
		want   string
	}{
		{"no job", Config{}, "jobs", "there is no job"},
		{"a name in capitals", Config{Jobs: map[string]Job{"Charts": {Kind: Trending, Cron: "@daily"}}}, "jobs.Charts", "lower-case"},
		{"unknown kind", trending(func(j *Job) { j.Kind = "trend" }), "jobs.charts.kind", "trending, search"},
		{"never due", trending(func(j *Job) { j.Cron = "0 0 30 2 *" }), "jobs.charts.schedule", "never due"},
		{"no zone", trending(func(j *Job) { j.Zone = "Nowhere" }), "jobs.charts.zone", "there is no zone"},
		{"small letters", trending(func(j *Job) { j.Regions = []string{"us"} }), "jobs.charts.regions", "two capital letters"},
		{"UK", trending(func(j *Job) { j.Regions = []string{"UK"} }), "jobs.charts.regions", "written GB"},
		{"twice", trending(func(j *Job) { j.Regions = []string{"US", "DE", "US"} }), "jobs.charts.regions", "listed twice"},
		{"another kind's list", trending(func(j *Job) { j.Queries = []string{"go"} }), "jobs.charts.queries", "belong to search"},
		{"a list too little", trending(func(j *Job) { j.Kind = Search }), "jobs.charts.queries", "needs queries"},
		{"negative pages", trending(func(j *Job) { j.Pages = -1 }), "jobs.charts.pages", "1 to 1000"},
		{"negative units", trending(func(j *Job) { j.MaxUnits = -1 }), "jobs.charts.max_units", "negative"},
		{"negative time", trending(func(j *Job) { j.Jitter = -time.Second }), "jobs.charts.jitter", "negative"},
		{"misfire", trending(func(j *Job) { j.Misfire = "twice" }), "jobs.charts.misfire", "skip or once"},
		{"retention by the week", Config{Jobs: map[string]Job{"old": {Kind: Retention, Cron: "@weekly"}}}, "jobs.old.schedule", "once a day at least"},
		{"retention on weekdays", Config{Jobs: map[string]Job{"old": {Kind: Retention, Cron: "0 3 * * 1-5"}}}, "jobs.old.schedule", "once a day at least"},
		{"retention every other day", Config{Jobs: map[string]Job{"old": {Kind: Retention, Cron: "0 3 */2 * *"}}}, "jobs.old.schedule", "once a day at least"},
		{"workers", Config{Workers: 1000, Jobs: map[string]Job{"a": {Kind: Trending, Cron: "@daily"}}}, "workers", "1 to 64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			faults := tt.config.Prepare()
			for _, f := range faults {
				if f.Path == tt.path && strings.Contains(f.Err.Error(), tt.want) {
					return
				}
			}
			t.Fatalf("got %v, want %q at %s", faults, tt.want, tt.path)
		})
	}
}

func TestRetentionOnceADay(t *testing.T) {
	for name, j := range map[string]Job{
		"daily":              {Cron: "@daily"},
		"a day of 25 hours":  {Cron: "0 3 * * *", Zone: "America/Los_Angeles"},
		"weekly, and is off": {Cron: "@weekly", Disabled: true},
	} {
		j.Kind = Retention
		c := Config{Jobs: map[string]Job{"old": j}}
		if faults := c.Prepare(); len(faults) > 0 {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	c := Config{Jobs: map[string]Job{"charts": {Kind: Trending, Cron: "0 */6 * * *"}, "off": {Kind: Search, Cron: "@daily", Queries: []string{"go"}, Disabled: true}}}
	if faults := c.Prepare(); len(faults) > 0 {
		t.Fatal(faults)
	}
	var names []string
	for _, j := range c.List() {
		names = append(names, j.Name)
	}
	if got := strings.Join(names, " "); got != "charts retention" {
		t.Errorf("jobs are %q: retention is on by default, what is disabled is not", got)
	}
	j := c.Jobs["charts"]
	if len(j.Regions) != 8 || j.Pages != 4 || j.Misfire != Once || j.Schedule().Next(time.Unix(0, 0)).IsZero() {
		t.Errorf("defaults are %+v", j)
	}
}
