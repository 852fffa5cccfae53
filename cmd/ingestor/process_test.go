package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest/dump"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// folder is one with a configuration, before an upstream that stands still: the
// same question has the same answer, so that what two runs fetched can be compared.
type folder struct {
	t      *testing.T
	dir    string
	ledger string // its address
	env    []string
	files  int // that a process may open; 0 is no bound
	sim    *youtubesim.Sim
	heard  *listener // of the process that is stalled
	said   string    // by the last tap, on standard error
}

// workers are those of a run of these tests.
const workers = 3

func newFolder(t *testing.T, quota int64, ledger string) *folder {
	t.Helper()
	f := &folder{t: t, dir: t.TempDir()}
	still := time.Date(2026, time.November, 20, 20, 0, 0, 0, time.UTC)
	f.sim = youtubesim.New(&youtubesim.Options{
		Seed: 1, Clock: func() time.Time { return still },
		Quota: youtubesim.Quota{youtubesim.Default: quota},
	})
	server := httptest.NewServer(f.sim)
	t.Cleanup(server.Close)
	if f.ledger = ledger; ledger == "" {
		f.ledger = "sqlite:" + f.path("ledger.db")
	}
	f.write("key", "a-key-of-the-tests\n")
	f.write("costs.yaml", fmt.Sprintf("extends: builtin\nrevision: 2\nupstreams: {youtube: {pools: {units: {quota: %d, headroom: 5}}}}\n", quota))
	f.write("ingestor.yaml", fmt.Sprintf(`
endpoint: %s
ledger: %s
catalog: %s
costs: %s
key_file: %s
workers: %d
jobs:
  trending: {kind: trending, schedule: "@yearly", max_runtime: 1h}
  uploads: {kind: trending, schedule: "@yearly", categories: ["10", "20"], regions: [US, DE], pages: 2, max_runtime: 1h}
  retention: {kind: retention, schedule: "@yearly", disabled: true}
`, server.URL, f.ledger, f.path("catalog.db"), f.path("costs.yaml"), f.path("key"), workers))
	return f
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// program is ingestor with an empty environment, from /: as cron may start it. Only
// where the state is has to be said, so that a test leaves that of the user alone.
func (f *folder) program(ctx context.Context, args ...string) *exec.Cmd {
	f.t.Helper()
	path, err := exec.LookPath("ingestor")
	if err != nil {
		f.t.Fatal(err)
	}
	args = append([]string{"--config", f.path("ingestor.yaml")}, args...)
	cmd := exec.CommandContext(ctx, path, args...)
	if f.files > 0 {
		cmd = exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, f.files), path}, args...)...)
	}
	cmd.Dir, cmd.Env = "/", append([]string{"XDG_STATE_HOME=" + f.dir}, f.env...)
	return cmd
}

// result is how a process ended.
type result struct {
	code           int
	stdout, stderr string
}

