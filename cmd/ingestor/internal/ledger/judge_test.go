package ledger

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

// judgedServer is a limiter behind HTTP, on the clock of the judge. It keeps 5 calls in 10 s, and
// its fields say how it is wrong.
type judgedServer struct {
	clock quota.Clock
	begin func(now, last time.Time) time.Time // of a fixed window; nil: an exact log
	lets  int                                 // more than it says
	retry func(wait time.Duration) string     // nil: as it is, in whole seconds
	left  func(left int) int                  // nil: as it is
	quiet bool                                // no headers
	seen  http.Header                         // of the last call

	mu     sync.Mutex
	passed []time.Time
	window time.Time
}

var judgedRate = boundary.Rate{Limit: 5, Per: 10 * time.Second}

func (s *judgedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, limit := s.clock.Now(), judgedRate.Limit+s.lets
	s.seen = r.Header
	if s.begin != nil {
		if begin := s.begin(now, s.window); !begin.Equal(s.window) {
			s.window, s.passed = begin, nil
		}
	}
	for s.begin == nil && len(s.passed) > 0 && now.Sub(s.passed[0]) >= judgedRate.Per {
		s.passed = s.passed[1:]
	}
	free := now
	if len(s.passed) < limit {
		s.passed = append(s.passed, now)
	} else if free = s.window.Add(judgedRate.Per); s.begin == nil {
		free = s.passed[0].Add(judgedRate.Per)
	}
	left := max(judgedRate.Limit-len(s.passed), 0)
	if s.left != nil {
		left = s.left(left)
	}
	wait := free.Sub(now)
	if !s.quiet {
		w.Header().Set("RateLimit-Policy", `"a, b";q=5;w=10`)
		w.Header().Set("RateLimit", fmt.Sprintf(`"a, b";r=%d;t=%d`, left, int(wait.Seconds())))
		if wait > 0 {
			text := strconv.Itoa(int((wait + time.Second - 1) / time.Second))
			if s.retry != nil {
				text = s.retry(wait)
			}
			w.Header().Set("Retry-After", text)
		}
	}
	if wait > 0 {
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// fixedAt begins windows at a time after the multiples of their length.
func fixedAt(phase time.Duration) func(now, last time.Time) time.Time {
	return func(now, _ time.Time) time.Time {
		return now.Add(-phase).Truncate(judgedRate.Per).Add(phase)
	}
}

// fixedByCall begins a window with the first call after the last one.
func fixedByCall(now, last time.Time) time.Time {
	if now.Sub(last) < judgedRate.Per {
		return last
	}
	return now
}

// judgeURL runs the command on a moved clock.
func judgeURL(t *testing.T, clock quota.Clock, args ...string) (out, log string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := JudgeCommand(&session.Session{Clock: clock, Stdout: &stdout, Stderr: &stderr})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func claimOf(t *testing.T, v *JudgeView, header string) claimView {
	t.Helper()
	for _, c := range v.Claims {
		if c.Header == header {
			return c
		}
	}
	t.Errorf("no claim of %s in %+v", header, v.Claims)
	return claimView{}
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name    string
		server  *judgedServer
		args    []string
		worst   int
		round   string // one that saw the worst
		policy  bool
		left    bool
		retry   bool
		about   string // of Retry-After
		message string
	}{
		{name: "an exact log", worst: 5, round: "clock", policy: true, left: true, retry: true, about: "a call at that time passed, 2 of 2 times"},
		{name: "a fixed window of the clock", server: &judgedServer{begin: fixedAt(0)}, worst: 10, round: "clock", left: true, retry: true, message: "let 10 through in 10s, 5 more than RateLimit-Policy"},
		{name: "a fixed window since its start", server: &judgedServer{begin: fixedAt(3700 * time.Millisecond)}, worst: 10, round: "found", left: true, retry: true, message: "5 more"},
		{name: "a window that a call begins", server: &judgedServer{begin: fixedByCall}, worst: 9, round: "first", left: true, retry: true, message: "4 more"},
		{name: "one that lets more through than it says", server: &judgedServer{lets: 2}, worst: 7, round: "clock", left: true, retry: true, message: "2 more"},
		{name: "Retry-After too short", server: &judgedServer{retry: func(time.Duration) string { return "2" }}, worst: 5, round: "clock", policy: true, left: true, about: "refused, for 8s more"},
		{name: "Retry-After too long", server: &judgedServer{retry: func(wait time.Duration) string { return strconv.Itoa(int((wait + 5*time.Second).Seconds())) }}, worst: 5, round: "clock", policy: true, left: true, about: "before that time"},
		{name: "Retry-After far too long", server: &judgedServer{retry: func(time.Duration) string { return "3600" }}, worst: 5, round: "clock", policy: true, left: true, about: "in 1h, though"},
		{name: "a remaining that lies", server: &judgedServer{left: func(left int) int { return left + 3 }}, worst: 5, round: "clock", policy: true, retry: true},
		{name: "no headers", server: &judgedServer{quiet: true}, args: []string{"--limit", "5/10s"}, worst: 5, round: "clock", policy: true, left: true, about: "refusals name no time"},
		{name: "a higher limit than --limit", args: []string{"--limit", "4/10s"}, worst: 5, round: "clock", policy: true, left: true, retry: true, message: "1 more than --limit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clock := quota.NewSimClock(proveStart)
			limiter := cmp.Or(tt.server, &judgedServer{})
			limiter.clock = clock
			server := httptest.NewServer(limiter)
			defer server.Close()
			out, _, err := judgeURL(t, clock, append([]string{server.URL + "/", "--yes", "--output", "json", "--parallel", "3"}, tt.args...)...)
			var v JudgeView
			if err := json.Unmarshal([]byte(out), &v); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if got := console.ExitCode(err); (got == console.ExitFailed) != (tt.message != "") || err != nil && !strings.Contains(err.Error(), tt.message) {
				t.Errorf("left with %d: %v", got, err)
			}
			worst, found := 0, 0
			for _, r := range v.Rounds {
				worst = max(worst, r.Accepted)
				if r.ID == tt.round {
					found = r.Accepted
				}
			}
			if worst != tt.worst || found != tt.worst {
				t.Errorf("at worst %d, and %d in round %s, want %d:\n%s", worst, found, tt.round, tt.worst, out)
			}
			if !limiter.quiet {
				if c := claimOf(t, &v, "RateLimit-Policy"); c.Holds != holds(tt.policy) || c.Says != "5 requests in any 10s" {
					t.Errorf("%+v", c)
				}
				if c := claimOf(t, &v, "RateLimit"); c.Holds != holds(tt.left) {
					t.Errorf("%+v", c)
				}
			}
			if c := claimOf(t, &v, "Retry-After"); c.Holds != holds(tt.retry) || !strings.Contains(c.About, tt.about) {
				t.Errorf("%+v", c)
			}
		})
	}
}

// The ring of this project keeps what it says. The two-counter estimate, which is the default
// for clients, does not.
func TestJudgeOfTheThrottle(t *testing.T) {
	clock := quota.NewSimClock(proveStart)
	costs, err := book.Parse("ring.yaml", []byte("revision: 1\nfamilies: {client: {quota: 60, windows: [{per: 1m}]}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := judgeURL(t, clock, throttled(t, clock, throttle.Book()), "--yes"); console.ExitCode(err) != console.ExitFailed || !strings.Contains(err.Error(), "more than RateLimit-Policy") {
		t.Errorf("the estimate: %v", err)
	}
	url := throttled(t, clock, costs)
	picture := filepath.Join(t.TempDir(), "worst.svg")
	out, log, err := judgeURL(t, clock, url, "--yes", "--svg", picture)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"60 requests in any 1m, by RateLimit-Policy, at " + url,
		"within 12s  120                     60                   60",
		"The most that it let through in 1m, on the timeline that was its worst",
		"a call at that time passed, 2 of 2 times", "The picture is in ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(out, "  no  ") || !strings.Contains(log, "for up to 27m10s") {
		t.Errorf("%s%s", log, out)
	}
	if drawn, err := os.ReadFile(picture); err != nil || !strings.Contains(string(drawn), "Around the end of a first call&#39;s window") || !strings.Contains(string(drawn), ">60, not over<") {
		t.Errorf("%v: %s", err, drawn)
	}
}

// throttled serves with limits by the families of a price book.
func throttled(t *testing.T, clock quota.Clock, costs *quota.Book) string {
	t.Helper()
	ledger, err := quota.New(costs, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	limits, err := throttle.New(ledger, &throttle.Options{XRateLimit: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(limits.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	t.Cleanup(server.Close)
	return server.URL
}

// Nothing is sent that was not allowed, and no secret is shown.
func TestJudgeIsBounded(t *testing.T) {
	clock := quota.NewSimClock(proveStart)
	limiter := &judgedServer{clock: clock}
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++ // one at a time, as --parallel says
		switch r.URL.Path {
		case "/":
			limiter.ServeHTTP(w, r)
		case "/limit":
			w.Header().Set("X-RateLimit-Limit", "100")
		case "/away":
			http.Redirect(w, r, "http://elsewhere.example/?key=hunter2", http.StatusFound)
		case "/near":
			http.Redirect(w, r, "/there/hunter2", http.StatusFound)
		case "/open":
		case "/down":
			w.WriteHeader(http.StatusBadGateway)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	own := server.URL
	for _, tt := range []struct {
		args  []string
		code  int
		says  string
		calls int // at most
	}{
		{[]string{own}, console.ExitUsage, "would send up to 5,000 requests to " + own + " within 30m\nTo send them: ingestor judge URL --yes", 0},
		{[]string{"--yes", "127.0.0.1:80"}, console.ExitUsage, "needs a whole URL", 0},
		{[]string{"--yes", "ftp://127.0.0.1/"}, console.ExitUsage, "needs a whole URL", 0},
		{[]string{"--yes", "http://me:hunter2@127.0.0.1/"}, console.ExitUsage, "credentials", 0},
		{[]string{"--yes", "http://elsewhere.example/?key=hunter2"}, console.ExitUsage, "elsewhere.example is not this machine, and judge sends bursts of calls\nIf the service is yours: ingestor judge URL --i-own-this --yes", 0},
		{[]string{"--yes", "http://127.0.0.1.example/"}, console.ExitUsage, "is not this machine", 0},
		{[]string{"--yes", own, "--header", "hunter2"}, console.ExitUsage, "a --header is not a name", 0},
		{[]string{"--yes", own, "--header", "a: hunter2\r\nb: c"}, console.ExitUsage, "a --header is not a name", 0},
		{[]string{"--yes", own, "--limit", "many"}, console.ExitUsage, `such as 100/1m or 10/1s, not "many"`, 0},
		{[]string{"--yes", own, "--limit", "0/1s"}, console.ExitUsage, "--limit must be", 0},
		{[]string{"--yes", own, "--parallel", "0"}, console.ExitUsage, "--parallel must be 1 to 256", 0},
		{[]string{"--yes", own + "/limit"}, console.ExitUsage, "X-RateLimit-Limit names a limit of 100, but no header names its window\nName the limit with its window: ingestor judge URL --yes --limit 100/1m", 1},
		{[]string{"--yes", own + "/open"}, console.ExitUsage, "the headers name no limit\n", 1},
		{[]string{"--yes", own + "/away"}, console.ExitUsage, "to another host, elsewhere.example, and judge follows no redirect", 1},
		{[]string{"--yes", own + "/near", "--header", "X-Key: hunter2"}, console.ExitUsage, "302 Found to /there/xxxxx, and judge follows no redirect", 1},
		{[]string{"--yes", own + "/nowhere?key=hunter2"}, console.ExitUsage, own + "/nowhere answered with 404 Not Found\n", 1},
		{[]string{"--yes", own + "/down"}, console.ExitDown, "--refused 429,503,502", 1},
		{[]string{"--yes", "http://127.0.0.1:1/?key=hunter2", "--header", "X-Key: hunter2"}, console.ExitDown, "http://127.0.0.1:1/ does not answer", 0},
		{[]string{"--yes", own, "--limit", "1000/1m"}, console.ExitUsage, "takes up to 20,600 requests and 27m10s\nTo allow that: ingestor judge URL --yes --max-calls 20600 --max-time 27m10s", 1},
		{[]string{"--yes", own, "--max-time", "1m"}, console.ExitUsage, "--max-time 4m40s", 1},
		{[]string{"--yes", own + "/open", "--limit", "5/10s", "--max-calls", "700"}, console.ExitFailed, "through in 10s", 700},
		{[]string{"--yes", own, "--header", "X-Key: hunter2"}, console.ExitDone, "", 700},
	} {
		calls = 0
		out, log, err := judgeURL(t, clock, append([]string{"--parallel", "1"}, tt.args...)...)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if got := console.ExitCode(err); got != tt.code || !strings.Contains(said, tt.says) || calls > tt.calls {
			t.Errorf("%q: left with %d after %d calls: %s", tt.args, got, calls, said)
		}
		if strings.Contains(out+log+said, "hunter2") {
			t.Errorf("%q shows the secret:\n%s%s%s", tt.args, out, log, said)
		}
	}
	if got := limiter.seen.Get("X-Key"); got != "hunter2" {
		t.Errorf("the header was %q", got)
	}
}

// A limiter that was never full is not called right.
func TestJudgeProvesNothingOfCallsThatAreTooFew(t *testing.T) {
	clock := quota.NewSimClock(proveStart)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		clock.Advance(3 * time.Second) // it is that slow
	}))
	defer server.Close()
	_, _, err := judgeURL(t, clock, server.URL, "--yes", "--limit", "5/10s", "--max-time", "3h", "--parallel", "1")
	if console.ExitCode(err) != console.ExitDeferred || !strings.Contains(err.Error(), "no call was refused") {
		t.Errorf("%v", err)
	}
	_, _, err = judgeURL(t, clock, server.URL, "--yes", "--limit", "5/10s", "--max-time", "5m", "--parallel", "1")
	if console.ExitCode(err) != console.ExitDeferred || !strings.Contains(err.Error(), "--max-time is used up") {
		t.Errorf("%v", err)
	}
}

// estimate is a two-counter estimate of 5 calls in 10 s, behind HTTP.
type estimate struct {
	clock     quota.Clock
	began     time.Time // zero: with the first call
	all       bool      // refused calls count, too
	now, last int
}

func (e *estimate) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for now := e.clock.Now(); now.Sub(e.began) >= judgedRate.Per; {
		if e.began.IsZero() || e.all && now.Sub(e.began) >= 2*judgedRate.Per {
			e.began, e.now, e.last = now, 0, 0
			continue
		}
		e.began, e.now, e.last = e.began.Add(judgedRate.Per), 0, e.now
	}
	left := e.began.Add(judgedRate.Per).Sub(e.clock.Now())
	over := time.Duration(e.now+1)*judgedRate.Per+time.Duration(e.last)*left > time.Duration(judgedRate.Limit)*judgedRate.Per
	if !over || e.all {
		e.now++
	}
	if over {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// An estimate that counts refused calls, too, never lets an impatient client exceed the limit,
// but one that waits between its bursts. Another shows where its windows begin.
func TestJudgeOfEstimates(t *testing.T) {
	for _, tt := range []struct {
		round  string
		server *estimate
		worst  int
	}{
		{"patient", &estimate{all: true}, 8},
		{"found", &estimate{began: proveStart.Add(-time.Hour - 6300*time.Millisecond)}, 8},
	} {
		clock := quota.NewSimClock(proveStart)
		tt.server.clock = clock
		server := httptest.NewServer(tt.server)
		out, _, err := judgeURL(t, clock, server.URL, "--yes", "--limit", "5/10s", "--output", "json", "--parallel", "1")
		server.Close()
		var v JudgeView
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatal(err)
		}
		if worst := v.worst(); console.ExitCode(err) != console.ExitFailed || worst.ID != tt.round || worst.Accepted != tt.worst {
			t.Errorf("%s: %v\n%s", tt.round, err, out)
		}
	}
}

func TestReadClaims(t *testing.T) {
	now := time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		headers []string
		limits  string // each with its window in seconds
		left    int
		wait    time.Duration // -1: unknown
	}{
		{"the newest draft", []string{`RateLimit-Policy: "burst";q=100;w=60,"day";q=1000;w=86400`, `RateLimit: "burst";r=50;t=30, "day";r=0;t=900`}, "100/60 1000/86400", 0, 900 * time.Second},
		{"a comma in a name", []string{`RateLimit-Policy: "a,b;c";q=7;w=3;pk=:Zm9v:`}, "7/3", -1, -1},
		{"draft 7", []string{`RateLimit-Policy: 100;w=60`, `RateLimit: limit=100, remaining=20, reset=30`}, "100/60 100/0", 20, 30 * time.Second},
		{"draft 3", []string{`RateLimit-Limit: 100, 100;w=60`, `RateLimit-Remaining: 20`, `RateLimit-Reset: 30`}, "100/0 100/60", 20, 30 * time.Second},
		{"the older form", []string{`X-RateLimit-Limit: 10`, `X-RateLimit-Remaining: 3`, `X-RateLimit-Reset: 1795176060`}, "10/0", 3, now.Sub(now) + time.Unix(1795176060, 0).Sub(now)},
		{"Retry-After first", []string{`X-RateLimit-Reset: 99`, `Retry-After: 7`}, "", -1, 7 * time.Second},
		{"a date", []string{`Retry-After: Fri, 20 Nov 2026 12:00:05 GMT`}, "", -1, 5 * time.Second},
		{"nonsense", []string{`RateLimit-Policy: ;;,"`, `RateLimit: r=x`, `Retry-After: soon`, `X-RateLimit-Limit: -4`, `X-RateLimit-Reset: 1e400`}, "", -1, -1},
	} {
		h := http.Header{}
		for _, line := range tt.headers {
			name, value, _ := strings.Cut(line, ": ")
			h.Add(name, value)
		}
		c := readClaims(h, now)
		var limits []string
		for _, r := range c.rates {
			limits = append(limits, fmt.Sprintf("%d/%d", r.Limit, int(r.Per.Seconds())))
		}
		wait := c.named.Sub(now)
		if c.namedBy == "" {
			wait = -1
		}
		if strings.Join(limits, " ") != tt.limits || c.remaining != tt.left || wait != tt.wait {
			t.Errorf("%s: %q, %d left, wait %s", tt.name, limits, c.remaining, wait)
		}
	}
}
