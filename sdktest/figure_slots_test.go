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

	"github.com/headroom-quota/headroom/internal/childtest"
	"github.com/headroom-quota/headroom/sdktest/server"
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

// slots has 8 processes of 50 callers, and a server that serves ten at once.
func slots(t *testing.T, figures *table) {
	const ttl = 2 * time.Second
	latency, span := 500*time.Millisecond, pick(4*time.Second, time.Minute)
	s := &server.AtOnce{Most: 10}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	addr := web.Listener.Addr().String()
	text := strings.ReplaceAll(slotsBook, "TTL", ttl.String())
	path := filepath.Join(t.TempDir(), "ledger.db")
	var children []*childtest.Child
	for range 8 {
		c := childtest.Run(t, "slots", path, addrOfServer+"="+addr, textOfBook+"="+text, "HEADROOM_TEST_LATENCY="+latency.String())
		children = append(children, c)
	}
	beginAll(t, children)
	time.Sleep(time.Second) // all have begun
	before := s.Counts().Granted
	time.Sleep(span)
	calls := s.Counts().Granted - before
	figures.least(t, "in_flight: share of 10/latency calls a second, 8 processes x 50 callers", float64(calls)/(10*span.Seconds()/latency.Seconds()), 0.8)
	by := slices.Sorted(maps.Values(s.Counts().By))
	least := 0 // of a process that had no turn
	if len(by) == len(children) {
		least = by[0]
	}
	figures.least(t, "in_flight: share of the fewest calls of a process", float64(least*len(children))/float64(s.Counts().Granted), 0.1)

	for _, c := range children[:2] {
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	killed := time.Now()
	fewest, whole := 10, time.Duration(0)
	for time.Since(killed) < 3*ttl {
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
	figures.least(t, "in_flight: the same share, from 3 ttl after the kill on", float64(calls)/(10*span.Seconds()/latency.Seconds()), 0.8)
	c := s.Counts()
	figures.zero(t, "in_flight: calls refused by a server of ten at once", int64(c.Refused))
	figures.most(t, "in_flight: most at once", float64(c.Worst), 10)
	for _, c := range children[2:] {
		c.Begin()
	}
}
