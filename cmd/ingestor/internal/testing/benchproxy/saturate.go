package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota/memstore"
)

// program is one that calls as fast as it can, with Python's standard library.
const program = `
import sys, time, urllib.error, urllib.request
base, token, end = sys.argv[1], sys.argv[2], time.time() + float(sys.argv[3])
while time.time() < end:
    try:
        urllib.request.urlopen(urllib.request.Request(base, headers={"X-Api-Key": token}), timeout=120).read()
    except urllib.error.HTTPError as error:
        time.sleep(min(float(error.headers.get("Retry-After", 1)), max(0, end - time.time())))
`

// strict is a server that enforces its limit over every trailing window.
type strict struct {
	quota int
	per   time.Duration

	mu      sync.Mutex
	granted []time.Time
	refused int
}

func (s *strict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	now := time.Now()
	n := len(s.granted)
	over := n >= s.quota && now.Sub(s.granted[n-s.quota]) < s.per
	if over {
		s.refused++
	} else {
		s.granted = append(s.granted, now)
	}
	s.mu.Unlock()
	if over {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	little(w, r)
}

// used returns the share of the limit that was used. A server that always has callers grants
// its quota once in each window, so the first call of a later window shows how late it came.
func (s *strict) used() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := max(len(s.granted)-1, 0) / s.quota
	if full == 0 {
		return 0
	}
	return float64(full) * s.per.Seconds() / s.granted[full*s.quota].Sub(s.granted[0]).Seconds()
}

// saturate lets several programs call as fast as they can. Their calls wait in the proxy, or
// they wait themselves as Retry-After says. The windows of the pool have a finer precision
// than they would have by default, and calls that may arrive a second late, as a price book
// for a window this short should.
func saturate(ctx context.Context, out io.Writer, s sizes) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		_, err := fmt.Fprintln(out, "saturation: not measured, because python3 is not installed")
		return err
	}
	for _, how := range []struct {
		name string
		wait time.Duration
	}{{"waiting in the proxy", 2 * s.per}, {"waiting for Retry-After", 0}} {
		server := &strict{quota: s.quota, per: s.per}
		if err := s.saturates(ctx, python, server, how.wait); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%d programs in Python, %s, saturate %d per %v: %d refusals by the server, %.3f of the limit used (at least 0.9)\n",
			s.programs, how.name, s.quota, s.per, server.refused, server.used())
		if err != nil {
			return err
		}
	}
	return nil
}

func (s sizes) saturates(ctx context.Context, python string, server *strict, wait time.Duration) error {
	upstream := httptest.NewServer(server)
	defer upstream.Close()
	limit := fmt.Sprintf("{quota: %d, windows: [{per: %s, precision: %s, late: %s}]}", s.quota, s.per, s.per/100, s.per/20)
	h, err := newProxy(upstream.URL, limit, wait, memstore.New(nil), nil, nil)
	if err != nil {
		return err
	}
	proxied := httptest.NewServer(h)
	defer proxied.Close()
	length := time.Duration(s.windows)*s.per + s.per/2
	errs := make([]error, s.programs)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			cmd := exec.CommandContext(ctx, python, "-c", program, proxied.URL+"/api/items", token, fmt.Sprint(length.Seconds()))
			if said, err := cmd.CombinedOutput(); err != nil {
				errs[i] = fmt.Errorf("python3: %w\n%s", err, said)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
