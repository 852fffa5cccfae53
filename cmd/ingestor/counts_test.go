package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/internal/googlecount"
	sim "github.com/headroom-quota/headroom/internal/monitoringsim"
	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// TestWatchIsInTime: whatever the upstream reports is recorded within ten minutes, because
// the count is read at once and then every few minutes.
func TestWatchIsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read []time.Time
		w := &watcher{every: defaultSettings("/").WatchEvery, log: slog.New(slog.DiscardHandler), clock: time.Now, tells: &view.Counting{}, round: func(context.Context) ([]*counted, error) {
			read = append(read, time.Now())
			return nil, nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		began, ended := time.Now(), make(chan struct{})
		go func() { defer close(ended); w.run(ctx) }()
		time.Sleep(24 * time.Hour)
		stop()
		<-ended
		const seconds = 60 // for a page that is open to be shown again
		last := began
		for i, at := range append(read, began.Add(24*time.Hour)) {
			if at.Sub(last) > 10*time.Minute-seconds*time.Second || i == 0 && !at.Equal(began) {
				t.Fatalf("reading %d is %s after the one before", i, at.Sub(last))
			}
			last = at
		}
	})
}

// TestWatchSaysWhatIsNew: an error, its end, and a limit are logged once each.
func TestWatchSaysWhatIsNew(t *testing.T) {
	var log bytes.Buffer
	units := quota.Pool{Upstream: metered, Account: quota.DefaultAccount, Name: "units"}
	limited := func(limit int64) []*counted {
		return []*counted{{pool: units, quota: 10_000, count: googlecount.Count{Limit: limit, Limited: true}}}
	}
	var all []*counted
	var err error
	var tells view.Counting
	w := &watcher{every: time.Minute, log: slog.New(slog.NewTextHandler(&log, nil)), clock: time.Now, tells: &tells, round: func(context.Context) ([]*counted, error) { return all, err }}
	for i, step := range []struct {
		all  []*counted
		err  error
		want string
	}{
		{limited(10_000), nil, ""},
		{nil, errors.New("no role"), "level=WARN msg=\"Google's own count cannot be read\" error=\"no role\" again_in=1m"},
		{nil, errors.New("no role"), ""},
		{nil, errors.New("down"), "error=down"},
		{limited(50_000), nil, "can be read again"},
		{limited(50_000), nil, ""},
		{limited(5_000), nil, "pool=youtube/units limit=5000 quota=10000"},
	} {
		log.Reset()
		all, err = step.all, step.err
		w.once(t.Context())
		if got := tells.State(); got.Err != step.err || got.Failed.IsZero() != (step.err == nil) || got.Read.IsZero() && step.err == nil { //nolint:errorlint // it is the same
			t.Errorf("step %d: it tells %+v", i, got)
		}
		if !strings.Contains(log.String(), step.want) || step.want == "" && log.Len() > 0 {
			t.Errorf("step %d: %s, want %s", i, &log, step.want)
		}
	}
}

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
			a := &app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, clock: o.clock}
			o.withLedger(a, func(l *quota.Ledger) {
				c, err := a.newCounts(t.Context(), a.loaded, l)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.round(t.Context(), o.clock.Now()); err != nil {
					t.Fatal(err)
				}
				granted := int64(0)
				for {
					_, err := l.Reserve(t.Context(), quota.Call{Upstream: metered, Method: "captions.insert", Class: "manual"})
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
	began, ends, err := today(time.Now())
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
	if !strings.Contains(page, "ingestor reconcile") || strings.Contains(page, f.dir) {
		t.Errorf("the page has no command, or a path:\n%s", page)
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
	f, _ := watched(t, 995)
	if r := f.run("run", "--once", "--watch", "--job", "trending", "--region", "US"); r.code != exitDeferred {
		t.Errorf("left with %d, want %d: others have spent all\n%s%s", r.code, exitDeferred, r.stdout, r.stderr)
	}
	f, cloud := watched(t, 995)
	cloud.Refuse(&sim.Refusal{Status: 403, Code: "PERMISSION_DENIED"})
	r := f.run("run", "--once", "--watch", "--job", "trending", "--region", "US")
	if r.code != exitDone || !strings.Contains(r.stderr, "roles/monitoring.viewer") {
		t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, secret := range cloud.Secrets() {
		if strings.Contains(r.stderr, secret) {
			t.Errorf("the log shows %q:\n%s", secret, r.stderr)
		}
	}
	f.env = append(f.env, "INGESTOR_GOOGLE_CREDENTIALS="+f.path("none.json"))
	if r := f.run("run", "--watch"); r.code != exitConfig {
		t.Errorf("without credentials a daemon left with %d\n%s", r.code, r.stderr)
	}
}
