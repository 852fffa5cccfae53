package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
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
	a := &session.Session{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}
	root := root(a)
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
		s, err := settings.Load("", flagsOf(t, step.args...))
		if err != nil {
			t.Fatal(err)
		}
		if s.MaxWait != step.want || s.Source("max_wait") != step.from {
			t.Errorf("max_wait is %s from %s, not %s from %s", s.MaxWait, s.Source("max_wait"), step.want, step.from)
		}
	}
	home(t, "")
	s, err := settings.Load("", flagsOf(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.MaxWait != 2*time.Minute || s.Source("max_wait") != "default" || len(s.Regions) != 8 {
		t.Errorf("without a word max_wait is %s from %s, regions are %v", s.MaxWait, s.Source("max_wait"), s.Regions)
	}
}

func TestTheEnvironmentSetsWhatAFileDoes(t *testing.T) {
	home(t, oneJob)
	t.Setenv("INGESTOR_REGIONS", "DE,US")
	t.Setenv("INGESTOR_WORKERS", "7")
	t.Setenv("INGESTOR_LEDGER", "memory:")
	s, err := settings.Load("", flagsOf(t))
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
		"twice":                   {yaml: "workers: 3\nworkers: 4\n" + oneJob, want: `ingestor.yaml:2:1: "workers" is given twice, the first time at ingestor.yaml:1:1; keep one`},
		"no YAML":                 {yaml: "a: [\n", want: "ingestor.yaml:1:4: "},
		"no number":               {yaml: "workers: many\n" + oneJob, want: "ingestor.yaml:1:10: write a whole number here"},
		"too many":                {yaml: "workers: 500\n" + oneJob, want: "ingestor.yaml:1:10: workers: workers must be 1 to 64, not 500"},
		"time without a unit":     {yaml: "max_wait: 90\n" + oneJob, want: "ingestor.yaml:1:11: write a duration with its unit here, such as 90s or 6h"},
		"no time":                 {yaml: "jobs:\n  a: {kind: trending, schedule: \"@hourly\", jitter: 9x}\n", want: `ingestor.yaml:2:52: "9x" is not a duration`},
		"region":                  {yaml: "regions: [UK]\n" + oneJob, want: "ingestor.yaml:1:1: regions: region UK is written GB"},
		"list":                    {yaml: "regions: US\n" + oneJob, want: "ingestor.yaml:1:10: write a list here, such as [US, DE]"},
		"list in a list":          {yaml: "regions: [[US]]\n" + oneJob, want: "ingestor.yaml:1:11: write a text here"},
		"a line too far right":    {yaml: "workers: 3\n  max_wait: 90s\n", want: "ingestor.yaml:1:10: not YAML: mapping value is not allowed in this context; check the indentation of this line and the next"},
		"no mapping":              {yaml: "jobs: [a]\n", want: "ingestor.yaml:1:7: write names with values here"},
		"a job that is a text":    {yaml: "jobs:\n  a: trending\n", want: "ingestor.yaml:2:6: write names with values here"},
		"nothing at all":          {yaml: "--- ~\n", want: "ingestor.yaml:1:1: empty: a configuration has settings"},
		"nothing merged":          {yaml: "jobs:\n  a:\n    <<: ~\n    kind: trending\n    schedule: \"@hourly\"\n", want: "ingestor.yaml:3:9: write names with values here"},
		"no settings at all":      {yaml: "- a\n", want: "ingestor.yaml:1:1: write names with values here"},
		"schedule that never is":  {yaml: "jobs:\n  a: {kind: trending, schedule: \"0 0 31 2 *\"}\n", want: "ingestor.yaml:2:33: jobs.a.schedule: schedule \"0 0 31 2 *\" is never due"},
		"no schedule":             {yaml: "jobs:\n  a: {kind: trending}\n", want: "ingestor.yaml:2:3: jobs.a.schedule: the schedule is empty"},
		"name of a job":           {yaml: "jobs:\n  Charts: {kind: trending, schedule: \"@hourly\"}\n", want: "ingestor.yaml:2:3: jobs.Charts: a job's name is lower-case"},
		"class":                   {yaml: "jobs:\n  a: {kind: trending, schedule: \"@hourly\", class: nope}\n", want: `ingestor.yaml:2:51: jobs.a.class: the price book has no class "nope"; it has backfill, manual`},
		"account":                 {yaml: "jobs:\n  a: {kind: trending, schedule: \"@hourly\", account: zed}\n", want: `ingestor.yaml:2:53: jobs.a.account: the price book has no account "zed"; it has default`},
		"account in accounts":     {yaml: "accounts: {zed: {key_file: k}}\n" + oneJob, want: `ingestor.yaml:1:12: accounts.zed: the price book has no account "zed"; it has default`},
		"endpoint":                {yaml: "endpoint: localhost\n" + oneJob, want: `ingestor.yaml:1:11: endpoint: "localhost" is not an address`},
		"endpoint with a path":    {yaml: "endpoint: http://localhost/a\n" + oneJob, want: "ingestor.yaml:1:11: endpoint: write scheme, host and port only: http://localhost"},
		"endpoint in the open":    {yaml: "endpoint: http://192.0.2.7:8080\n" + oneJob, want: "ingestor.yaml:1:11: endpoint: write https://192.0.2.7:8080: the key is sent to it, and plain http is for this machine only"},
		"log level":               {yaml: "log_level: loud\n" + oneJob, want: `ingestor.yaml:1:12: log_level: "loud" is not one of debug, info, warn, error`},
		"variable, number":        {env: "INGESTOR_WORKERS=many", want: `INGESTOR_WORKERS: "many" is not a whole number`},
		"variable, time":          {env: "INGESTOR_MAX_WAIT=90", want: `INGESTOR_MAX_WAIT: "90" is not a duration`},
		"variable, value":         {env: "INGESTOR_WORKERS=300", want: "INGESTOR_WORKERS: workers must be 1 to 64, not 300"},
		"variable over the file":  {yaml: "workers: 3\n" + oneJob, env: "INGESTOR_WORKERS=300", want: "INGESTOR_WORKERS: workers must be"},
		"flag":                    {args: []string{"--max-wait", "-5s"}, want: "--max-wait: -5s is negative"},
		"no such file":            {args: []string{"--config", "nope.yaml"}, want: "there is no configuration nope.yaml\nTo write one: ingestor init"},
		"half a page":             {yaml: "jobs:\n  a: {kind: trending, schedule: \"@hourly\", pages: 0.5}\n", want: "ingestor.yaml:2:51: write a whole number here"},
		"half a unit":             {yaml: "jobs:\n  a:\n    kind: trending\n    schedule: \"@hourly\"\n    max_units: 1.5\n", want: "ingestor.yaml:5:16: write a whole number here"},
		"a number in quotes":      {yaml: "workers: \"3\"\n" + oneJob, want: "ingestor.yaml:1:10: write a whole number here"},
		"dollars of a token":      {yaml: "tokens: {a: {file: t, calls: {upstreams: [youtube], budget: 5 USD}}}\n" + oneJob, want: "ingestor.yaml:1:61: tokens.a.calls.budget: 5 USD needs prices in money, and the price book has none for youtube\n    tokens: {a: "},
		"pounds of a token":       {yaml: "tokens: {a: {file: t, calls: {upstreams: [youtube], budget: 5 GBP}}}\n" + oneJob, want: `ingestor.yaml:1:61: tokens.a.calls.budget: "5 GBP" is neither a number of units, such as 2000, nor an amount, such as 5 USD`},
		"a number too large":      {yaml: "workers: 99999999999999999999\n" + oneJob, want: "ingestor.yaml:1:10: "},
		"no page":                 {yaml: "jobs:\n  a: {kind: trending, schedule: \"@hourly\", pages: 0}\n", want: "ingestor.yaml:2:51: pages: 0 makes no sense here; leave it out for the default"},
		"no time for a call":      {yaml: "call_timeout: 0s\n" + oneJob, want: "ingestor.yaml:1:15: call_timeout: 0 makes no sense here"},
		"all jobs commented out":  {yaml: "workers: 3\njobs:\n#  a: {kind: trending}\n", want: "ingestor.yaml:2:1: there is no job"},
		"a job of nothing":        {yaml: "jobs:\n  a:\n  b: {kind: trending, schedule: \"@hourly\"}\n", want: "ingestor.yaml:2:3: write names with values here"},
		"an empty job":            {yaml: "jobs:\n  a: {}\n  b: {kind: trending, schedule: \"@hourly\"}\n", want: "ingestor.yaml:2:3: write names with values here"},
		"no such anchor":          {yaml: "workers: *w\n" + oneJob, want: "ingestor.yaml:1:11: there is no anchor"},
		"an anchor in itself":     {yaml: "jobs:\n  a: &a {kind: trending, regions: *a}\n", want: "ingestor.yaml:2:36: there is no anchor"},
		"two documents":           {yaml: oneJob + "---\nworkers: 3\n", want: "ingestor.yaml:4:1: a configuration is one YAML document; remove what begins here"},
		"no text":                 {yaml: "# caf\xe9\n" + oneJob, want: "ingestor.yaml:1:6: not text: a configuration is UTF-8 without control characters"},
		"what a terminal obeys":   {yaml: "\x1b[2J: 1\n" + oneJob, want: "\ufffd[2J: 1\n"},
		"a list that lacks":       {yaml: "jobs:\n  a: {kind: uploads, schedule: \"@hourly\"}\n", want: "a job of kind uploads needs channels"},
		"a field like none":       {yaml: "x: 1\n" + oneJob, want: "unknown field \"x\"\n    x: 1\n"},
		"variable, nothing":       {env: "INGESTOR_WORKERS=0", want: "INGESTOR_WORKERS: 0 makes no sense here"},
		"variable, no list":       {env: "INGESTOR_REGIONS=,", want: `INGESTOR_REGIONS: "," names nothing`},
		"variable, misspelt":      {env: "INGESTOR_WORKER=3", want: "INGESTOR_WORKER: there is no such variable; did you mean INGESTOR_WORKERS?"},
		"variable, small letters": {env: "INGESTOR_workers=3", want: "INGESTOR_workers: there is no such variable"},
		"variable, jobs":          {env: "INGESTOR_JOBS=x", want: "INGESTOR_JOBS: jobs are set in ingestor.yaml only; unset the variable"},
		"variable, of a job":      {env: "INGESTOR_JOBS_TRENDING_PAGES=2", want: "INGESTOR_JOBS_TRENDING_PAGES: jobs are set in ingestor.yaml only"},
		"variable, a key":         {env: "INGESTOR_API_KEY=secret", want: "INGESTOR_API_KEY: the key comes from YOUTUBE_API_KEY, or from a file that INGESTOR_KEY_FILE names"},
		"variable, ledger":        {env: "INGESTOR_LEDGER=mysql:x", want: `INGESTOR_LEDGER: "mysql:" is not one of memory:, postgres://HOST:PORT/DB, redis://HOST:PORT/DB and sqlite:PATH`},
		"a path as a ledger":      {args: []string{"--ledger", "/tmp/x.db"}, want: `--ledger: "/tmp/x.db" is not one of memory:, postgres://HOST:PORT/DB, redis://HOST:PORT/DB and sqlite:PATH; is it a file? then write sqlite:/tmp/x.db`},
		"sqlite of no file":       {yaml: "ledger: \"sqlite:\"\n" + oneJob, want: "ingestor.yaml:1:9: ledger: name a file, as sqlite:/var/lib/ingestor/ledger.db"},
		"no price book":           {args: []string{"--costs", "nope.yaml"}, want: "/nope.yaml: no such file"},
		"a ledger of no kind":     {args: []string{"--ledger", "mysql://x"}, want: `--ledger: "mysql:" is not one of memory:, postgres://HOST:PORT/DB, redis://HOST:PORT/DB and sqlite:PATH`},
		"something behind memory": {args: []string{"--ledger", "memory:x"}, want: "nothing may stand behind memory:"},
	} {
		t.Run(name, func(t *testing.T) {
			home(t, c.yaml)
			if key, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(key, value)
			}
			var out, problems bytes.Buffer
			code := run(append([]string{"quota"}, c.args...), strings.NewReader(""), &out, &problems)
			if code != console.ExitConfig || !strings.Contains(problems.String(), c.want) || out.Len() > 0 {
				t.Errorf("it left with %d and said %q, %q; want %q", code, out.String(), problems.String(), c.want)
			}
		})
	}
}

