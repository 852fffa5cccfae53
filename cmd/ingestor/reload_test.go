package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/jobs"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// resident is a process that stays, with what it logs, line by line.
type resident struct {
	*folder
	cmd    *exec.Cmd
	stdout *bufio.Scanner
	log    <-chan string
	heard  []string // lines of the log that were read
}

func (f *folder) stay(args ...string) *resident {
	f.t.Helper()
	cmd := f.program(f.t.Context(), args...)
	f.write("token", "a-token-of-the-tests-0123456789\n")
	cmd.Env = append(cmd.Env, "INGESTOR_TOKEN_FILE="+f.path("token"))
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = cmd.Process.Kill() })
	log := make(chan string, 10_000) // more than it says here: it must not have to wait
	go func() {
		defer close(log)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			log <- lines.Text()
		}
	}()
	return &resident{f, cmd, bufio.NewScanner(stdout), log, nil}
}

// serving waits until a server says where it is.
func (r *resident) serving() (url string) {
	r.t.Helper()
	if !r.stdout.Scan() {
		r.waitFor("serving")
	}
	return strings.TrimPrefix(r.stdout.Text(), "serving on ")
}

// hangup asks to read the settings again, and waits until it is said what came of it.
func (r *resident) hangup(want string) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		r.t.Fatal(err)
	}
	if said := r.waitFor("reloaded"); !regexp.MustCompile(want).MatchString(said) {
		r.t.Errorf("it says %s, want %s", said, want)
	}
}

// waitFor reads the log up to a line that matches.
func (r *resident) waitFor(want string) string {
	r.t.Helper()
	var seen []string
	for line := range r.log {
		r.heard = append(r.heard, line)
		if regexp.MustCompile(want).MatchString(line) {
			return line
		}
		seen = append(seen, line)
	}
	r.t.Fatalf("it has ended, and never said %s:\n%s", want, strings.Join(seen, "\n"))
	return ""
}

// quota writes a price book with so many units; five stay free.
func (f *folder) quota(units int) {
	f.t.Helper()
	f.write("costs.yaml", fmt.Sprintf("extends: builtin\nrevision: 2\nupstreams: {youtube: {pools: {units: {quota: %d, headroom: 5}}}}\n", units))
}

// edit replaces a text in the configuration.
func (f *folder) edit(from, to string) {
	f.t.Helper()
	text, err := os.ReadFile(f.path("ingestor.yaml"))
	if err != nil {
		f.t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		f.t.Fatalf("%q is not in %s", from, text)
	}
	f.write("ingestor.yaml", strings.Replace(string(text), from, to, 1))
}

// refuse sends price books and configurations that cannot be taken up, and expects each to
// be refused with its place or its name.
func (r *resident) refuse(more map[string]string) {
	r.t.Helper()
	good, err := os.ReadFile(r.path("costs.yaml"))
	if err != nil {
		r.t.Fatal(err)
	}
	books := map[string]string{
		"extends: builtin\nrevision: 2\nupstreams: {youtube: {pools: {units: {qouta: 5}}}}\n": `costs\.yaml:3:39.*did you mean`,
		"extends: builtin\nrevision: 2\nupstreams: [\n":                                       `costs\.yaml:3`,
		"":                                `costs\.yaml`,
		"extends: builtin\nrevision: 1\n": `costs\.yaml: the price book has revision 1, and 2 is in use`,
		"extends: builtin\nrevision: 2\nupstreams: {youtube: {pools: {units: {quota: 505, windows: [{per: 24h}]}}}}\n": `youtube/units has other windows under the same revision 2`,
	}
	maps.Copy(books, more)
	for book, want := range books {
		r.write("costs.yaml", book)
		r.hangup("not reloaded.*" + want)
	}
	r.write("costs.yaml", string(good))
	for _, one := range [][3]string{
		{"workers: ", "wrokers: ", `ingestor\.yaml:\d+:\d+.*wrokers`},
		{"/catalog.db", "/another.db", `catalog has changed\\nTo use the new value, restart the program, or restore the old one`},
		{"endpoint: http:", "endpoint: https:", `endpoint has changed\\nTo use the new value, restart`},
	} {
		r.edit(one[0], one[1])
		r.hangup("not reloaded.*" + one[2])
		r.edit(one[1], one[0])
	}
}

