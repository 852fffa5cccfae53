package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/ledger"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	sim "github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/monitoringsim"
	"github.com/headroom-quota/headroom/quota"
)

// office is a folder with a ledger in SQLite and a configuration, at noon in California,
// beside a simulated Cloud Monitoring.
type office struct {
	t     *testing.T
	clock *quota.SimClock
	began time.Time // the day in California
	cloud *sim.Server
}

func newOffice(t *testing.T, yaml string) *office {
	t.Helper()
	o := &office{t: t, began: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), cloud: sim.New()}
	o.clock = quota.NewSimClock(o.began.Add(12 * time.Hour))
	t.Cleanup(o.cloud.Close)
	key, err := o.cloud.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	home(t, "google_credentials: reader.json\nmonitoring_endpoint: "+o.cloud.URL+"\nlog_format: json\n"+yaml)
	t.Setenv("TZ", "UTC")
	if err := os.WriteFile("reader.json", key, 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

// ingestor runs a command by the office's clock.
func (o *office) ingestor(args ...string) result {
	var stdout, stderr bytes.Buffer
	a := &session.Session{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Abort: o.t.Context(), Clock: o.clock}
	cmd := root(a)
	cmd.SetArgs(ledger.Negatives(args))
	err := cmd.ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintf(&stderr, "ingestor: %s\n", err)
	}
	return result{console.ExitCode(err), stdout.String(), stderr.String()}
}

