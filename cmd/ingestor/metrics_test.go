package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

// checkMetrics refuses what is not in Prometheus' text format. Where promtool is, it is
// asked, too.
func checkMetrics(t *testing.T, text []byte) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil || len(all) == 0 {
		t.Errorf("%d metrics, and %v", len(all), err)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		return
	}
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool says %v\n%s", err, out)
	}
}

// TestMetricsTellOfOtherProcesses: a server reports the run of another process, which
// started later.
func TestMetricsTellOfOtherProcesses(t *testing.T) {
	f := newFolder(t, 1000, "")
	r := f.stay("serve", "--listen", "127.0.0.1:0")
	url := r.serving()
	if done := f.run("run", "--once", "--job", "trending", "--region", "US"); done.code != console.ExitDone {
		t.Fatal(done.stderr)
	}
	text := scrape(t, url)
	checkMetrics(t, []byte(text))
	for _, want := range []string{
		`ingestor_run_units{job="trending"} 4`,
		`ingestor_run_state{job="trending",state="done"} 1`,
		`headroom_window_used_units{account="default",pool="units",upstream="youtube",window="24h"} 4`,
		`headroom_spend_today_units{account="default",class="",job="trending",method="videos.list",pool="units",region="US",upstream="youtube"} 4`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is not there", want)
		}
	}
	if strings.Contains(text, "a-key-of-the-tests") || strings.Contains(text, "a-token-of-the-tests") {
		t.Error("a secret is there")
	}
}
