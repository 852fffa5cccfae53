package main

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
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