func (f *folder) run(args ...string) result {
	f.t.Helper()
	return finish(f.t, f.program(f.t.Context(), args...))
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var left *exec.ExitError
	if err != nil && !errors.As(err, &left) {
		t.Error(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// dump is all that the catalog holds.
func (f *folder) dump() string {
	f.t.Helper()
	c, err := catalog.Open(f.t.Context(), f.path("catalog.db"), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := dump.Text(f.t.Context(), c, false)
	if err := errors.Join(err, c.Close()); err != nil {
		f.t.Fatal(err)
	}
	return text
}

// used is how many units the ledger says are used.
func (f *folder) used() int64 {
	f.t.Helper()
	var is struct {
		Pools []struct {
			Pool    string
			Windows []struct{ Used int64 }
		}
	}
	r := f.run("quota", "--output", "json")
	if err := json.Unmarshal([]byte(r.stdout), &is); err != nil {
		f.t.Fatal(err, r.stderr)
	}
	for _, p := range is.Pools {
		if p.Pool == "youtube/units" {
			return p.Windows[0].Used
		}
	}
	f.t.Fatal(r.stdout)
	return 0
}

// redis is a client of the ledger, if that is in Redis; else nil.
func (f *folder) redis() *redis.Client {
	f.t.Helper()
	if !strings.HasPrefix(f.ledger, "redis:") {
		return nil
	}
	o, err := redis.ParseURL(f.ledger)
	if err != nil {
		f.t.Fatal(err)
	}
	return redis.NewClient(o)
}

// empty takes from a ledger that other folders have used all that there is.
func (f *folder) empty() {
	f.t.Helper()
	if c := f.redis(); c != nil {
		if err := errors.Join(c.FlushAll(f.t.Context()).Err(), c.Close()); err != nil {
			f.t.Fatal(err)
		}
	}
	if c := f.postgres(); c != nil {
		_, err := c.Exec(f.t.Context(), "DROP SCHEMA IF EXISTS headroom_ledger CASCADE")
		if err := errors.Join(err, c.Close(f.t.Context())); err != nil {
			f.t.Fatal(err)
		}
	}
}

// postgres is a client of the ledger, if that is in PostgreSQL; else nil.
func (f *folder) postgres() *pgx.Conn {
	f.t.Helper()
	if !strings.HasPrefix(f.ledger, "postgres:") {
		return nil
	}
	c, err := pgx.Connect(f.t.Context(), f.ledger)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// defers tells that a run does nothing of a job while its lease is held.
func (f *folder) defers(job string) {
	f.t.Helper()
	r := f.run("run", "--once", "--due")
	held := r.code == console.ExitDeferred && strings.Contains(r.stderr, "another process")
	ended := r.code == console.ExitDone && !strings.Contains(r.stdout, job) // killed with nothing left to do
	if !held && !ended {
		f.t.Errorf("while the lease of %s is held a run left with %d\n%s%s", job, r.code, r.stdout, r.stderr)
	}
}

// endLeases lets the leases of who was killed end, as they do by themselves after half
// a minute; until then they are held.
func (f *folder) endLeases() {
	f.t.Helper()
	if c := f.postgres(); c != nil {
		const mine = "SELECT name FROM headroom_ledger.leases WHERE until > now() + interval '10 seconds'"
		rows, _ := c.Query(f.t.Context(), mine)
		leases, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if none, ok := errors.AsType[*pgconn.PgError](err); ok && none.Code == "42P01" {
			err = nil // it was killed before it made the tables
		}
		for _, name := range leases {
			f.defers(path.Base(name))
			_, failed := c.Exec(f.t.Context(), "UPDATE headroom_ledger.leases SET until = now() WHERE name = $1", name)
			err = errors.Join(err, failed)
		}
		if err := errors.Join(err, c.Close(f.t.Context())); err != nil {
			f.t.Fatal(err)
		}
	}
	c := f.redis()
	if c == nil {
		return
	}
	leases, err := c.Keys(f.t.Context(), "*{lease/*").Result()
	for _, key := range leases {
		until, none := c.HGet(f.t.Context(), key, "until").Int64()
		if err = errors.Join(err, none); until > time.Now().Add(10*time.Second).UnixMicro() {
			f.defers(strings.TrimSuffix(path.Base(key), "}"))
			err = errors.Join(err, c.HSet(f.t.Context(), key, "until", 0).Err())
		}
	}
	if err := errors.Join(err, c.Close()); err != nil {
		f.t.Fatal(err)
	}
}

func TestFromTheRootWithAnEmptyEnvironment(t *testing.T) {
	f := newFolder(t, 1000, "")
	cmd := f.program(t.Context(), "run", "--once", "--region", "US", "--job", "trending")
	cmd.Env = []string{}
	if r := finish(t, cmd); r.code != console.ExitDone || !strings.Contains(r.stdout, "trending  US          4") {
		t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// homes are where the ledger of these tests lives, each as a function that makes one.
var homes = map[string]func(*testing.T) (ledger string){
	"sqlite": func(*testing.T) string { return "" },
	"redis": func(t *testing.T) string {
		t.Helper()
		server, err := redistest.Start(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Kill)
		return "redis://" + server.Addr + "/0"
	},
	"postgres": func(t *testing.T) string {
		t.Helper()
		return pgtest.Start(t).Database(t) // a safe one, which needs no warning
	},
}

// TestKilledRunsLoseNothing kills runs at random instants, each followed by one that
// goes on.
func TestKilledRunsLoseNothing(t *testing.T) {
	t.Parallel()
	for home, ledger := range homes {
		t.Run(home, func(t *testing.T) { killedRunsLoseNothing(t, ledger(t)) })
	}
}

func killedRunsLoseNothing(t *testing.T, ledger string) {
	kills := 3
	if os.Getenv("HEADROOM_SOAK") == "1" {
		kills = 100
	}
	calm := newFolder(t, 10_000, "")
	began := time.Now()
	if r := calm.run("run", "--once", "--due"); r.code != console.ExitDone {
		t.Fatalf("undisturbed it left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	takes := time.Since(began)
	want, units := calm.dump(), calm.sim.Counts().Total().Units

	seed := rand.Uint64()
	t.Logf("seed %d; a run takes %s", seed, takes)
	random := rand.New(rand.NewPCG(seed, 0))
	for killed := 0; killed < kills; {
		f := newFolder(t, 10_000, ledger)
		f.empty()
		in := 0
		for killed < kills { // until a run comes through
			cmd := f.program(t.Context(), "run", "--once", "--due")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(time.Duration(random.Int64N(int64(takes))), func() { _ = cmd.Process.Kill() })
			err := cmd.Wait()
			late.Stop()
			if err == nil {
				break
			}
			if code := cmd.ProcessState.ExitCode(); code >= 0 { // it left by itself
				t.Fatalf("after %d kills it left with %d", in, code)
			}
			killed++
			in++
			f.endLeases()
		}
		if r := f.run("run", "--once", "--due"); r.code != console.ExitDone {
			t.Fatalf("after %d kills it left with %d\n%s%s", in, r.code, r.stdout, r.stderr)
		}
		if got := f.dump(); got != want {
			t.Errorf("after %d kills the catalog is another: %s", in, firstDifference(want, got))
		}
		total, used := f.sim.Counts().Total(), f.used()
		most := units + int64(in*workers)
		if total.Units > most || total.Refused > 0 {
			t.Errorf("after %d kills %d units are spent, at most %d are right, and %d calls were refused", in, total.Units, most, total.Refused)
		}
		if used < total.Units || used > most {
			t.Errorf("after %d kills the ledger says %d units, the upstream %d", in, used, total.Units)
		}
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// TestOverlappingRuns starts eight at once: each runs the jobs that it finds free,
// and says who has the others. All together spend what one would.
func TestOverlappingRuns(t *testing.T) {
	t.Parallel()
	for home, ledger := range homes {
		for _, tt := range []struct {
			name         string
			quota, units int64 // 5 of the quota stay free
			last         int   // exit code of one that comes afterwards
		}{
			{"enough for all", 60, 40, console.ExitDone},
			{"the quota ends", 30, 25, console.ExitDeferred},
		} {
			t.Run(home+", "+tt.name, func(t *testing.T) {
				f := newFolder(t, tt.quota, ledger(t))
				for _, r := range f.together(8) {
					said := strings.Contains(r.stderr, "another process runs this job: ") && strings.Contains(r.stdout, "held") ||
						strings.Contains(r.stdout, "deferred")
					if r.code != console.ExitDone && (r.code != console.ExitDeferred || !said) {
						t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
					}
				}
				if r := f.run("run", "--once", "--due"); tt.last == console.ExitDone && r.code != console.ExitDone {
					t.Errorf("the last one left with %d\n%s%s", r.code, r.stdout, r.stderr)
				}
				if total := f.sim.Counts().Total(); total.Units != tt.units || total.Refused > 0 {
					t.Errorf("%d units were spent, want %d as by one process; refused: %d", total.Units, tt.units, total.Refused)
				}
				if tt.last != console.ExitDone {
					return // which regions came first is up to the machine
				}
				alone := newFolder(t, tt.quota, "")
				alone.run("run", "--once", "--due")
				if want, got := alone.dump(), f.dump(); want != got {
					t.Errorf("eight made another catalog than one: %s", firstDifference(want, got))
				}
			})
		}
	}
}

// TestQuietAboutAnother: with --quiet, only the exit code says that another process runs
// the job.
func TestQuietAboutAnother(t *testing.T) {
	f := newFolder(t, 1000, "")
	lock, err := lease.Files(f.path("locks")).Lock(t.Context(), "default/trending")
	if err != nil {
		t.Fatal(err)
	}
	if r := f.run("run", "--once", "--job", "trending", "--quiet"); r.code != console.ExitDeferred || r.stdout+r.stderr != "" {
		t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := f.run("run", "--once", "--job", "trending"); r.code != console.ExitDeferred || !strings.Contains(r.stderr, "another process runs this job: process ") {
		t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// together starts so many runs at once.
func (f *folder) together(n int) []result {
	f.t.Helper()
	results := make([]result, n)
	var all sync.WaitGroup
	for i := range results {
		cmd := f.program(f.t.Context(), "run", "--once", "--due")
		all.Go(func() { results[i] = finish(f.t, cmd) })
	}
	all.Wait()
	return results
}

// stalled is a process with a call under way that is not answered for a while.
func (f *folder) stalled(answer time.Duration, args ...string) (cmd *exec.Cmd, stdout *bytes.Buffer) {
	f.t.Helper()
	under := make(chan struct{})
	var once sync.Once
	f.sim.Inject(youtubesim.Fault{Do: youtubesim.Stall, Delay: answer, Match: func(*http.Request) bool {
		once.Do(func() { close(under) })
		return true
	}})
	cmd, stdout = f.program(f.t.Context(), args...), &bytes.Buffer{}
	f.heard = &listener{words: `"msg":"stopping: `, heard: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = stdout, f.heard
	gone := f.start(cmd)
	select {
	case <-under:
	case <-gone:
		err := cmd.Wait() // its output is complete then
		f.t.Fatalf("%q has ended before its first call: %v\n%s%s", args, err, stdout, &f.heard.all)
	}
	return cmd, stdout
}

// start starts a process, and returns a channel that is closed when it has ended, for whatever
// reason. The process inherits the end of a pipe that only its death closes.
func (f *folder) start(cmd *exec.Cmd) (gone <-chan struct{}) {
	f.t.Helper()
	alive, held, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{held}
	if err := errors.Join(cmd.Start(), held.Close()); err != nil {
		f.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = alive.Read(make([]byte, 1)) // nobody writes: it returns at the end
		_ = alive.Close()
	}()
	return ended
}

// listener waits for words in what a process writes.
type listener struct {
	words string
	heard chan struct{}
	all   strings.Builder
}

// Write implements [io.Writer].
func (l *listener) Write(p []byte) (int, error) {
	before := strings.Contains(l.all.String(), l.words)
	l.all.Write(p)
	if !before && strings.Contains(l.all.String(), l.words) {
		close(l.heard)
	}
	return len(p), nil
}

func (f *folder) signal(cmd *exec.Cmd) {
	f.t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		f.t.Fatal(err)
	}
}

// again tells the process that is stalled once more to stop, when it has heard the
// first time: two signals at once may become one.
func (f *folder) again(cmd *exec.Cmd) {
	f.t.Helper()
	<-f.heard.heard
	f.signal(cmd)
}

// TestASignalLetsThePageFinish, and a second one does not.
func TestASignalLetsThePageFinish(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	cmd, stdout := f.stalled(300*time.Millisecond, "run", "--once", "--job", "trending")
	f.signal(cmd)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != console.ExitDeferred || !strings.Contains(stdout.String(), "1  deferred") {
		t.Errorf("left with %d\n%s", code, stdout)
	}
	f.sim.Heal()
	if r := f.run("run", "--once", "--job", "trending"); r.code != console.ExitDone {
		t.Errorf("going on left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if total := f.sim.Counts().Total(); total.Units != 32 {
		t.Errorf("%d units were spent, want 32: what was fetched is kept", total.Units)
	}

	f = newFolder(t, 1000, "")
	cmd, _ = f.stalled(0, "run", "--once", "--job", "trending") // it never answers
	f.signal(cmd)
	f.again(cmd)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != console.ExitDeferred {
		t.Errorf("told twice it left with %d", code)
	}
}

// TestSandbox: it counts what it grants, refuses and breaks on purpose.
func TestSandbox(t *testing.T) {
	for name, tt := range map[string]struct {
		args         []string
		counts, says string
	}{
		"a quota":   {[]string{"--quota", "3"}, `"calls":3,"units":3,"refused":1,"failed":0,"bad_key":0}`, `CALLS  UNITS  REFUSED\n.* videos.list      3      3        1\n`},
		"faults":    {[]string{"--fail", "100%"}, `"calls":4,"units":4,"refused":0,"failed":4,"bad_key":0}`, `REFUSED  FAILED\n.* videos.list      4      4        0       4\n`},
		"a limit":   {[]string{"--hidden-limit", "3/1h"}, `"calls":3,"units":3,"refused":0,"failed":1,"bad_key":0}`, `REFUSED  FAILED\n.* videos.list      3      3        0       1\n`},
		"a bad key": {[]string{"--reject-key"}, `"calls":0,"units":0,"refused":0,"failed":0,"bad_key":4}`, `REFUSED  BAD KEY\n.* videos.list      0      0        0        4\n`},
	} {
		t.Run(name, func(t *testing.T) { sandbox(t, tt.args, tt.counts, tt.says) })
	}
}

// sandbox makes four calls, and checks what the sandbox says of them.
func sandbox(t *testing.T, args []string, counted, says string) {
	t.Helper()
	f := newFolder(t, 1000, "")
	ready := make(chan string)
	cmd := f.program(t.Context(), append([]string{"sandbox", "--listen", "127.0.0.1:0"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var rest strings.Builder
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if url, is := strings.CutPrefix(lines.Text(), "endpoint: "); is {
				ready <- url
			}
			rest.WriteString(lines.Text() + "\n")
		}
		close(ready)
	}()
	url := <-ready
	for range 4 {
		get(t, url+"/youtube/v3/videos?part=id&chart=mostPopular&regionCode=US&key=any")
	}
	if counts := get(t, url+"/__counts"); !strings.Contains(counts, counted) {
		t.Errorf("it counted %s", counts)
	}
	f.signal(cmd)
	for range ready { // until its output ends
	}
	if err := cmd.Wait(); err != nil || !regexp.MustCompile(says).MatchString(rest.String()) {
		t.Errorf("%v\n%s", err, &rest)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url) //nolint:noctx // the server is ours
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestACommandCollectsNoGarbage: it ends before its heap is large enough. Go says in a trace
// whether it collected.
func TestACommandCollectsNoGarbage(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	for _, tt := range []struct {
		env       []string
		collected bool
	}{{nil, false}, {[]string{"GOGC=20"}, true}} {
		f.env = append(tt.env, "GODEBUG=gctrace=1")
		if r := f.run("quota"); r.code != console.ExitDone || strings.Contains(r.stderr, "gc 1 @") != tt.collected {
			t.Errorf("with %v, quota left with %d:\n%s", tt.env, r.code, r.stderr)
		}
	}
}
