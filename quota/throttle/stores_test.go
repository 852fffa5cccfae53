package throttle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

// homes open stores on the same data, as two processes would.
var homes = map[string]func(t *testing.T) (one, other quota.Store){
	"memory": func(*testing.T) (one, other quota.Store) {
		s := memstore.New(nil)
		return s, s
	},
	"sqlite": func(t *testing.T) (one, other quota.Store) {
		path := filepath.Join(t.TempDir(), "ledger.db")
		open := func() quota.Store {
			s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Families: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		}
		return open(), open()
	},
	"redis": func(t *testing.T) (one, other quota.Store) {
		server := startRedis(t)
		return openRedis(t, server), openRedis(t, server)
	},
}

func startRedis(t *testing.T) *redistest.Server {
	t.Helper()
	server, err := redistest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	return server
}

func openRedis(t *testing.T, server *redistest.Server) quota.Store {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	s, err := redisstore.New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve serves what a throttle by address admits, over real HTTP.
func serve(t *testing.T, s quota.Store, o *throttle.Options) *httptest.Server {
	t.Helper()
	ledger, err := quota.New(parse(t, "revision: 1\nfamilies: {client: {quota: 50, windows: [{per: 1h}]}}"), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := throttle.New(ledger, o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "served")
	})))
	t.Cleanup(server.Close)
	return server
}

// got is an answer.
type got struct {
	status int
	header http.Header
	body   string
}

// get asks a server, with headers "Name: value".
func get(t *testing.T, url string, headers ...string) got {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return got{}
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return got{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return got{resp.StatusCode, resp.Header, string(body)}
}

// Two servers on one store admit together what one may, whatever a client says of
// who it is.
func TestTwoServersOnOneStore(t *testing.T) {
	for name, open := range homes {
		t.Run(name, func(t *testing.T) {
			one, other := open(t)
			servers := []*httptest.Server{serve(t, one, nil), serve(t, other, nil)}
			var served, refused atomic.Int64
			var all sync.WaitGroup
			for client := range 8 {
				all.Go(func() {
					for i := range 16 {
						forged := fmt.Sprintf("203.0.113.%d", client*16+i)
						a := get(t, servers[(client+i)%2].URL, "X-Forwarded-For: "+forged, "Forwarded: for="+forged, "X-Real-IP: "+forged)
						h := a.header
						switch {
						case h.Get("RateLimit-Policy") != `"client";q=50;w=3600` || !strings.HasPrefix(h.Get("RateLimit"), `"client";r=`):
							t.Errorf("headers: %v", h)
						case a.status == http.StatusOK && a.body == "served" && h.Get("Retry-After") == "":
							served.Add(1)
						case a.status == http.StatusTooManyRequests && h.Get("Retry-After") != "" && json.Valid([]byte(a.body)):
							refused.Add(1)
						default:
							t.Errorf("status %d, %v: %s", a.status, h, a.body)
						}
					}
				})
			}
			all.Wait()
			if served.Load() != 50 || refused.Load() != 8*16-50 {
				t.Errorf("%d served and %d refused, want 50 and %d", served.Load(), refused.Load(), 8*16-50)
			}
		})
	}
}

// While the store cannot be reached requests pass, or do not, and limits hold again
// when it is back.
func TestOutage(t *testing.T) {
	logging.Disable() // the connection is lost here
	server := startRedis(t)
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	admits := serve(t, openRedis(t, server), &throttle.Options{Logger: log})
	refuses := serve(t, openRedis(t, server), &throttle.Options{Outage: quota.Refuse, Logger: slog.New(slog.DiscardHandler)})
	is := func(url string, status int, limit bool) {
		t.Helper()
		a := get(t, url, "Authorization: Bearer not-to-be-seen")
		if a.status != status || a.header.Get("RateLimit") != "" != limit || a.header.Get("RateLimit-Policy") == "" {
			t.Errorf("status %d, want %d; %v: %s", a.status, status, a.header, a.body)
		}
		if status != http.StatusServiceUnavailable {
			return
		}
		if a.header.Get("Retry-After") != "5" || a.header.Get("Content-Type") != "application/problem+json" || strings.Contains(a.body, "redis") {
			t.Errorf("%v: %s", a.header, a.body)
		}
	}
	is(admits.URL, http.StatusOK, true)
	is(refuses.URL, http.StatusOK, true)
	server.Kill()
	for range 3 {
		is(admits.URL, http.StatusOK, false)
		is(refuses.URL, http.StatusServiceUnavailable, false)
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{admits.URL, refuses.URL} { // a failed reading of limits is not repeated at once
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if a := get(t, url); a.status == http.StatusOK && a.header.Get("RateLimit") != "" {
				break
			}
		}
	}
	is(admits.URL, http.StatusOK, true)
	is(refuses.URL, http.StatusOK, true)
	admits.Close() // after which nothing is logged
	lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "limits per client are not kept") || !strings.Contains(lines[1], "limits per client are kept again") {
		t.Errorf("logged:\n%s", logged.String())
	}
	if s := logged.String(); strings.Contains(s, "client:127.0.0.1") || strings.Contains(s, "not-to-be-seen") {
		t.Errorf("the log says who asked:\n%s", s)
	}
}

// A cancelled request is not admitted.
func TestCancelled(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, request("GET /", "203.0.113.7:1").WithContext(ctx))
	if w.Code != http.StatusServiceUnavailable || r.served != 0 {
		t.Errorf("status %d, %d served, want 503 and 0", w.Code, r.served)
	}
}