// must runs a command that succeeds, and returns what it prints.
func (o *office) must(args ...string) string {
	o.t.Helper()
	r := o.ingestor(args...)
	if r.code != console.ExitDone {
		o.t.Fatalf("%v left with %d\n%s%s", args, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// reconcile runs ingestor reconcile, and returns what it says of youtube/units.
func (o *office) reconcile(args ...string) ledger.CountView {
	o.t.Helper()
	var all []ledger.CountView
	if err := json.Unmarshal([]byte(o.must(append([]string{"reconcile", "-o", "json"}, args...)...)), &all); err != nil {
		o.t.Fatal(err)
	}
	for _, v := range all {
		if v.Pool == "youtube/units" {
			return v
		}
	}
	o.t.Fatalf("it says nothing of youtube/units: %+v", all)
	return ledger.CountView{}
}

// counted makes Google count units of the pool units so late, and know its limit.
func (o *office) counted(units int64, late time.Duration, limit int64) {
	at := o.clock.Now().Add(-late)
	o.cloud.Set(
		sim.Add(sim.Series(sim.Usage, "default"), at, units),
		sim.Add(sim.Series(sim.Limit, "default", "limit_name", "defaultPerDayPerProject"), o.began, limit),
		sim.Add(sim.Series(sim.Limit, "search_list", "limit_name", "defaultSearchListPerDayPerProject"), o.began, 100),
	)
}

// spend reserves units of the pool units.
func (o *office) spend(calls int) {
	o.t.Helper()
	a := &session.Session{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Clock: o.clock}
	o.withLedger(a, func(l *quota.Ledger) {
		for range calls {
			if _, err := l.Reserve(o.t.Context(), quota.Call{Upstream: settings.Metered, Method: "videos.list"}); err != nil {
				o.t.Fatal(err)
			}
		}
	})
}

func (o *office) withLedger(a *session.Session, f func(*quota.Ledger)) {
	o.t.Helper()
	s, err := a.Settings(flagsOf(o.t))
	if err != nil {
		o.t.Fatal(err)
	}
	var done console.Closers
	l, err := a.OpenLedger(o.t.Context(), s, &done)
	if err != nil {
		o.t.Fatal(err)
	}
	f(l)
	if err := done.Close(); err != nil {
		o.t.Fatal(err)
	}
}

// TestReconcile: the command shows both counts, says how late Google's is, and records what
// others have spent, once.
func TestReconcile(t *testing.T) {
	o := newOffice(t, "")
	o.spend(40)
	o.clock.Advance(20 * time.Minute)
	o.spend(7)
	o.clock.Advance(time.Minute)
	o.counted(540, 10*time.Minute, 10_000)
	want := ledger.CountView{
		Pool: "youtube/units", Project: "headroom-test", Metric: "youtube.googleapis.com/default", Since: o.began,
		Theirs: new(int64(540)), AsOf: new(o.clock.Now().Add(-10 * time.Minute)), Late: new(int64(600)), Ours: 47, After: 7,
		Difference: new(int64(500)), Quota: 10_000, Limit: new(int64(10_000)),
	}
	if diff := cmp.Diff(want, o.reconcile()); diff != "" {
		t.Error(diff)
	}
	text := o.must("reconcile")
	for _, part := range []string{
		"since midnight in California, 2026-11-20 08:00 UTC\n",
		"POOL            OURS  OTHERS  GOOGLE'S  WHICH IS          OURS AFTER  DIFFERENCE\n",
		"youtube/searches     0       0         -  nothing reported\n",
		"youtube/units       47       0       540  10m late                   7        +500\n",
		"Others have spent 500 units of youtube/units that the ledger lacks. To record them: ingestor reconcile --apply\n",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(part), " ")) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	want.Recorded, want.Others, want.Difference = 500, 500, new(int64(0)) // all as it is afterwards
	if diff := cmp.Diff(want, o.reconcile("--apply")); diff != "" {
		t.Error(diff)
	}
	want.Recorded = 0
	if diff := cmp.Diff(want, o.reconcile("--apply")); diff != "" {
		t.Error(diff)
	}
	for _, by := range []string{"method", "job", "class", "region", "job,method"} {
		if text := o.must("quota", "spend", "--by", by); !strings.Contains(text, "others") {
			t.Errorf("the spend by %s does not name others:\n%s", by, text)
		}
	}
	if text := o.must("quota"); !strings.Contains(strings.Join(strings.Fields(text), " "), "547 9,500 10,000") {
		t.Errorf("the quota lacks the others:\n%s", text)
	}
}

// TestReconcileDown: only --down gives back, and a count of which nothing is known is not
// one of nothing.
func TestReconcileDown(t *testing.T) {
	o := newOffice(t, "")
	o.must("quota", "adjust", "units", "300", "--reason", "a guess")
	o.clock.Advance(time.Hour)
	o.counted(100, 10*time.Minute, 10_000)
	if v := o.reconcile("--apply"); *v.Difference != -200 || v.Recorded != 0 {
		t.Errorf("without --down: %+v", v)
	}
	if text := o.must("reconcile"); !strings.Contains(text, "The ledger counts 200 units of youtube/units more than Google. If Google is right: ingestor reconcile --apply --down\n") {
		t.Error(text)
	}
	o.cloud.Set(sim.Add(sim.Series(sim.Limit, "default", "limit_name", "defaultPerDayPerProject"), o.began, 10_000))
	if v := o.reconcile("--apply", "--down"); v.Theirs != nil || v.Difference != nil || v.Recorded != 0 {
		t.Errorf("of an empty series: %+v", v)
	}
	o.counted(100, 10*time.Minute, 10_000)
	for _, want := range []int64{-200, 0} {
		if v := o.reconcile("--apply", "--down"); v.Recorded != want {
			t.Errorf("with --down: %+v, want %d", v, want)
		}
	}
}

// TestReconcileSaysWhyNothingCameBack, in place of the advice that was just followed.
func TestReconcileSaysWhyNothingCameBack(t *testing.T) {
	const advice = "ingestor reconcile --apply --down"
	t.Run("recent", func(t *testing.T) {
		o := newOffice(t, "")
		o.spend(40)
		o.clock.Advance(20 * time.Minute)
		o.counted(10, 10*time.Minute, 10_000)
		if text := o.must("reconcile", "--apply"); !strings.Contains(text, advice) {
			t.Error(text)
		}
		text := o.must("reconcile", "--apply", "--down")
		if !strings.Contains(text, "Nothing was given back: they were reserved in the half hour") || strings.Contains(text, advice) {
			t.Error(text)
		}
	})
	t.Run("no sliding window", func(t *testing.T) {
		v := ledger.CountView{Pool: "youtube/units", Theirs: new(int64(10)), AsOf: new(time.Now()), Difference: new(int64(-30)), AtLeast: true}
		text := strings.Join(v.Says(true, true), "\n")
		if !strings.Contains(text, "Nothing can be given back: the pool has no sliding window") || strings.Contains(text, advice) {
			t.Error(text)
		}
		var out bytes.Buffer
		a := &session.Session{Stdout: &out, Stderr: &out}
		if err := a.Print(nil, func(s *console.Sheet) { ledger.WriteCounts(s, []ledger.CountView{v}, nil, time.Now(), false, false) }); err != nil || !strings.Contains(out.String(), "at least -30") {
			t.Errorf("%v\n%s", err, out.String())
		}
	})
}

// TestReconcileOfManyProcesses: whoever asks, and how many, others are recorded once.
func TestReconcileOfManyProcesses(t *testing.T) {
	o := newOffice(t, "")
	o.spend(40)
	o.clock.Advance(10 * time.Minute)
	o.counted(540, 5*time.Minute, 10_000)
	var one sync.Mutex
	var sum int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			r := o.ingestor("reconcile", "--apply", "-o", "json")
			var views []ledger.CountView
			if err := json.Unmarshal([]byte(r.stdout), &views); err != nil || r.code != console.ExitDone {
				t.Errorf("left with %d: %v\n%s", r.code, err, r.stderr)
			}
			one.Lock()
			defer one.Unlock()
			for _, v := range views {
				sum += v.Recorded
			}
		})
	}
	all.Wait()
	if v := o.reconcile(); sum != 500 || v.Others != 500 {
		t.Errorf("recorded %d, and the ledger has %d of others, want 500", sum, v.Others)
	}
}

