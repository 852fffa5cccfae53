package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/counting"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	sim "github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/monitoringsim"
	"github.com/headroom-quota/headroom/quota"
)

// TestWatchAdoptsLimits: only the setting makes a limit that Google reports take the place
// of the quota.
func TestWatchAdoptsLimits(t *testing.T) {
	for _, test := range []struct {
		yaml    string
		limit   int64
		granted int64 // of units, class manual has the headroom
	}{
		{"", 5_000, 10_000},
		{"adopt_limits: true", 5_000, 5_000},
		{"", 20_000, 10_000},
		{"adopt_limits: true", 20_000, 20_000},
		{"adopt_limits: true", -1, 10_000},
		{"adopt_limits: true", 0, 10_000},
	} {
		t.Run(fmt.Sprint(test.yaml, test.limit), func(t *testing.T) {
			o := newOffice(t, test.yaml+"\ncosts: costs.yaml\n")
			const book = "extends: builtin\nrevision: 2\nupstreams: {youtube: {pools: {units: {windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}]}}}}\n"
			if err := os.WriteFile("costs.yaml", []byte(book), 0o600); err != nil {
				t.Fatal(err)
			}
			o.counted(0, 5*time.Minute, test.limit)
			a := &session.Session{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Clock: o.clock}
			o.withLedger(a, func(l *quota.Ledger) {
				c, err := counting.NewCounts(t.Context(), a, a.Loaded, l)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Round(t.Context(), o.clock.Now()); err != nil {
					t.Fatal(err)
				}
				granted := int64(0)
				for {
					_, err := l.Reserve(t.Context(), quota.Call{Upstream: settings.Metered, Method: "captions.insert", Class: "manual"})
					if err != nil {
						if !errors.Is(err, quota.ErrRefused) {
							t.Fatal(err)
						}
						break
					}
					granted += 400
				}
				if want := test.granted / 400 * 400; granted != want {
					t.Errorf("granted %d, want %d", granted, want)
				}
			})
		})
	}
}

// watched is a folder of whose quota others have used units today, beside a Cloud Monitoring
// that says so.
func watched(t *testing.T, units int64) (*folder, *sim.Server) {
	t.Helper()
	f, cloud := newFolder(t, 1000, ""), sim.New()
	t.Cleanup(cloud.Close)
	key, err := cloud.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	f.write("reader.json", string(key))
	f.env = []string{"INGESTOR_GOOGLE_CREDENTIALS=" + f.path("reader.json"), "INGESTOR_MONITORING_ENDPOINT=" + cloud.URL}
	began, ends, err := counting.Today(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(ends); left < 2*time.Minute { // the others would be those of yesterday
		time.Sleep(left)
		began = ends
	}
	cloud.Set(sim.Between(sim.Series(sim.Usage, "default"), began, began.Add(time.Since(began)/2), units))
	return f, cloud
}

// TestOthersAreOnThePage: a server that watches shows what others have spent.
func TestOthersAreOnThePage(t *testing.T) {
	t.Parallel()
	f, cloud := watched(t, 777)
	s := f.serve("INGESTOR_WATCH=true")
	var page string
	for deadline := time.Now().Add(time.Minute); !strings.Contains(page, "777"); {
		if page = get(t, s.url.String()); time.Now().After(deadline) {
			t.Fatalf("the page does not show them:\n%s", page)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if !regexp.MustCompile(`(?s)<h2 id="who">Who spent it</h2>.*others.*outside this ledger.*995`).MatchString(page) {
		t.Errorf("the page does not name them:\n%s", page)
	}
	if r := f.run("quota", "spend"); !strings.Contains(r.stdout, "others") {
		t.Errorf("the spend names no others:\n%s%s", r.stdout, r.stderr)
	}
	if cloud.Lists() == 0 {
		t.Error("nobody asked")
	}
	s.stop()
}

// TestAWatchThatFailsIsOnThePage, and in the metrics: a log alone is read by nobody.
func TestAWatchThatFailsIsOnThePage(t *testing.T) {
	t.Parallel()
	f, cloud := watched(t, 777)
	cloud.Refuse(&sim.Refusal{Status: 403, Code: "PERMISSION_DENIED"})
	s := f.serve("INGESTOR_WATCH=true")
	const note = "own count has not been compared since"
	var page string
	for deadline := time.Now().Add(time.Minute); !strings.Contains(page, note); time.Sleep(20 * time.Millisecond) {
		if page = get(t, s.url.String()); time.Now().After(deadline) {
			t.Fatalf("the page does not say it:\n%s", page)
		}
	}
	if !strings.Contains(page, "ingestor reconcile") || strings.Contains(strings.ReplaceAll(page, " --config "+f.dir, ""), f.dir) {
		t.Errorf("the page has no command, or another path:\n%s", page)
	}
	metrics := get(t, s.url.String()+"/metrics")
	for _, want := range []string{"\nheadroom_upstream_count_up 0\n", "\nheadroom_upstream_count_read_timestamp_seconds 0\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	s.stop()
	if text := get(t, newFolder(t, 20, "").serve().url.String()+"/metrics"); strings.Contains(text, "headroom_upstream_count") {
		t.Error("a server that does not watch has metrics of it")
	}
}

// TestRunsCountOthersFirst: a run that does not stay asks once before it starts, and works
// all the same if it gets no answer.
func TestRunsCountOthersFirst(t *testing.T) {
	t.Parallel()
	f, _ := watched(t, 995)
	if r := f.run("run", "--once", "--watch", "--job", "trending", "--region", "US"); r.code != console.ExitDeferred {
		t.Errorf("left with %d, want %d: others have spent all\n%s%s", r.code, console.ExitDeferred, r.stdout, r.stderr)
	}
	f, cloud := watched(t, 995)
	cloud.Refuse(&sim.Refusal{Status: 403, Code: "PERMISSION_DENIED"})
	r := f.run("run", "--once", "--watch", "--job", "trending", "--region", "US")
	if r.code != console.ExitDone || !strings.Contains(r.stderr, "roles/monitoring.viewer") {
		t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, secret := range cloud.Secrets() {
		if strings.Contains(r.stderr, secret) {
			t.Errorf("the log shows %q:\n%s", secret, r.stderr)
		}
	}
	f.env = append(f.env, "INGESTOR_GOOGLE_CREDENTIALS="+f.path("none.json"))
	if r := f.run("run", "--watch"); r.code != console.ExitConfig {
		t.Errorf("without credentials a daemon left with %d\n%s", r.code, r.stderr)
	}
}
