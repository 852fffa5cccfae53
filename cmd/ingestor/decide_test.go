package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
)

// theToken is what must not be found anywhere.
const theToken = "RECOGNISE0me0wherever0I0am0too"

// served is a process that serves.
type served struct {
	*folder
	cmd    *exec.Cmd
	url    *url.URL
	said   *bytes.Buffer // complete once it has ended
	read   chan struct{} // closed then
	probes string        // the address of its probes, if it has one
}

// serve starts a server with these variables.
func (f *folder) serve(env ...string) *served {
	f.t.Helper()
	s := &served{folder: f, said: &bytes.Buffer{}, read: make(chan struct{})}
	s.cmd = f.program(context.Background(), "serve", "--listen", "127.0.0.1:0", "--log-level", "debug")
	s.cmd.Env = append(s.cmd.Env, env...)
	out, in, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = in, in
	if err := s.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	_ = in.Close()
	at := make(chan string, 1)
	go func() {
		defer close(s.read)
		defer close(at)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(s.said, lines.Text())
			if address, is := strings.CutPrefix(lines.Text(), "probes on http://"); is {
				s.probes = address
			}
			if address, is := strings.CutPrefix(lines.Text(), "serving on "); is {
				at <- address
			}
		}
	}()
	address, ok := <-at
	if !ok {
		f.t.Fatalf("it does not serve: %s", s.said)
	}
	if s.url, err = url.Parse(address); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// reserve asks for a reservation, and returns the status and all else that is answered
// but the date.
func (s *served) reserve(authorization, body string) (status int, said string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url.String()+"/v1/reserve", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		s.t.Fatal(err)
	}
	res.Header.Del("Date")
	return res.StatusCode, fmt.Sprint(res.Header, string(text))
}

// stop ends it, and returns all that it wrote.
func (s *served) stop() string {
	s.t.Helper()
	s.signal(s.cmd)
	<-s.read
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("it left with %v: %s", err, s.said)
	}
	return s.said.String()
}

// roundRobin sends requests to servers by turns.
func roundRobin(t *testing.T, servers ...*served) string {
	t.Helper()
	var n atomic.Uint64
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(servers[n.Add(1)%uint64(len(servers))].url)
	}})
	t.Cleanup(front.Close)
	return front.URL
}

// python is a program in Python that knows where to ask.
func python(t *testing.T, address, token string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("python3 is not installed: make test installs it, or apt-get install python3: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = []string{"PYTHONPATH=../../deploy/clients", "PYTHONDONTWRITEBYTECODE=1", "INGESTOR_URL=" + address, "INGESTOR_TOKEN=" + token}
	return cmd
}

// twoServers have one ledger, and the token from a file and from a variable.
func twoServers(t *testing.T, quota int64) (servers []*served) {
	t.Helper()
	redis, err := redistest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Kill)
	for _, env := range []string{"INGESTOR_TOKEN=" + theToken, "INGESTOR_TOKEN_FILE=token"} {
		f := newFolder(t, quota, "redis://"+redis.Addr+"/0")
		f.write("token", theToken+"\n")
		env = strings.Replace(env, "=token", "="+f.path("token"), 1)
		servers = append(servers, f.serve(env))
	}
	return servers
}

// TestReservingFromPython: two servers on one Redis behind a round robin, and eight
// processes that reserve at once on one pool. Exactly the limit is granted.
func TestReservingFromPython(t *testing.T) {
	t.Parallel()
	limit := int64(200)
	if os.Getenv("HEADROOM_SOAK") == "1" {
		limit = 2000
	}
	servers := twoServers(t, limit+5)
	address := roundRobin(t, servers...)
	var all sync.WaitGroup
	var granted atomic.Int64
	for range 8 {
		all.Go(func() {
			r := finish(t, python(t, address, theToken, "testdata/python/spend.py"))
			n, err := strconv.ParseInt(strings.TrimSpace(r.stdout), 10, 64)
			if err != nil || r.code != 0 {
				t.Errorf("it left with %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			granted.Add(n)
		})
	}
	all.Wait()
	if granted.Load() != limit {
		t.Errorf("%d units were granted, the limit is %d", granted.Load(), limit)
	}
	r := finish(t, python(t, address, theToken, "../../deploy/clients/reserve.py", "videos.list"))
	if r.code != 1 || !strings.Contains(r.stderr, fmt.Sprintf("429: reserve youtube/units: refused: %d of %d units used", limit, limit)) {
		t.Errorf("the example left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := finish(t, python(t, address, theToken, "../../deploy/clients/reserve.py", "search.list")); r.code != 0 || !strings.HasPrefix(r.stdout, "make the call: 1 of ") {
		t.Errorf("the example left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	r = finish(t, python(t, address, theToken+"x", "../../deploy/clients/reserve.py", "videos.list"))
	if r.code != 1 || !strings.HasPrefix(r.stderr, "401: ") {
		t.Errorf("with another token it left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, s := range servers {
		if said := s.stop(); strings.Contains(said, theToken) {
			t.Errorf("the token is told:\n%s", said)
		}
		for _, path := range s.holding(theToken) {
			if path != s.path("token") {
				t.Errorf("the token stands in %s", path)
			}
		}
	}
}

// TestWithoutTheToken: wrong, absent or of another length, of every server the same
// answer, and nothing is spent.
func TestWithoutTheToken(t *testing.T) {
	servers := twoServers(t, 100)
	_, first := servers[0].reserve("", `{"method": "videos.list"}`)
	for _, s := range servers {
		for _, authorization := range []string{
			"", "Bearer", "Bearer ", "Bearer x", "Bearer " + theToken[1:], "Bearer " + theToken + "x",
			"Bearer " + strings.Repeat("x", len(theToken)), "Bearer " + strings.Repeat("x", 10_000), "Basic " + theToken,
		} {
			if status, said := s.reserve(authorization, `{"method": "videos.list"}`); status != http.StatusUnauthorized || said != first {
				t.Errorf("%.40q: %d %s", authorization, status, said)
			}
		}
	}
	status, said := servers[1].reserve("Bearer "+theToken, `{"method": "videos.list"}`)
	var verdict struct{ Used int64 }
	if err := json.Unmarshal([]byte(said[strings.Index(said, "{"):]), &verdict); err != nil || status != http.StatusOK || verdict.Used != 1 {
		t.Errorf("with the token: %d %s (%v)", status, said, err)
	}
	for _, s := range servers {
		s.stop()
	}
}

// TestReservingOnSQLite is the ledger that nobody has to set up: with families, and with
// the spend that other processes see.
func TestReservingOnSQLite(t *testing.T) {
	f := newFolder(t, 100, "")
	f.write("costs.yaml", "extends: builtin\nrevision: 2\nfamilies: {visitor: {quota: 1, windows: [{per: 1h}]}}\n")
	s := f.serve("INGESTOR_TOKEN=" + theToken)
	for _, a := range []struct {
		body   string
		status int
	}{
		{`{"family": "visitor", "key": "ann"}`, http.StatusOK},
		{`{"family": "visitor", "key": "ann"}`, http.StatusTooManyRequests},
		{`{"family": "visitor", "key": "bob"}`, http.StatusOK},
		{`{"method": "videos.list", "job": "cobbler"}`, http.StatusOK},
	} {
		if status, said := s.reserve("Bearer "+theToken, a.body); status != a.status {
			t.Errorf("%s: %d %s", a.body, status, said)
		}
	}
	if r := f.run("quota", "spend", "--by", "job"); !strings.Contains(r.stdout, "cobbler") {
		t.Errorf("another process sees\n%s%s", r.stdout, r.stderr)
	}
	s.stop()
}