// TestReconcileSaysWhatIsMissing: the role, the API, the file or the project, by its exit
// code, and never what is in the file.
func TestReconcileSaysWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*office)
		args []string
		code int
		want string
	}{
		"the role": {
			func(o *office) { o.cloud.Refuse(&sim.Refusal{Status: 403, Code: "PERMISSION_DENIED"}) }, nil, console.ExitCredential,
			"may not read Cloud Monitoring in the project headroom-test: the role roles/monitoring.viewer is missing\nTo grant it: gcloud projects add-iam-policy-binding headroom-test --member serviceAccount:" + sim.Email + " --role roles/monitoring.viewer\n",
		},
		"the API": {func(o *office) {
			o.cloud.Refuse(&sim.Refusal{Status: 403, Reason: "SERVICE_DISABLED", Consumer: "projects/7"})
		}, nil, console.ExitCredential, "To enable it: gcloud services enable monitoring.googleapis.com --project 7\n"},
		"the key":       {func(o *office) { o.cloud.Revoke() }, nil, console.ExitCredential, "Google does not accept"},
		"Google":        {func(o *office) { o.cloud.Refuse(&sim.Refusal{Status: 502}) }, nil, console.ExitDown, "status 502"},
		"the file":      {nil, []string{"--google-credentials", "none.json"}, console.ExitConfig, "google_credentials: open"},
		"the project":   {nil, []string{"--google-project", "p q"}, console.ExitConfig, "is not the id of a Google project"},
		"--apply":       {nil, []string{"--down"}, console.ExitUsage, "--down goes with --apply"},
		"the upstream":  {nil, []string{"--costs", "builtin/github"}, console.ExitConfig, "the price book has no upstream youtube"},
		"Google's days": {func(o *office) { o.counted(1, time.Minute, 1) }, []string{"--costs", "utc.yaml"}, console.ExitConfig, "give the pool the window {per: day, zone: America/Los_Angeles}"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t, "")
			if err := os.WriteFile("utc.yaml", []byte("extends: builtin\nrevision: 2\nupstreams: {youtube: {pools: {units: {windows: [{per: day}]}}}}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if test.do != nil {
				test.do(o)
			}
			secrets := o.cloud.Secrets()
			r := o.ingestor(append([]string{"reconcile"}, test.args...)...)
			if r.code != test.code || !strings.Contains(r.stderr, test.want) {
				t.Errorf("left with %d, want %d and %q\n%s", r.code, test.code, test.want, r.stderr)
			}
			for _, secret := range secrets {
				if strings.Contains(r.stderr+r.stdout, secret) {
					t.Errorf("it shows %q", secret)
				}
			}
		})
	}
}

