package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubetest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// receiver is a webhook.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	fails func() int // the status of the answer; 0: it takes the message
	ids   map[string][]string
	tries int
	last  *http.Request
	body  []byte
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{ids: map[string][]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tries++
		if r.fails != nil {
			if status := r.fails(); status != 0 {
				w.WriteHeader(status)
				return
			}
		}
		var b body
		if err := json.Unmarshal(text, &b); err != nil {
			t.Error(err)
		}
		r.last, r.body = req, text
		for _, i := range b.Data.Items {
			key := i.ID + " " + string(i.State)
			r.ids[key] = append(r.ids[key], req.Header.Get("Webhook-Id"))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// told returns how many things were told, and fails if one was told by two messages.
func (r *receiver) told(t *testing.T) int {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, ids := range r.ids {
		for _, id := range ids {
			if id != ids[0] {
				t.Errorf("%s was told by the messages %v", key, ids)
			}
		}
	}
	return len(r.ids)
}

// rig is a ledger and a catalog that are watched.
type rig struct {
	clock   *quota.SimClock
	ledger  *quota.Ledger
	catalog *catalog.Catalog
	inputs  Inputs
}

func newRig(t *testing.T, targets map[string]Target) *rig {
	t.Helper()
	r := &rig{clock: quota.NewSimClock(noon)}
	var err error
	if r.ledger, err = youtubetest.Ledger(memstore.New(&memstore.Options{Clock: r.clock}), 2, 100, r.clock); err != nil {
		t.Fatal(err)
	}
	if r.catalog, err = catalog.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Clock: r.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.catalog.Close() })
	config := &ingest.Config{Jobs: map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 * * * *", Regions: []string{"US"}, Pages: 1}}}
	for _, fault := range config.Prepare() {
		t.Fatal(fault)
	}
	runner := ingest.NewRunner(config, r.ledger, r.catalog, nil, nil, &ingest.Options{Clock: r.clock})
	r.inputs = Inputs{Targets: targets, Facts: verdict.NewReader(&verdict.Options{Clock: r.clock, Writes: true, Folders: []string{t.TempDir()}}), Sources: &view.Sources{Ledger: r.ledger, Catalog: r.catalog, Runner: runner, Jobs: config.List()}}
	return r
}

func (r *rig) watcher(slates verdict.Slates) *Watcher {
	return New(slates, func() Inputs { return r.inputs }, &Options{Clock: r.clock, Log: slog.New(slog.DiscardHandler)})
}

// all looks with several watchers at once.
func all(t *testing.T, watchers ...*Watcher) {
	var each sync.WaitGroup
	for _, w := range watchers {
		each.Go(func() { w.Look(t.Context()) })
	}
	each.Wait()
}

var unitsPool = quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}

