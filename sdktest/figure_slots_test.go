package sdktest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/internal/testing/server"
)

// callInSlots is a process of 50 callers. It ends with its parent, or is killed.
func callInSlots(path string, begin func() bool, _ io.Writer) error {
	addr, latency := os.Getenv(addrOfServer), os.Getenv("HEADROOM_TEST_LATENCY")
	who := strconv.Itoa(os.Getpid())
	return childCalls(path, begin, 50, nil, func(ctx context.Context, p *process, _ *rand.Rand) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/?latency="+latency+"&who="+who, nil)
		if err != nil {
			return err
		}
		resp, err := p.client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	})
}

// callers begins processes of 50 callers, of a server that serves ten at once.
func callers(t *testing.T, processes int, latency, ttl time.Duration) (*server.AtOnce, []*childtest.Child) {
	t.Helper()
	s := &server.AtOnce{Most: 10}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	addr := web.Listener.Addr().String()
	text := strings.ReplaceAll(slotsBook, "TTL", ttl.String())
	path := filepath.Join(t.TempDir(), "ledger.db")
	var children []*childtest.Child
	for range processes {
		c := childtest.Run(t, "slots", path, addrOfServer+"="+addr, textOfBook+"="+text, "HEADROOM_TEST_LATENCY="+latency.String())
		children = append(children, c)
	}
	beginAll(t, children)
	await(t, "a call of each process", func() bool { return len(s.Counts().By) == processes })
	return s, children
}

// fewestOf returns the share of all calls of the process that has made the fewest.
func fewestOf(c server.AtOnceCounts, processes int) float64 {
	by := slices.Sorted(maps.Values(c.By))
	if len(by) < processes {
		return 0 // one had no turn
	}
	return float64(by[0]) / float64(c.Granted)
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// shares has two processes whose calls take a short and a long time.
func shares(t *testing.T, figures *table) {
	for _, latency := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond} {
		s, children := callers(t, 2, latency, ttlOfSlots)
		before, span := s.Counts().Granted, pick(5*time.Second, time.Minute)
		time.Sleep(span)
		c := s.Counts()
		figures.pace(t, fmt.Sprintf("in_flight, 2 processes, calls of %s: share of 10/latency calls a second", latency), float64(c.Granted-before)/(10*span.Seconds()/latency.Seconds()), 0.8)
		figures.pace(t, fmt.Sprintf("in_flight, 2 processes, calls of %s: share of the one with fewer", latency), fewestOf(c, 2), 0.3)
		figures.zero(t, fmt.Sprintf("in_flight, 2 processes, calls of %s: refusals", latency), int64(c.Refused))
		for _, c := range children {
			c.Begin()
		}
	}
}

// ttlOfSlots is longer than a process of a busy machine may wait for a processor.
const ttlOfSlots = 6 * time.Second

// slots has 8 processes of 50 callers, and a server that serves ten at once.
func slots(t *testing.T, figures *table) {
	latency, span := 500*time.Millisecond, pick(5*time.Second, time.Minute)
	s, children := callers(t, 8, latency, ttlOfSlots)
	before := s.Counts().Granted
	time.Sleep(span)
	calls := s.Counts().Granted - before
	figures.pace(t, "in_flight: share of 10/latency calls a second, 8 processes x 50 callers", float64(calls)/(10*span.Seconds()/latency.Seconds()), 0.8)
	figures.pace(t, "in_flight: share of the fewest calls of a process", fewestOf(s.Counts(), len(children))*float64(len(children)), 0.1)

	for _, c := range children[:2] {
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	killed := time.Now()
	fewest, whole := 10, time.Duration(0)
	for whole == 0 || time.Since(killed) < pick(ttlOfSlots+latency, 3*ttlOfSlots) {
		if time.Since(killed) > time.Minute {
			t.Fatal("the slots of killed processes did not come back")
		}
		c := s.Counts()
		if fewest = min(fewest, c.InFlight); c.InFlight == 10 && whole == 0 && time.Since(killed) > latency {
			whole = time.Since(killed)
		}
		time.Sleep(5 * time.Millisecond)
	}
	figures.note("in_flight: two processes are killed: fewest in flight, and ten again after", fmt.Sprintf("%d, %s", fewest, whole.Round(time.Millisecond)))
	before = s.Counts().Granted
	time.Sleep(span)
	calls = s.Counts().Granted - before
	figures.pace(t, "in_flight: the same share, once they are back", float64(calls)/(10*span.Seconds()/latency.Seconds()), 0.8)
	c := s.Counts()
	figures.zero(t, "in_flight: calls refused by a server of ten at once", int64(c.Refused))
	figures.most(t, "in_flight: most at once", float64(c.Worst), 10)
	for _, c := range children[2:] {
		c.Begin()
	}
}
