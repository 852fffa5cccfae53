package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
)

const deploy = "../../../../deploy"

// scraped are the metrics of a server of a fleet after it has met all that it counts, with
// the labels of each, and the text of all.
func scraped(t *testing.T) (map[string][]string, string) {
	t.Helper()
	r := newRig(t, nil)
	r.Run("trending")
	src := web.Sources{Sources: r.Sources()}
	src.Fleet = someFleet{}
	r.Must(r.server.Update(src, src.Ledger.Book()))
	pool := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
	_, err := r.Ledger.Admin().Adjust(t.Context(), pool, 20_000, "all and more")
	r.Must(err)
	if _, err := r.Ledger.Reserve(t.Context(), quota.Call{Method: "videos.list"}); !errors.Is(err, quota.ErrRefused) {
		t.Fatal(err)
	}
	r.Must(r.Ledger.BlockFor(t.Context(), pool, time.Hour, "no"))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	text := r.ask("GET", "/metrics", "").body
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	r.Must(err)
	all := map[string][]string{}
	for name, f := range families {
		var labels []string
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
		}
		all[name] = labels
		if f.GetType() == dto.MetricType_HISTOGRAM {
			all[name+"_bucket"], all[name+"_sum"], all[name+"_count"] = append(labels, "le"), labels, labels
		}
	}
	return all, text
}

// someFleet is a fleet about which there is everything to say.
type someFleet struct{ view.Fleet }

func (someFleet) Status(context.Context) (fleet.Status, error) {
	behind := int64(1)
	return fleet.Status{
		Daemons: []fleet.Daemon{{ID: "one", State: fleet.Running, Leader: true}},
		Units:   []fleet.Unit{{Job: "trending", Work: "US", State: fleet.UnitDeferred, NextAt: time.Unix(1, 0), TakenAt: time.Unix(1, 0), DeferredSince: time.Unix(1, 0)}},
		Behind:  &behind,
	}, nil
}

// expressions are those of the rules and the dashboard, each with where it stands.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(deploy, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if err := yaml.Unmarshal(read("rules.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all["rules.yaml: "+r.Alert] = r.Expr
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(read("grafana.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all["grafana.json: "+p.Title+" "+target.RefID] = target.Expr
		}
	}
	if len(rules.Groups) == 0 || len(dashboard.Panels) == 0 {
		t.Fatal("there are no rules, or no panels")
	}
	return all
}

