package main

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// checkMetrics refuses what is not in Prometheus' text format: a family that is not
// described before its samples or stands apart, a sample twice, a label that is not
// escaped. Where promtool is, it is asked, too.
func checkMetrics(t *testing.T, text []byte) {
	t.Helper()
	sample := regexp.MustCompile(`^([a-z_]+)\{([a-z]+="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-z]+="(?:[^"\\\n]|\\[\\"n])*")*)\} -?\d+$`)
	family, seen := "", map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line, ended := strings.CutSuffix(line, "\n")
		name, is := strings.CutPrefix(line, "# TYPE ")
		switch {
		case !ended:
			t.Errorf("the last line does not end: %s", line)
		case strings.HasPrefix(line, "# HELP "):
		case is:
			family, _ = strings.CutSuffix(name, " gauge")
			if seen[family] {
				t.Errorf("%s stands there twice", family)
			}
			seen[family] = true
		default:
			m := sample.FindStringSubmatch(line)
			if m == nil || m[1] != family || seen[m[1]+m[2]] {
				t.Errorf("this is no sample of %s, or there twice: %s", family, line)
				continue
			}
			seen[m[1]+m[2]] = true
		}
	}
	if family == "" {
		t.Error("there are no metrics")
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

// TestLabelsOfMetricsAreEscaped: work that belongs to no region is called by what it
// looks for.
func TestLabelsOfMetricsAreEscaped(t *testing.T) {
	var m exposition
	m.family("ingestor_a", "A.")
	m.add("ingestor_a", 1, labels{"job", "a", "region", `C:\new "x"` + "\nend"})
	m.add("ingestor_a", -2, labels{"job", "a", "region", "東京, {x}"})
	checkMetrics(t, []byte(m.text()))
	if want := `region="C:\\new \"x\"\nend"`; !strings.Contains(m.text(), want) {
		t.Errorf("%s is not in\n%s", want, m.text())
	}
}