func TestAFaultOfTheRegionsIsToldOnce(t *testing.T) {
	home(t, "regions: [UK]\n"+oneJob)
	_, err := settings.Load("", flagsOf(t))
	if err == nil || strings.Count(err.Error(), "UK is written GB") != 1 {
		t.Errorf("it says %v", err)
	}
}

func TestWhatLooksWrongAndIsNot(t *testing.T) {
	for name, c := range map[string]struct{ yaml, env string }{
		"a mark of the byte order":    {yaml: "\ufeff" + oneJob},
		"lines as Windows ends them":  {yaml: strings.ReplaceAll(oneJob, "\n", "\r\n")},
		"a job called as a setting":   {yaml: "jobs:\n  jitter: {kind: trending, schedule: \"@hourly\"}\n  pages: {kind: trending, schedule: \"@hourly\"}\n"},
		"jobs that share":             {yaml: "jobs:\n  a: &a {kind: trending, schedule: \"@hourly\", jitter: 1m}\n  b:\n    <<: *a\n    pages: 2\n"},
		"a setting of no value":       {yaml: "workers:\n" + oneJob},
		"regions in a variable":       {env: "INGESTOR_REGIONS=US, DE"},
		"regions with spaces":         {env: "INGESTOR_REGIONS=US DE"},
		"a variable of no value":      {env: "INGESTOR_WORKERS="},
		"a level in capitals":         {env: "INGESTOR_LOG_LEVEL=INFO"},
		"jobs that share a list":      {yaml: "jobs:\n  a: {kind: trending, schedule: \"@hourly\", regions: &r [US, DE]}\n  b: {kind: trending, schedule: \"@hourly\", regions: *r}\n"},
		"what Kubernetes sets":        {env: "INGESTOR_SERVICE_HOST=10.0.0.1"},
		"a port that Kubernetes sets": {env: "INGESTOR_PORT_80_TCP_ADDR=10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			home(t, c.yaml)
			if key, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(key, value)
			}
			if _, err := settings.Load("", flagsOf(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNotWaitingAtAll: it is said by max_wait: 0s, and that is no word for the default.
func TestNotWaitingAtAll(t *testing.T) {
	home(t, "max_wait: 0s\n"+oneJob)
	for _, args := range [][]string{nil, {"--max-wait", "0s"}} {
		if s, err := settings.Load("", flagsOf(t, args...)); err != nil || s.MaxWait != 0 {
			t.Errorf("max_wait is %v, %v", s, err)
		}
	}
}

// TestPathsBeginWhereTheyAreNamed: a program that cron starts elsewhere must not count
// in another ledger.
func TestPathsBeginWhereTheyAreNamed(t *testing.T) {
	home(t, "ledger: sqlite:data/ledger.db\ncatalog: catalog.db\nkey_file: ../key\n"+oneJob)
	there, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	t.Chdir(elsewhere)
	t.Setenv("INGESTOR_CATALOG", "mine.db")
	_, err = settings.Load(filepath.Join(there, "ingestor.yaml"), flagsOf(t, "--costs", "x/../costs.yaml"))
	if err == nil || !strings.Contains(err.Error(), filepath.Join(elsewhere, "costs.yaml")) {
		t.Errorf("the price book of a flag: %v", err)
	}
	s, err := settings.Load(filepath.Join(there, "ingestor.yaml"), flagsOf(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{s.Ledger, "sqlite:" + filepath.Join(there, "data", "ledger.db")},
		{s.KeyFile, filepath.Join(filepath.Dir(there), "key")},
		{s.Catalog, filepath.Join(elsewhere, "mine.db")},
	} {
		if c[0] != c[1] {
			t.Errorf("it is %s, not %s", c[0], c[1])
		}
	}
}

// TestTextsOfTheFileStayAsTheyAreWritten: YAML would read some of them as a number or as
// true.
func TestTextsOfTheFileStayAsTheyAreWritten(t *testing.T) {
	home(t, "jobs:\n  a:\n    kind: search\n    schedule: '@daily'\n    queries: [true, 007, 1e3, 2026-11-22, no, \"quoted\", !!str 7, !own tag]\n")
	s, err := settings.Load("", flagsOf(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.Jobs["a"].Queries, " "); got != "true 007 1e3 2026-11-22 no quoted 7 tag" {
		t.Errorf("the queries are %s", got)
	}
}

// TestEveryInvalidVariableIsReported, at once.
func TestEveryInvalidVariableIsReported(t *testing.T) {
	home(t, oneJob)
	t.Setenv("INGESTOR_WORKERS", "many")
	t.Setenv("INGESTOR_CALL_TIMEOUT", "long")
	t.Setenv("INGESTOR_INSECURE", "perhaps")
	_, err := settings.Load("", flagsOf(t))
	for _, want := range []string{`INGESTOR_WORKERS: "many"`, `INGESTOR_CALL_TIMEOUT: "long"`, `INGESTOR_INSECURE: "perhaps" is neither true nor false`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v, and not %s", err, want)
		}
	}
}