var (
	metricName = regexp.MustCompile(`\b(?:headroom|ingestor|process|go)_\w+`)
	matchers   = regexp.MustCompile(`\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`\b(?:by|without|on|ignoring) \(([^)]*)\)`)
)

// TestDeployNamesMetricsThatExist, and labels that one of them has.
func TestDeployNamesMetricsThatExist(t *testing.T) {
	there, _ := scraped(t)
	for where, expr := range expressions(t) {
		labels := []string{"instance", "le"} // of Prometheus, and of a histogram
		names := metricName.FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric: %s", where, expr)
		}
		for _, name := range names {
			has, known := there[name]
			if !known {
				t.Errorf("%s: there is no metric %s", where, name)
			}
			labels = append(labels, has...)
			if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
				labels = append(labels, "job") // of the target
			}
		}
		for _, in := range matchers.FindAllStringSubmatch(expr, -1) {
			for _, l := range matcher.FindAllStringSubmatch(in[1], -1) {
				if !slices.Contains(labels, l[1]) {
					t.Errorf("%s: no metric of it has a label %s", where, l[1])
				}
			}
		}
		for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
			for _, l := range strings.Split(by[1], ", ") {
				if !slices.Contains(labels, l) {
					t.Errorf("%s: no metric of it has a label %s", where, l)
				}
			}
		}
	}
}

// TestDeployIsYAML reads what no program here does.
func TestDeployIsYAML(t *testing.T) {
	for _, name := range []string{"compose.yaml", "compose-fleet.yaml", "kubernetes.yaml", "kubernetes-fleet.yaml"} {
		f, err := os.Open(filepath.Join(deploy, name))
		if err != nil {
			t.Fatal(err)
		}
		documents := 0
		for d := yaml.NewDecoder(f, yaml.Strict()); ; documents++ {
			var any map[string]any
			if err = d.Decode(&any); err != nil {
				break
			}
			if strings.HasPrefix(name, "kubernetes") && (any["apiVersion"] == nil || any["kind"] == nil) {
				t.Errorf("%s: document %d is of no kind", name, documents+1)
			}
			if hasNull(any) {
				t.Errorf("%s: document %d has a list with nothing in it", name, documents+1)
			}
		}
		if !errors.Is(err, io.EOF) || documents == 0 {
			t.Errorf("%s: after %d documents %v", name, documents, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// hasNull reports whether a list in a value has an empty item.
func hasNull(value any) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return item == nil || hasNull(item) })
	case map[string]any:
		for _, item := range v {
			if hasNull(item) {
				return true
			}
		}
	}
	return false
}

// TestDeployByPromtool asks promtool of rules and of the dashboard's expressions, where
// there is one.
func TestDeployByPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: apt-get install prometheus")
	}
	records := []map[string]string{}
	for where, expr := range expressions(t) {
		if strings.HasPrefix(where, "grafana") {
			records = append(records, map[string]string{"record": fmt.Sprintf("panel:%d", len(records)), "expr": expr})
		}
	}
	panels, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": records}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(file, panels, 0o600); err != nil {
		t.Fatal(err)
	}
	_, metrics := scraped(t)
	for _, args := range [][]string{
		{"check", "metrics"},
		{"check", "config", "prometheus.yaml"},
		{"check", "rules", "rules.yaml"},
		{"test", "rules", "rules-test.yaml"},
		{"check", "rules", file},
	} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir, cmd.Stdin = deploy, strings.NewReader(metrics)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestServersHaveNoKey: the server calls no upstream.
func TestServersHaveNoKey(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(deploy, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, name := range []string{"kubernetes.yaml", "kubernetes-fleet.yaml"} {
		_, server, _ := strings.Cut(read(name), "metadata: {name: ingestor-serve")
		if name == "kubernetes.yaml" {
			_, server, _ = strings.Cut(read(name), "kind: Deployment")
		}
		server, _, _ = strings.Cut(server, "\n---")
		if strings.Contains(server, "KEY_FILE") || !strings.Contains(server, "items: [{key: token, path: token}]") || !strings.Contains(server, "port: probes") {
			t.Errorf("%s: the server has the key of the upstream, or its probes have no port", name)
		}
		if !strings.Contains(server, "- --trusted-proxies=") || !strings.Contains(server, "- --hosts=") {
			t.Errorf("%s: all who come through the Ingress are one client", name)
		}
	}
	if unit := read("systemd/ingestor-serve.service"); strings.Contains(unit, "youtube_api_key") {
		t.Error("the server's unit has the key of the upstream")
	}
	for _, name := range []string{"compose.yaml", "compose-fleet.yaml"} {
		var compose struct {
			Services map[string]struct {
				Command     []string
				Secrets     []string
				Healthcheck struct{ Test []string }
			}
		}
		if err := yaml.UnmarshalWithOptions([]byte(read(name)), &compose, yaml.AllowDuplicateMapKey()); err != nil {
			t.Fatal(err)
		}
		serve := compose.Services["serve"]
		if !slices.Equal(serve.Secrets, []string{"token"}) || len(serve.Healthcheck.Test) < 4 || serve.Healthcheck.Test[2] != "probe" {
			t.Fatalf("%s: the server is %+v", name, serve)
		}
		if !strings.Contains(strings.Join(serve.Command, " "), "--probe-listen "+strings.TrimSuffix(strings.TrimPrefix(serve.Healthcheck.Test[3], "http://"), "/readyz")) {
			t.Errorf("%s: the health check asks %s of %v", name, serve.Healthcheck.Test[3], serve.Command)
		}
	}
}

// TestUnitsAreConfined as far as the program needs nothing more. systemd knows how exposed
// a unit is, where it is installed.
func TestUnitsAreConfined(t *testing.T) {
	units, err := filepath.Glob(filepath.Join(deploy, "systemd", "*.service"))
	if err != nil || len(units) == 0 {
		t.Fatal(units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"SystemCallFilter=@system-service", "SystemCallErrorNumber=EPERM", "ProtectProc=invisible", "ProtectKernelModules=yes", "ProtectKernelLogs=yes", "LimitNOFILE=65536"} {
			if !strings.Contains(string(text), "\n"+line+"\n") {
				t.Errorf("%s lacks %s", unit, line)
			}
		}
		if _, err := exec.LookPath("systemd-analyze"); err != nil {
			continue
		}
		said, _ := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", unit).CombinedOutput()
		level := regexp.MustCompile(`exposure level for \S+: ([0-9.]+)`).FindSubmatch(said)
		if level == nil {
			continue // it is too old to tell
		}
		if n, err := strconv.ParseFloat(string(level[1]), 64); err != nil || n >= 2 {
			t.Errorf("%s: %s", unit, level[0])
		}
	}
}

// TestOperationsHaveNames, and say which security they need: none, or the token.
func TestOperationsHaveNames(t *testing.T) {
	r := newRig(t, nil)
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Security    *[]map[string][]string
		}
	}
	r.get("/api/v1/openapi.json", &doc)
	seen := map[string]bool{}
	for path, operations := range doc.Paths {
		for method, o := range operations {
			if o.OperationID == "" || seen[o.OperationID] {
				t.Errorf("%s %s has the name %q", method, path, o.OperationID)
			}
			seen[o.OperationID] = true
			if o.Security == nil || (len(*o.Security) > 0) != strings.HasPrefix(path, "/v1/") {
				t.Errorf("%s %s says of security: %v", method, path, o.Security)
			}
		}
	}
}
