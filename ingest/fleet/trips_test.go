package fleet_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// tripCounter forwards connections to PostgreSQL, and counts the round trips of each
// transaction that saves a page.
type tripCounter struct {
	mu    sync.Mutex
	pages []int
}

// client forwards what a client sends. A Sync and a simple query each ask for an answer, which
// is a round trip.
func (c *tripCounter) client(from io.Reader, to io.Writer) error {
	trips, page, begun := 0, false, false
	for first := true; ; first = false {
		header := make([]byte, 5)
		if first { // the message that starts a connection has no kind
			header = header[1:]
		}
		if _, err := io.ReadFull(from, header); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(header[len(header)-4:])-4)
		if _, err := io.ReadFull(from, body); err != nil {
			return err
		}
		if _, err := to.Write(append(header, body...)); err != nil {
			return err
		}
		if first {
			continue
		}
		kind := header[0]
		text := strings.ToLower(string(body))
		if kind == 'P' || kind == 'Q' {
			if strings.Contains(text, "begin\x00") {
				trips, page, begun = 0, false, true
			}
			page = page || strings.Contains(text, "pages = w.pages + 1")
		}
		if kind == 'S' || kind == 'Q' {
			trips++
		}
		if begun && (kind == 'P' || kind == 'Q') && strings.Contains(text, "commit\x00") {
			if begun = false; page {
				more := 1 // the Sync that follows
				if kind == 'Q' {
					more = 0
				}
				c.mu.Lock()
				c.pages = append(c.pages, trips+more)
				c.mu.Unlock()
			}
		}
	}
}

// countTrips returns a URL of the database that counts round trips.
func (r *rig) countTrips() (string, *tripCounter) {
	r.t.Helper()
	u, err := url.Parse(r.url)
	r.must(err)
	var how net.ListenConfig
	l, err := how.Listen(r.t.Context(), "tcp", "127.0.0.1:0")
	r.must(err)
	r.t.Cleanup(func() { _ = l.Close() })
	c, address := &tripCounter{}, u.Host
	go func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", address) //nolint:noctx // of a test
			if err != nil {
				_ = down.Close()
				return
			}
			go func() { _, _ = io.Copy(down, up); _ = down.Close() }()
			go func() { _ = c.client(down, up); _ = up.Close() }()
		}
	}()
	u.Host = l.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String(), c
}

// TestRoundTripsOfAPage: the transaction of a page takes two round trips. The first begins it,
// checks the fence and reads. The second writes, and commits.
func TestRoundTripsOfAPage(t *testing.T) {
	t.Parallel()
	const pages = 4
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: pages}})
	address, counted := r.countTrips()
	r.url = address
	rep, err := r.fleet(r.catalog(), fleet.Options{Workers: 1}).Once(t.Context(), r.job("charts"), ingest.Occasion{})
	r.must(err)
	counted.mu.Lock()
	defer counted.mu.Unlock()
	if rep.State != "done" || len(counted.pages) != rep.Work[0].Pages {
		t.Fatalf("%s, %d pages, and %d transactions", rep.State, rep.Work[0].Pages, len(counted.pages))
	}
	for i, n := range counted.pages {
		if n != 2 {
			t.Errorf("page %d took %d round trips, want 2", i+1, n)
		}
	}
}