// TestReconcileByTheBook: the price book says which pool Google's metric is. A book that says
// it of none has the names of the built-in one.
func TestReconcileByTheBook(t *testing.T) {
	const book = "revision: 1\nupstreams: {youtube: {pools: {%s: {quota: 100, %swindows: [{per: day, zone: America/Los_Angeles}]}}, methods: {videos.list: {pool: %[1]s, cost: 1}}}}\n"
	for pool, metric := range map[string]string{"mine": "metric: youtube.googleapis.com/default, ", "units": ""} {
		o := newOffice(t, "costs: costs.yaml\n")
		if err := os.WriteFile("costs.yaml", fmt.Appendf(nil, book, pool, metric), 0o600); err != nil {
			t.Fatal(err)
		}
		o.counted(70, 5*time.Minute, 100)
		if text := o.must("reconcile"); !strings.Contains(text, "Others have spent 70 units of youtube/"+pool+" that") {
			t.Errorf("%q: %s", metric, text)
		}
	}
	o := newOffice(t, "")
	for _, name := range []string{"builtin", "builtin/youtube-2025"} {
		if text := o.must("costs", "show", "youtube", "--costs", name); !strings.Contains(text, "the upstream counts it as youtube.googleapis.com/default") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestReconcileOfOddDays: a pool that counts other days than Google hides no other pool.
func TestReconcileOfOddDays(t *testing.T) {
	o := newOffice(t, "costs: costs.yaml\n")
	const book = "extends: builtin\nrevision: 2\nupstreams: {youtube: {pools: {batch_stats: {windows: [{per: day}]}, uploads: {windows: [{per: day}]}}}}\n"
	if err := os.WriteFile("costs.yaml", []byte(book), 0o600); err != nil {
		t.Fatal(err)
	}
	o.cloud.Set(
		sim.Add(sim.Series(sim.Usage, "video_batch_get_stats"), o.clock.Now(), 1), // comes before the one that counts
		sim.Add(sim.Series(sim.Usage, "default"), o.clock.Now(), 500),
		sim.Add(sim.Series(sim.Usage, "video_insert"), o.clock.Now(), 1),
		sim.Add(sim.Series(sim.Usage, "search_list"), o.clock.Now(), 9),
	)
	o.clock.Advance(5 * time.Minute)
	r := o.ingestor("reconcile", "--apply")
	for _, want := range []string{"Recorded 500 units of others in youtube/units.", "Recorded 9 units of others in youtube/searches."} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is missing:\n%s", want, r.stdout)
		}
	}
	for _, pool := range []string{"batch_stats", "uploads"} {
		if r.code != console.ExitConfig || !strings.Contains(r.stderr, "youtube/"+pool+" has no calendar window") {
			t.Errorf("left with %d, and says nothing of %s\n%s", r.code, pool, r.stderr)
		}
	}
}

