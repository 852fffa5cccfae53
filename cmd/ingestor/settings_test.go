package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

const oneJob = "jobs:\n  charts: {kind: trending, schedule: \"@hourly\"}\n"

// home is an empty folder to start in, and an empty home.
func home(t *testing.T, yaml string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "INGESTOR_") || strings.HasPrefix(name, "XDG_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("HOME", dir)
	if yaml != "" {
		if err := os.WriteFile("ingestor.yaml", []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// flagsOf are the flags of a command line.
func flagsOf(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	a := &app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	root := a.root()
	if err := root.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return root.PersistentFlags()
}

func TestTheLaterSourceWins(t *testing.T) {
	home(t, "max_wait: 1m\n"+oneJob)
	for _, step := range []struct {
		env  string
		args []string
		want time.Duration
		from string
	}{
		{want: time.Minute, from: "file"},
		{env: "2m", want: 2 * time.Minute, from: "INGESTOR_MAX_WAIT"},
		{env: "2m", args: []string{"--max-wait", "3m"}, want: 3 * time.Minute, from: "--max-wait"},
	} {
		t.Setenv("INGESTOR_MAX_WAIT", step.env)
		s, err := load("", flagsOf(t, step.args...))
		if err != nil {
			t.Fatal(err)
		}
		if s.MaxWait != step.want || s.source("max_wait") != step.from {
			t.Errorf("max_wait is %s from %s, not %s from %s", s.MaxWait, s.source("max_wait"), step.want, step.from)
		}
	}
	home(t, "")
	s, err := load("", flagsOf(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.MaxWait != 2*time.Minute || s.source("max_wait") != "default" || len(s.Regions) != 8 {
		t.Errorf("without a word max_wait is %s from %s, regions are %v", s.MaxWait, s.source("max_wait"), s.Regions)
	}
}

func TestTheEnvironmentSetsWhatAFileDoes(t *testing.T) {
	home(t, oneJob)
	t.Setenv("INGESTOR_REGIONS", "DE,US")
	t.Setenv("INGESTOR_WORKERS", "7")
	t.Setenv("INGESTOR_LEDGER", "memory:")
	s, err := load("", flagsOf(t))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(s.Regions, " ") != "DE US" || s.Workers != 7 || s.Ledger != "memory:" {
		t.Errorf("regions %v, workers %d, ledger %s", s.Regions, s.Workers, s.Ledger)
	}
}

func TestFaultsOfSettingsHaveAPlace(t *testing.T) {
	for name, c := range map[string]struct {
		yaml, env string
		args      []string
		want      string
	}{
		"unknown key":             {yaml: "areas: [US]\n" + oneJob, want: `ingestor.yaml:1:1: unknown field "areas"`},
		"unknown key of a job":    {yaml: "jobs:\n  a: {kind: trending, when: now}\n", want: `ingestor.yaml:2:23: unknown field "when"`},
		"twice":                   {yaml: "workers: 3\nworkers: 4\n" + oneJob, want: `ingestor.yaml:2:1: mapping key "workers" already defined at [1:1]`},
		"no YAML":                 {yaml: "a: [\n", want: "ingestor.yaml:1:4: "},
		"no number":               {yaml: "workers: many\n" + oneJob, want: "ingestor.yaml:1:10: a whole number is wanted here"},
		"too many":                {yaml: "workers: 500\n" + oneJob, want: "ingestor.yaml:1:10: workers: workers must be 1 to 64, not 500"},
		"time without a unit":     {yaml: "max_wait: 90\n" + oneJob, want: "ingestor.yaml:1:11: a length of time with its unit is wanted here, as 90s or 6h"},
		"no time":                 {yaml: "jobs:\n  a: {kind: trending, schedule: \"@hourly\", jitter: 9x}\n", want: `ingestor.yaml:2:52: "9x" is no length of time`},
		"region":                  {yaml: "regions: [UK]\n" + oneJob, want: "ingestor.yaml:1:1: regions: region UK is written GB"},
		"list":                    {yaml: "regions: US\n" + oneJob, want: "ingestor.yaml:1:10: "},
		"schedule that never is":  {yaml: "jobs:\n  a: {kind: trending, schedule: \"0 0 31 2 *\"}\n", want: "ingestor.yaml:2:33: jobs.a.schedule: schedule \"0 0 31 2 *\" is never due"},
		"no schedule":             {yaml: "jobs:\n  a: {kind: trending}\n", want: "ingestor.yaml:2:3: jobs.a.schedule: the schedule is empty"},
		"name of a job":           {yaml: "jobs:\n  Charts: {kind: trending, schedule: \"@hourly\"}\n", want: "ingestor.yaml:2:3: jobs.Charts: a job's name is lower-case"},
		"class":                   {yaml: "jobs:\n  a: {kind: trending, schedule: \"@hourly\", class: nope}\n", want: `ingestor.yaml:2:51: jobs.a.class: the price book has no class "nope"; it has backfill, manual`},
		"account":                 {yaml: "jobs:\n  a: {kind: trending, schedule: \"@hourly\", account: zed}\n", want: `ingestor.yaml:2:53: jobs.a.account: the price book has no account "zed"; it has default`},
		"account in accounts":     {yaml: "accounts: {zed: {key_file: k}}\n" + oneJob, want: `ingestor.yaml:1:12: accounts.zed: the price book has no account "zed"; it has default`},
		"endpoint":                {yaml: "endpoint: localhost\n" + oneJob, want: `ingestor.yaml:1:11: endpoint: "localhost" is no address`},
		"log level":               {yaml: "log_level: loud\n" + oneJob, want: `ingestor.yaml:1:12: log_level: there is no level "loud"`},
		"variable, number":        {env: "INGESTOR_WORKERS=many", want: `INGESTOR_WORKERS: "many" is no whole number`},
		"variable, time":          {env: "INGESTOR_MAX_WAIT=90", want: `INGESTOR_MAX_WAIT: "90" is no length of time`},
		"variable, value":         {env: "INGESTOR_WORKERS=300", want: "INGESTOR_WORKERS: workers must be 1 to 64, not 300"},
		"variable over the file":  {yaml: "workers: 3\n" + oneJob, env: "INGESTOR_WORKERS=300", want: "INGESTOR_WORKERS: workers must be"},
		"flag":                    {args: []string{"--max-wait", "-5s"}, want: "--max-wait: a time cannot be negative"},
		"no such file":            {args: []string{"--config", "nope.yaml"}, want: "there is no configuration nope.yaml; `ingestor init` writes one"},
		"no price book":           {args: []string{"--costs", "nope.yaml"}, want: "read price book: open nope.yaml"},
		"a ledger of no kind":     {args: []string{"--ledger", "mysql://x"}, want: `ledger: "mysql:" is not one of memory:, redis://HOST:PORT/DB and sqlite:PATH`},
		"something behind memory": {args: []string{"--ledger", "memory:x"}, want: "nothing may stand behind memory:"},
	} {
		t.Run(name, func(t *testing.T) {
			home(t, c.yaml)
			if key, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(key, value)
			}
			var out, problems bytes.Buffer
			code := run(append([]string{"quota"}, c.args...), strings.NewReader(""), &out, &problems)
			if code != exitConfig || !strings.Contains(problems.String(), c.want) || out.Len() > 0 {
				t.Errorf("it left with %d and said %q, %q; want %q", code, out.String(), problems.String(), c.want)
			}
		})
	}
}

func TestAFaultOfTheRegionsIsToldOnce(t *testing.T) {
	home(t, "regions: [UK]\n"+oneJob)
	_, err := load("", flagsOf(t))
	if err == nil || strings.Count(err.Error(), "UK is written GB") != 1 {
		t.Errorf("it says %v", err)
	}
}