// TestToldOnce: several processes watch, and each event is told once, and once when it is over.
func TestToldOnce(t *testing.T) {
	to := newReceiver(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("whsec_"+base64.StdEncoding.EncodeToString([]byte("0123456789abcdefghijklmn"))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, map[string]Target{"ops": {Webhook: to.URL, Secret: secret}})
	watchers := []*Watcher{r.watcher(r.catalog), r.watcher(r.catalog), r.watcher(r.catalog)}
	for step, tt := range []struct {
		what string
		do   func() error
		want int // things told so far
	}{
		{"nothing", func() error { return nil }, 0},
		{"a block", func() error { return r.ledger.BlockFor(t.Context(), unitsPool, 10*time.Hour, "maintenance") }, 1},
		{"it lasts", func() error { return nil }, 1},
		{"it is over", func() error { return r.ledger.Admin().Unblock(t.Context(), unitsPool) }, 2},
		{"most is used", func() error { _, err := r.ledger.Admin().Adjust(t.Context(), unitsPool, 85, "spent"); return err }, 3},
		{"all is used", func() error { _, err := r.ledger.Admin().Adjust(t.Context(), unitsPool, 15, "spent"); return err }, 4},
		{"the next day", func() error { r.clock.Advance(25 * time.Hour); return nil }, 6},
		{"a run fails", func() error { return r.run(t.Context(), catalog.Failed) }, 7},
		{"one is missed", func() error { r.clock.Advance(70 * time.Minute); return nil }, 8},
		{"a run is done", func() error { return r.run(t.Context(), catalog.Done) }, 10},
	} {
		if err := tt.do(); err != nil {
			t.Fatal(tt.what, err)
		}
		all(t, watchers...)
		r.clock.Advance(15 * time.Second)
		all(t, watchers...)
		if n := to.told(t); n != tt.want {
			shown, _, _ := r.catalog.Slate(t.Context(), name)
			t.Fatalf("step %d, %s: %d things were told, want %d\n%s\n%v", step, tt.what, n, tt.want, shown, to.ids)
		}
	}
	mac := hmac.New(sha256.New, []byte("0123456789abcdefghijklmn"))
	fmt.Fprintf(mac, "%s.%s.%s", to.last.Header.Get("Webhook-Id"), to.last.Header.Get("Webhook-Timestamp"), to.body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); to.last.Header.Get("Webhook-Signature") != want {
		t.Errorf("the signature is %q, want %q", to.last.Header.Get("Webhook-Signature"), want)
	}
	if text, _, err := r.catalog.Slate(t.Context(), name); err != nil || text != `{"events":[],"messages":[]}` {
		t.Errorf("what is over is kept: %s %v", text, err)
	}
}

// run records a run of the job that ended so.
func (r *rig) run(ctx context.Context, state catalog.State) error {
	fence, err := r.catalog.NewFence(ctx, "charts")
	if err != nil {
		return err
	}
	run, err := r.catalog.Begin(ctx, catalog.Start{Job: "charts", Fence: fence, Scheduled: r.clock.Now()})
	if err != nil {
		return err
	}
	return run.End(ctx, catalog.Outcome{State: state, Error: "why"})
}

// lossy loses writes: the process dies between the answer of a target and its note.
type lossy struct {
	*catalog.Catalog
	dead bool
}

func (l *lossy) SetSlate(ctx context.Context, name, text string, version int64) (bool, error) {
	if l.dead {
		return false, errors.New("killed")
	}
	written, err := l.Catalog.SetSlate(ctx, name, text, version)
	l.dead = name == "notices"
	return written, err
}

// shut is a catalog that cannot be written while the disk is full.
type shut struct {
	*catalog.Catalog
	full *bool
}

func (s shut) SetSlate(ctx context.Context, name, text string, version int64) (bool, error) {
	if *s.full {
		return false, errors.New("database or disk is full (13)")
	}
	return s.Catalog.SetSlate(ctx, name, text, version)
}

// TestAFullDiskIsToldWithoutTheCatalog: no slate can hold it, so one process of the machine tells it by itself, and all
// the same once, and once when it is over.
func TestAFullDiskIsToldWithoutTheCatalog(t *testing.T) {
	to, down := newReceiver(t), newReceiver(t)
	fails := true
	down.fails = func() int {
		if fails {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	r := newRig(t, map[string]Target{"ops": {Webhook: to.URL}, "down": {Webhook: down.URL}, "other": {Webhook: to.URL, Tell: []Kind{Run}}})
	full := false
	on := shut{r.catalog, &full}
	r.inputs.Sources.Catalog = on
	watchers := []*Watcher{r.watcher(on), r.watcher(on)}
	look := func(want, late int) {
		t.Helper()
		for range 2 {
			all(t, watchers...)
			r.clock.Advance(15 * time.Second)
		}
		if a, b := to.told(t), down.told(t); a != want || b != late {
			t.Errorf("%d and %d things were told, not %d and %d: %s", a, b, want, late, to.body)
		}
	}
	look(0, 0)
	full = true
	look(1, 0)
	if !strings.Contains(string(to.body), "the catalog cannot be written, so no run can do its work: ") || !strings.Contains(string(to.body), "disk is full") {
		t.Errorf("it says %s", to.body)
	}
	fails = false
	look(1, 1)
	look(1, 1)
	full = false
	look(2, 2)
	if !strings.Contains(string(to.body), "Over since") {
		t.Errorf("it says %s", to.body)
	}
	full = true               // the second time is another event
	watchers[0].alone.leave() // its process has died
	look(3, 3)
}

// TestAFullDiskIsToldByThoseWhoHaveIt: a user's processes share the state folder, also those of another catalog, whose
// disk is well.
func TestAFullDiskIsToldByThoseWhoHaveIt(t *testing.T) {
	to, state := newReceiver(t), t.TempDir()
	rig := func() *rig {
		r := newRig(t, map[string]Target{"ops": {Webhook: to.URL}})
		r.inputs.Facts.Folders = []string{state, filepath.Dir(r.catalog.Path())}
		return r
	}
	well, spoiled := rig(), rig()
	full := true
	on := shut{spoiled.catalog, &full}
	spoiled.inputs.Sources.Catalog = on
	watchers := []*Watcher{well.watcher(well.catalog), spoiled.watcher(on)}
	for range 2 {
		for _, w := range watchers {
			w.Look(t.Context())
		}
	}
	if n := to.told(t); n != 1 {
		t.Errorf("%d things were told", n)
	}
}

// TestAnotherCauseIsAnotherEvent: the ledger has forgotten units, and then does not answer.
func TestAnotherCauseIsAnotherEvent(t *testing.T) {
	s := &slate{}
	targets := map[string]Target{"ops": {}}
	state := func(outage error) *verdict.State {
		return &verdict.State{Now: noon, Book: &quota.Book{}, Outage: outage}
	}
	look := func(outage error) (all []string) {
		f := find(state(outage), nil, nil)
		s.apply(noon, targets, f.facts, f.knows)
		for _, e := range s.Events {
			if e.Ended.IsZero() {
				all = append(all, e.Text)
			}
		}
		return all
	}
	forgotten := &quota.OutageError{Op: "look at youtube", Err: &quota.ForgottenError{Pool: unitsPool, Born: noon}}
	if got := look(forgotten); len(got) != 1 || !strings.HasPrefix(got[0], "the ledger has forgotten") {
		t.Error(got)
	}
	if got := look(errors.New("connection refused")); len(got) != 2 {
		t.Errorf("that it does not answer is not told, or that it has forgotten is over: %q", got)
	}
	if got := look(forgotten); len(got) != 1 {
		t.Error(got)
	}
	if got := look(nil); len(got) != 0 {
		t.Error(got)
	}
}

// TestAProcessThatAsksLaterBeginsNothingAnew: the ledger answers again, and one process has not asked yet.
func TestAProcessThatAsksLaterBeginsNothingAnew(t *testing.T) {
	w := &Watcher{lasted: map[string]bool{"ledger/a": true}}
	facts := []Fact{{Kind: Ledger, Key: "ledger/a"}, {Kind: Ledger, Key: "ledger/b"}}
	w.doubt(map[string]bool{"ledger/b": true}, facts)
	if !facts[0].Lasts || facts[1].Lasts {
		t.Errorf("%+v", facts)
	}
}

// reads counts how often the runs of a catalog are read.
type reads struct {
	*catalog.Catalog
	n atomic.Int64
}

func (r *reads) Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error) {
	r.n.Add(1)
	return r.Catalog.Runs(ctx, q)
}

// emptyFleet is one without daemons.
type emptyFleet struct{}

func (emptyFleet) Status(context.Context) (s fleet.Status, err error) { return s, nil }

// TestOneLooksForAll: in a fleet, what all would find is read by one process, and by another when that one has ended.
func TestOneLooksForAll(t *testing.T) {
	to := newReceiver(t)
	r := newRig(t, map[string]Target{"ops": {Webhook: to.URL}})
	counted := &reads{Catalog: r.catalog}
	r.inputs.Sources.Catalog, r.inputs.Sources.Fleet = counted, emptyFleet{}
	first, second := r.watcher(r.catalog), r.watcher(r.catalog)
	look := func(w *Watcher) bool {
		before := counted.n.Load()
		w.Look(t.Context())
		r.clock.Advance(5 * time.Second)
		return counted.n.Load() > before
	}
	for range 20 {
		if !look(first) || look(second) {
			t.Fatal("it is not always the first one that looks")
		}
		r.clock.Advance(5 * time.Second)
	}
	if err := r.run(t.Context(), catalog.Failed); err != nil {
		t.Fatal(err)
	}
	if look(first); to.told(t) != 1 {
		t.Fatal("a run failed, and nobody was told")
	}
	look(second)
	if err := r.run(t.Context(), catalog.Done); err != nil {
		t.Fatal(err)
	}
	for n := 0; !look(second); n++ {
		if n == 10 {
			t.Fatal("nobody looks when the first one has ended")
		}
	}
	if n := to.told(t); n != 2 {
		t.Errorf("%d things were told", n)
	}
}

// TestADaemonThatDoesNoWorkIsTold: those of a fleet may be alive and do nothing, such as with a wrong clock.
func TestADaemonThatDoesNoWorkIsTold(t *testing.T) {
	t.Parallel()
	wrong := "its clock is 5m0s ahead of the database's; set it, with NTP"
	is := &verdict.State{Now: noon, Book: &quota.Book{}, Fleet: &fleet.Status{Daemons: []fleet.Daemon{{ID: "oslo", State: fleet.Running}, {ID: "bonn", State: wrong}}}}
	f := find(is, nil, nil)
	if len(f.facts) != 1 || f.facts[0].Kind != Daemon || f.facts[0].Text != "The daemon bonn does no work: "+wrong {
		t.Errorf("it is told of %+v", f.facts)
	}
	is.Fleet.Daemons[1].State = fleet.Running
	if f = find(is, nil, nil); len(f.facts) != 0 || !f.knows("idle/bonn") {
		t.Errorf("when its clock is right, it is told of %+v", f.facts)
	}
}

// TestASenderDies after the target has taken the message. Another sends it again, with the same id.
func TestASenderDies(t *testing.T) {
	to := newReceiver(t)
	r := newRig(t, map[string]Target{"ops": {Webhook: to.URL}})
	if err := r.ledger.BlockFor(t.Context(), unitsPool, 10*time.Hour, "maintenance"); err != nil {
		t.Fatal(err)
	}
	r.watcher(&lossy{Catalog: r.catalog}).Look(t.Context())
	other := r.watcher(r.catalog)
	other.Look(t.Context())
	if to.tries != 1 {
		t.Errorf("sent %d times while a sender held the message", to.tries)
	}
	r.clock.Advance(held)
	other.Look(t.Context())
	other.Look(t.Context())
	if n := to.told(t); n != 1 || to.tries != 2 {
		t.Errorf("%d things were told in %d tries", n, to.tries)
	}
}

// TestATargetIsDown for an hour, and answers 500 for another one. Everything arrives, in one message.
func TestATargetIsDown(t *testing.T) {
	to := newReceiver(t)
	r := newRig(t, map[string]Target{"ops": {Webhook: to.URL}})
	w := r.watcher(r.catalog)
	to.fails = func() int { return http.StatusInternalServerError }
	if err := r.ledger.BlockFor(t.Context(), unitsPool, 90*time.Minute, "maintenance"); err != nil {
		t.Fatal(err)
	}
	for end := r.clock.Now().Add(2 * time.Hour); r.clock.Now().Before(end); r.clock.Advance(15 * time.Second) {
		if r.clock.Now().Sub(noon)%(30*time.Minute) == 0 {
			w = r.watcher(r.catalog) // a restart
		}
		w.Look(t.Context())
	}
	if to.tries < 10 || to.tries > 30 {
		t.Errorf("%d tries in two hours", to.tries)
	}
	to.fails = nil
	for range 4 {
		r.clock.Advance(longestTry)
		w.Look(t.Context())
	}
	if n := to.told(t); n != 2 {
		t.Errorf("%d things were told: a block, and that it is over: %v", n, to.ids)
	}
}

// TestManyAtOnce come as one message, of a bounded size.
func TestManyAtOnce(t *testing.T) {
	s, targets := &slate{}, map[string]Target{"ops": {Webhook: "http://x"}}
	var facts []Fact
	for i := range 150 {
		facts = append(facts, Fact{Key: fmt.Sprint("blocked/", i), Kind: Blocked, Text: strings.Repeat("x", 10_000)})
	}
	s.apply(noon, targets, facts, func(string) bool { return true })
	mine, _ := s.take(noon, targets, "me")
	if len(mine) != 1 || len(mine[0].Items) != mostItems || mine[0].More != 50 || len(s.Messages) != 1 {
		t.Fatalf("%d messages", len(mine))
	}
	if text, err := bodyOf(mine[0]); err != nil || len(text) > 256<<10 {
		t.Errorf("a body of %d bytes, %v", len(text), err)
	}
	if again, _ := s.take(noon, targets, "other"); len(again) != 0 {
		t.Error("another process sends it, too")
	}
}

// TestUsedUpIsNotOverWithEachUnit: a pool of which units come back one by one is told of once.
func TestUsedUpIsNotOverWithEachUnit(t *testing.T) {
	to := newReceiver(t)
	r := newRig(t, map[string]Target{"ops": {Webhook: to.URL, Tell: []Kind{Gone}}})
	w := r.watcher(r.catalog)
	spend := func(units int64) {
		t.Helper()
		if _, err := r.ledger.Admin().Adjust(t.Context(), unitsPool, units, "a test"); err != nil {
			t.Fatal(err)
		}
		w.Look(t.Context())
	}
	spend(100)
	for range 3 {
		spend(-2)
		spend(2)
	}
	if n := to.told(t); n != 1 {
		t.Errorf("%d things were told of a pool that is used up", n)
	}
	spend(-20)
	if n := to.told(t); n != 2 {
		t.Errorf("%d things were told when units are back", n)
	}
}

// TestProgramsGetNoKey: a command gets the message, and not the environment.
func TestProgramsGetNoKey(t *testing.T) {
	t.Setenv("YOUTUBE_API_KEY", "k3y")
	folder := t.TempDir()
	script := filepath.Join(folder, "sendmail")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n{ echo \"$0 $*\"; env; cat; } >>'"+folder+"/got'\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	for _, target := range []Target{{Command: []string{script, "page"}}, {Mail: []string{"ops@example.com"}, From: "me@example.com"}} {
		if err := Test(t.Context(), &target, noon); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "got"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sendmail page\n", `"state":"began"`, "sendmail -t -i\n", "From: me@example.com\nTo: ops@example.com\nSubject: [headroom] This is a test", "\n\nThis is a test by ingestor notify test\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "k3y") {
		t.Error("the program got the key")
	}
	target := Target{Command: []string{"sh", "-c", "echo no room >&2; exit 3"}}
	if err := Test(t.Context(), &target, noon); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("a program that fails: %v", err)
	}
}

// TestErrorsHideTheAddress, which may hold a secret.
func TestErrorsHideTheAddress(t *testing.T) {
	for _, address := range []string{"http://127.0.0.1:1/s3cret?key=s3cret", "http://[::1/s3cret"} {
		target := Target{Webhook: address}
		if err := Test(t.Context(), &target, noon); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v", err)
		}
		for _, err := range target.Check() {
			if strings.Contains(err.Error(), "s3cret") {
				t.Error(err)
			}
		}
	}
	if got := Host("https://hc-ping.com/s3cret/{job}"); got != "https://hc-ping.com/…" {
		t.Error(got)
	}
}

