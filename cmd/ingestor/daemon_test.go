package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/jobs"
)

// TestTheDaemonTellsOfRuns lets a daemon go on with a run that was killed, as then it
// need not wait, and reads what it says in JSON and to node_exporter.
func TestTheDaemonTellsOfRuns(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	f.killed()
	cmd := f.program(t.Context(), "run", "--output", "json", "--metrics-file", f.path("ingestor.prom"))
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var told jobs.RunList
	for told.Runs == nil && lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			t.Errorf("%v: %s", err, lines.Text())
		}
	}
	f.signal(cmd)
	for lines.Scan() {
		t.Errorf("it says more: %s", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("told to leave it left with %v", err)
	}
	if len(told.Runs) != 1 || told.Runs[0].Job != "trending" || told.Runs[0].State != "done" || told.Runs[0].Scheduled.IsZero() || len(told.Runs[0].Regions) != 8 {
		t.Errorf("it reported %+v\n%s", told.Runs, &log)
	}
	if !strings.Contains(log.String(), `"msg":"waiting","job":"uploads","schedule":"@yearly"`) {
		t.Errorf("it does not say what it waits for\n%s", &log)
	}
	metrics, err := os.ReadFile(f.path("ingestor.prom"))
	if err != nil {
		t.Fatal(err)
	}
	checkMetrics(t, metrics)
	if !strings.Contains(string(metrics), `ingestor_run_units{job="trending"} 32`+"\n") {
		t.Errorf("the metrics are\n%s", metrics)
	}
}

// killed is a run of trending whose process was killed in its first call: a daemon
// takes it up at once.
func (f *folder) killed() {
	f.t.Helper()
	f.env = []string{"INGESTOR_WORKERS=1"} // so that no other call is under way
	defer func() { f.env = nil }()
	cmd, _ := f.stalled(0, "run", "--once", "--due", "--job", "trending")
	if err := cmd.Process.Kill(); err != nil {
		f.t.Fatal(err)
	}
	_ = cmd.Wait()
	f.sim.Heal()
}

// TestASignalEndsTheDaemon: the first one when the pages under way are kept, a second
// one at once.
func TestASignalEndsTheDaemon(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer time.Duration // 0 is never
		again  bool
		pages  string
	}{
		"gently": {300 * time.Millisecond, false, `"pages": 1,`},
		"now":    {0, true, `"pages": 0,`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t, 1000, "")
			f.killed()
			cmd, _ := f.stalled(tt.answer, "run")
			if f.signal(cmd); tt.again {
				f.again(cmd)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("it left with %v", err)
			}
			f.sim.Heal()
			r := f.run("runs", "--limit", "1", "--output", "json")
			if !strings.Contains(r.stdout, `"state": "deferred"`) || !strings.Contains(r.stdout, tt.pages) {
				t.Errorf("the history says\n%s%s", r.stdout, r.stderr)
			}
			if r := f.run("run", "--once", "--job", "trending"); r.code != console.ExitDone {
				t.Errorf("going on left with %d\n%s%s", r.code, r.stdout, r.stderr)
			}
		})
	}
}