// TestHangupWhileServing changes the quota while programs reserve from a ledger in
// memory, which would forget all if it were opened anew.
func TestHangupWhileServing(t *testing.T) {
	f := newFolder(t, 105, "")
	f.edit("ledger: sqlite:"+f.path("ledger.db"), `ledger: "memory:"`)
	r := f.stay("serve", "--listen", "127.0.0.1:0")
	url := r.serving()
	var granted atomic.Int64
	var all sync.WaitGroup
	enough := make(chan struct{})
	for range 4 {
		all.Go(func() {
			for {
				switch status, body := reserveUnit(url); {
				case status == http.StatusOK:
					granted.Add(1)
				case status != http.StatusTooManyRequests:
					t.Errorf("it answers %d: %s", status, body)
					return
				}
				select {
				case <-enough:
					return
				default:
				}
			}
		})
	}
	for _, quota := range []int{205, 150, 305, 405} {
		f.quota(quota)
		r.hangup(`"msg":"reloaded"`)
	}
	r.refuse(map[string]string{
		"extends: builtin\nrevision: 2\nfamilies: {client_none: {windows: [{per: 1m, quota: 1}]}}\n": `client_none of the price book limits no route`,
	})
	for range 30 {
		if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	r.waitFor(`"msg":"reloaded"`)
	for granted.Load() < 400 && !t.Failed() {
		status, body := reserveUnit(url) // somebody asks, so this ends
		if status == http.StatusOK {
			granted.Add(1)
		} else if status != http.StatusTooManyRequests {
			t.Errorf("it answers %d: %s", status, body)
		}
	}
	if status, _ := reserveUnit(url); status != http.StatusTooManyRequests {
		t.Errorf("after all of the limit it answers %d", status)
	}
	close(enough)
	all.Wait()
	if n, used := granted.Load(), used(t, url); n != 400 || used != 400 {
		t.Errorf("of 400 units %d were granted, and %d are used", n, used)
	}
}

// reserveUnit asks for a unit of youtube/units.
func reserveUnit(url string) (status int, body string) {
	req, err := http.NewRequest(http.MethodPost, url+"/v1/reserve", strings.NewReader(`{"method": "videos.list"}`)) //nolint:noctx // it ends with the test
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Authorization", "Bearer a-token-of-the-tests-0123456789")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// scrape asks a server as Prometheus does.
func scrape(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url + "/metrics") //nolint:noctx // it ends with the test
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// used asks a server what is used of youtube/units.
func used(t *testing.T, url string) (n int64) {
	t.Helper()
	text := scrape(t, url)
	line := regexp.MustCompile(`(?m)^headroom_window_used_units\{account="default",pool="units",upstream="youtube",window="24h"\} .*$`).FindString(text)
	if _, err := fmt.Sscanf(line[strings.LastIndex(line, " ")+1:], "%d", &n); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return n
}

// TestHangupOfADaemon exchanges prices and jobs while calls of a run are under way, and
// counts the units here and at the upstream.
func TestHangupOfADaemon(t *testing.T) {
	f := newFolder(t, 1000, "")
	killed, _ := f.stalled(0, "run", "--once", "--due", "--job", "trending") // a daemon goes on with it at once
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	f.sim.Heal()
	unsent := f.used() - f.sim.Counts().Total().Units // reserved by what was killed before it could call

	under, on := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.sim.Inject(youtubesim.Fault{Do: youtubesim.Answer, Match: func(*http.Request) bool {
		once.Do(func() { close(under) })
		<-on
		return false
	}})
	r := f.stay("run", "--output", "json")
	for waits := true; waits; {
		select {
		case <-under:
			waits = false
		case line, open := <-r.log:
			if r.heard = append(r.heard, line); !open {
				t.Fatalf("the daemon has ended before its first call: %v\n%s", r.cmd.Wait(), strings.Join(r.heard, "\n"))
			}
		}
	}
	r.refuse(nil)
	const limit = 32 + 3 + 3 // what the first run needs, and some of the second
	f.quota(limit + 5)
	f.edit(`trending: {kind: trending, schedule: "@yearly"`, `trending: {kind: trending, categories: ["10"], pages: 1, schedule: "@every 1m"`)
	r.hangup(`"msg":"reloaded"`)
	for range 30 {
		if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	r.waitFor(`"msg":"reloaded"`)
	close(on)

	first, second := r.nextRun(), r.nextRun()
	if len(first.Regions) != 8 || first.State != "done" || first.Units != 32 {
		t.Errorf("the run that was under way did not end as it began: %+v", first)
	}
	if second.State != "deferred" || second.Units > 6 {
		t.Errorf("the run by the new definition and limit: %+v", second)
	}
	f.signal(r.cmd)
	for range r.log { //nolint:revive // to its end, before Wait closes it
	}
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("told to leave it left with %v", err)
	}
	if used, total := f.used(), f.sim.Counts().Total(); used != limit || total.Units != limit-unsent || total.Refused > 0 {
		t.Errorf("of %d units the ledger has %d and the upstream %d, without %d unsent, and refused %d", limit, used, total.Units, unsent, total.Refused)
	}
}

// nextRun returns the next run that a daemon reports.
func (r *resident) nextRun() *jobs.RunView {
	r.t.Helper()
	for r.stdout.Scan() {
		var told jobs.RunList
		if err := json.Unmarshal(r.stdout.Bytes(), &told); err != nil {
			r.t.Fatalf("%v: %s", err, r.stdout.Text())
		}
		for _, run := range told.Runs {
			return run
		}
	}
	r.t.Fatal("it has ended")
	return nil
}

func TestAnEmptyListIsNoChange(t *testing.T) {
	home(t, oneJob)
	s, err := settings.Load("", flagsOf(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("ingestor.yaml", []byte("trusted_proxies: []\n"+oneJob), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&session.Session{}).Reread(s, true); err != nil {
		t.Error(err)
	}
}