// TestAdoptedLimits: a limit that one process adopts holds in the next one, and is listed,
// until Google reports the quota of the price book.
func TestAdoptedLimits(t *testing.T) {
	o := newOffice(t, "adopt_limits: true\n")
	o.counted(0, 5*time.Minute, 50_000)
	quotaIs := func(when, limit string, listed bool) {
		t.Helper()
		if text := o.must("quota"); strings.Contains(text, "49,500") != listed || !strings.Contains(text, limit) {
			t.Errorf("%s, the quota is\n%s", when, text)
		}
		for _, args := range [][]string{{"costs", "show"}, {"limits", "list"}} {
			if text := o.must(args...); strings.Contains(text, "50,000") != listed {
				t.Errorf("%s, %v says\n%s", when, args, text)
			}
		}
	}
	quotaIs("at first", "9,500", false)
	o.must("reconcile", "--apply")
	quotaIs("adopted", "49,500", true)
	if text := o.must("costs", "show"); !strings.Contains(text, "# upstream:youtube units: 50,000, by the upstream at 2026-11-20 20:00 UTC: it reported this limit\n") {
		t.Errorf("the price book ends with\n%s", text[len(text)-300:])
	}
	t.Setenv("INGESTOR_ADOPT_LIMITS", "false")
	if text := o.must("quota") + o.must("costs", "show"); strings.Contains(text, "49,500") || strings.Contains(text, "50,000") {
		t.Errorf("without the setting: %s", text)
	}
	t.Setenv("INGESTOR_ADOPT_LIMITS", "true")
	o.clock.Advance(24 * time.Hour)
	quotaIs("on the next day", "49,500", true)
	o.began = o.began.Add(24 * time.Hour)
	o.counted(0, 5*time.Minute, 10_000)
	o.must("reconcile", "--apply")
	quotaIs("back", "9,500", false)
}

// TestCheckReadsTheCount: ingestor check says whether Google's own count can be read, and which
// right is missing.
func TestCheckReadsTheCount(t *testing.T) {
	t.Setenv("YOUTUBE_API_KEY", "any")
	o := newOffice(t, "")
	o.counted(7, 5*time.Minute, 10_000)
	if r := o.ingestor("check"); r.code != console.ExitDone || !strings.Contains(r.stdout, "google's count: project headroom-test: it can be read, for youtube/searches, youtube/units") {
		t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	o.cloud.Set(sim.Add(sim.Series(sim.Usage, "something_new"), o.clock.Now(), 12))
	if r := o.ingestor("check"); !strings.Contains(r.stdout, "Google counts youtube.googleapis.com/something_new, which no pool of the price book counts") {
		t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	o.cloud.Refuse(&sim.Refusal{Status: 403, Code: "PERMISSION_DENIED"})
	if r := o.ingestor("check"); r.code != console.ExitCredential || !strings.Contains(r.stdout, "roles/monitoring.viewer") || !strings.Contains(r.stdout, "gcloud projects add-iam-policy-binding headroom-test") {
		t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := o.ingestor("check", "--google-credentials", "none.json"); r.code != console.ExitUsage && r.code != console.ExitConfig {
		t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	home(t, "")
	if r := o.ingestor("check"); strings.Contains(r.stdout, "google's count") {
		t.Errorf("nobody asked for it:\n%s", r.stdout)
	}
}

// TestReconcileShowsTheLimit, and units that no pool counts.
func TestReconcileShowsTheLimit(t *testing.T) {
	o := newOffice(t, "")
	o.counted(0, 5*time.Minute, 50_000)
	r := o.ingestor("reconcile")
	if text := r.stdout; r.code != console.ExitDone || !strings.Contains(text, "Google's limit of youtube/units is 50,000, and the quota of the price book 10,000.") || strings.Contains(text, "limit of youtube/searches") {
		t.Error(text)
	}
	if made, err := os.ReadDir("."); err != nil || len(made) != 2 || !strings.Contains(r.stderr, "there is no ledger at ") {
		t.Errorf("it has made %v, %v, and says %s", made, err, r.stderr)
	}
	o.cloud.Set(sim.Add(sim.Series(sim.Usage, "something_new"), o.clock.Now(), 12))
	if text := o.must("reconcile"); !strings.Contains(text, "Google has counted 12 units of youtube.googleapis.com/something_new, which no pool of the price book counts.") {
		t.Error(text)
	}
}
