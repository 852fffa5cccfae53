package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
)

// logLine is a line of the log, which a person may want to copy whole.
var logLine = regexp.MustCompile(`\d\d:\d\d:\d\d (INF|WRN|ERR) `)

// TestTablesFitWhateverNamesAreCalled: a table on 80 columns cuts names, never figures.
func TestTablesFitWhateverNamesAreCalled(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	long := strings.Repeat("long_", 11) + "job"
	account := "account-" + strings.Repeat("x", 56)
	written, err := os.ReadFile(f.path("ingestor.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(written), "\njobs:")
	f.write("costs.yaml", fmt.Sprintf("extends: builtin\nrevision: 2\nupstreams: {youtube: {accounts: {default: {}, %s: {}}, pools: {units: {quota: 1205, headroom: 5}}}}\n", account))
	f.write("ingestor.yaml", head+fmt.Sprintf(`
accounts: {%[2]s: {key_file: %[3]s}}
jobs:
  %[1]s: {kind: trending, schedule: "@every 30m", account: %[2]s, regions: [US, DE, FR, GB, IN, BR, AU, CA], max_runtime: 1h, misfire: skip}
  %[1]s2: {kind: search, schedule: "@every 3h", account: %[2]s, regions: [US], queries: [%[4]q]}
  uploads: {kind: uploads, schedule: "@yearly", channels: [%[5]q]}
`, long, account, f.path("key"), strings.Repeat("query ", 20), strings.Repeat("UC", 40)))
	if r := f.run("config"); r.code != console.ExitDone {
		t.Fatal(r.stderr)
	}
	env := []string{"TERM=xterm-256color", "TZ=UTC", "XDG_STATE_HOME=" + f.dir}
	look := func(args ...string) string {
		shown, _ := leftTerminal(t, 80, env, append([]string{"--config", f.path("ingestor.yaml")}, args...)...)
		text := ansi.Strip(shown)
		for line := range strings.SplitSeq(text, "\r\n") {
			line = line[strings.LastIndex(line, "\r")+1:]
			if wide := ansi.StringWidth(line); wide > 80 && !strings.Contains(line, "/") && !logLine.MatchString(line) {
				t.Errorf("%s: %d columns: %q", strings.Join(args, " "), wide, line)
			}
		}
		return text
	}
	look("run", "--once", "--job", long)
	look("run", "--once", "--job", long+"2")
	look("run", "--once", "--job", "uploads")
	for _, command := range []string{"runs", "runs --work", "state", "quota", "quota spend --by job,region,method", "quota spend --by account", "regions", "config", "costs show videos.list", "trending US"} {
		if shown := look(strings.Fields(command)...); len(shown) < 40 {
			t.Errorf("%s shows only %q", command, shown)
		}
	}
	shown := look("plan", "--days", "2")
	if !strings.Contains(shown, "does not fit") {
		t.Errorf("the plan fits, and so shows too little:\n%s", shown)
	}
	if cut := regexp.MustCompile(`\d…`).FindString(strings.ReplaceAll(shown, "job2…", "")); cut != "" {
		t.Errorf("a figure is cut: %s\n%s", cut, shown)
	}
	var plan struct {
		Compared []struct{ Units map[string]int64 }
	}
	if err := json.Unmarshal([]byte(f.run("plan", "--days", "2", "--output", "json").stdout), &plan); err != nil || len(plan.Compared) < 3 {
		t.Fatal(plan, err)
	}
	_, compared, _ := strings.Cut(shown, "as configured")
	for _, c := range plan.Compared {
		for pool, units := range c.Units {
			if !strings.Contains(compared, " "+view.Number(units)) {
				t.Errorf("%d units of %s are missing:\n%s", units, pool, shown)
			}
		}
	}
}

// TestRunsOfThreePoolsAreRows: the built-in jobs and a search charge three pools.
func TestRunsOfThreePoolsAreRows(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	written, err := os.ReadFile(f.path("ingestor.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(written), "\njobs:")
	f.write("ingestor.yaml", head+`
jobs:
  trending: {kind: trending, schedule: "@every 30m", regions: [US]}
  stats: {kind: stats, schedule: "@every 30m"}
  news: {kind: search, schedule: "@every 30m", regions: [US], queries: [news]}
`)
	for _, job := range []string{"trending", "stats", "news"} {
		if r := f.run("run", "--once", "--job", job, "--quiet"); r.code != console.ExitDone {
			t.Fatal(r)
		}
	}
	shown, _ := leftTerminal(t, 80, []string{"TERM=xterm-256color", "TZ=UTC", "XDG_STATE_HOME=" + f.dir}, "--config", f.path("ingestor.yaml"), "runs")
	if lines := strings.Count(strings.TrimSpace(shown), "\n") + 1; lines != 4 {
		t.Errorf("three runs have %d lines, not a heading and three rows:\n%s", lines, shown)
	}
}

// TestOtherLocalesGetASCII: a terminal that has no UTF-8 cannot show bars of blocks.
func TestOtherLocalesGetASCII(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	if r := f.run("run", "--once", "--job", "trending", "--quiet"); r.code != console.ExitDone {
		t.Fatal(r)
	}
	for locale, ascii := range map[string]bool{"LANG=C": true, "LC_ALL=POSIX": true, "LANG=de_DE.ISO-8859-1": true, "LANG=C.UTF-8": false, "LANG=en_US.utf8": false, "X=": false} {
		t.Run(locale, func(t *testing.T) {
			env := []string{"TERM=xterm-256color", "TZ=UTC", "XDG_STATE_HOME=" + f.dir, locale}
			commands := [][]string{{"quota"}, {"runs"}}
			if strings.HasPrefix(locale, "LANG=C") { // its bars take their time
				commands = append([][]string{{"run", "--once", "--job", "trending"}}, commands...)
			}
			for _, args := range commands {
				shown := onTerminal(t, 80, env, append([]string{"--config", f.path("ingestor.yaml")}, args...)...)
				other := strings.IndexFunc(shown, func(r rune) bool { return r > '~' })
				if ascii && other >= 0 {
					t.Errorf("%v has %q", args, shown[other:min(len(shown), other+40)])
				}
				if !ascii && args[0] != "runs" && other < 0 {
					t.Errorf("%v has no blocks: %q", args, shown)
				}
			}
		})
	}
}