// memory is a slate in memory.
type memory struct {
	mu      sync.Mutex
	text    string
	version int64
}

func (m *memory) Slate(context.Context, string) (string, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text, m.version, nil
}

func (m *memory) SetSlate(_ context.Context, _, text string, version int64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if version != m.version {
		return false, nil
	}
	m.text, m.version = text, version+1
	return true, nil
}

// TestRandomHistories: facts come and go, targets fail, senders die. In the end each event was told, whatever
// came between, and by one message.
func TestRandomHistories(t *testing.T) {
	histories := 50
	if os.Getenv("HEADROOM_SOAK") == "1" {
		histories = 2000
	}
	for seed := range uint64(histories) {
		random := rand.New(rand.NewPCG(seed, 28))
		down := map[string]bool{}
		got := map[string]map[string]string{"a": {}, "b": {}} // by target and thing: the message
		targets := map[string]Target{"a": {Webhook: "http://a"}, "b": {Webhook: "http://b", Tell: []Kind{Blocked}}}
		home, now := &memory{}, noon
		is, begun := map[string]bool{}, map[string]Kind{}
		step := func(me string, healthy bool) {
			var facts []Fact
			for key := range is {
				kind, _, _ := strings.Cut(key, "/")
				facts = append(facts, Fact{Key: key, Kind: Kind(kind), Text: key})
			}
			blind := !healthy && random.IntN(5) == 0 // it cannot read the ledger
			if blind {
				facts = nil
			}
			text, version, _ := home.Slate(t.Context(), name)
			s := read(text)
			targets := targets
			if me == "process 0" { // it has not been reloaded yet
				targets = map[string]Target{"a": targets["a"]}
			}
			s.apply(now, targets, facts, func(string) bool { return !blind })
			for _, e := range s.Events {
				begun[e.ID] = e.Kind
			}
			var mine []message
			taken, _ := s.take(now, targets, me)
			for _, m := range taken {
				mine = append(mine, *m)
			}
			if !healthy && random.IntN(6) == 0 {
				return // it dies before it writes
			}
			_, _ = home.SetSlate(t.Context(), name, s.String(), version)
			for i := range mine {
				m := &mine[i]
				var err error
				if down[m.Target] && !healthy {
					err = errors.New("down")
				} else {
					for _, item := range m.Items {
						key := item.ID + " " + string(item.State)
						if was := got[m.Target][key]; was != "" && was != m.ID {
							t.Fatalf("seed %d: %s was told by %s and %s", seed, key, was, m.ID)
						}
						got[m.Target][key] = m.ID
					}
				}
				if !healthy && random.IntN(6) == 0 {
					continue // it dies before it notes the answer
				}
				text, version, _ := home.Slate(t.Context(), name)
				s := read(text)
				s.sent(now, m.ID, err)
				_, _ = home.SetSlate(t.Context(), name, s.String(), version)
			}
		}
		for range 120 {
			key := fmt.Sprint([]Kind{Blocked, Run}[random.IntN(2)], "/", random.IntN(4))
			if is[key] {
				delete(is, key)
			} else if random.IntN(2) == 0 {
				is[key] = true
			}
			down[[]string{"a", "b"}[random.IntN(2)]] = random.IntN(3) > 0
			step(fmt.Sprint("process ", random.IntN(3)), false)
			now = now.Add(time.Duration(random.IntN(60)) * time.Second)
		}
		clear(is)
		for range 30 {
			step("the last", true)
			now = now.Add(longestTry)
		}
		if home.text != `{"events":[],"messages":[]}` {
			t.Fatalf("seed %d: left over: %s", seed, home.text)
		}
		for id, kind := range begun {
			for name, target := range targets {
				told := got[name][id+" began"] != "" || got[name][id+" over"] != ""
				if wants := target.wants(&event{Kind: kind}); wants && got[name][id+" over"] == "" && told || told && !wants {
					t.Fatalf("seed %d: of %s %s, %s got %v", seed, kind, id, name, got[name])
				}
			}
		}
	}
}
