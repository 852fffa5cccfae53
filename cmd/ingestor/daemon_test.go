package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestTheDaemonTellsOfRuns lets a daemon go on with a run that was killed, as then it
// need not wait, and reads what it says in JSON and to node_exporter.
func TestTheDaemonTellsOfRuns(t *testing.T) {
	f := newFolder(t, 1000, "")
	killed, _ := f.stalled(0, "run", "--once", "--due", "--job", "trending")
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	f.sim.Heal()

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
	var told runsView
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
		t.Errorf("it told of %+v\n%s", told.Runs, &log)
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
