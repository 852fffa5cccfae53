package headroom_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/internal/redistest"
	"github.com/headroom-quota/headroom/internal/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// A month is simulated at an upstream that counts for itself, with more demand than
// quota: runs every 30 minutes in 8 regions, backfills, restarts, and now and then a
// search whose pages never end.
type month struct {
	start time.Time
	days  int
	quota int64 // of the pool units, per Pacific day; the limit is 5% below
	seed  uint64
}

const (
	tick    = 30 * time.Minute
	regions = 8
	guard   = 20 // searches in 10 minutes, by the built-in book
)

func (m month) limit() int64 { return m.quota - m.quota/20 }

// demand is what one tick asks for.
type demand struct {
	at       time.Time
	pages    [regions]int
	backfill int
	runaway  bool
	restart  bool
}

// demands are the same whoever pays for them.
func (m month) demands() []demand {
	random := rand.New(rand.NewPCG(m.seed, 0))
	all := make([]demand, m.days*int(24*time.Hour/tick))
	for i := range all {
		d := &all[i]
		d.at = m.start.Add(time.Duration(i) * tick)
		for r := range d.pages {
			d.pages[r] = int(m.quota)/200 + random.IntN(3)
		}
		if random.IntN(20) == 0 {
			d.backfill = random.IntN(int(m.quota) / 4)
		}
		d.runaway = random.IntN(50) == 0
		d.restart = random.IntN(30) == 0
	}
	return all
}

// spent is what came of it.
type spent struct {
	units, refused int64 // by the upstream's count
	runaway        int   // the most that one search without end has spent
}

// run makes the calls of a month. Without a ledger nobody stops them.
func (m month) run(t *testing.T, open func(clock quota.Clock) quota.Store) spent {
	t.Helper()
	clock := quota.NewSimClock(m.start)
	sim := youtubesim.New(&youtubesim.Options{
		Seed: 1, Clock: clock.Now, Quota: youtubesim.Quota{youtubesim.Default: m.quota},
		Faults: []youtubesim.Fault{{Method: "search.list", Do: youtubesim.Endless}},
	})
	upstream := inProcess{sim}
	client := &http.Client{Transport: upstream}
	start := func() {
		if open == nil {
			return
		}
		book, err := quota.ParseBook("costs.yaml", fmt.Appendf(nil, `
extends: builtin
upstreams:
  youtube:
    pools: {units: {quota: %d, headroom: %d, windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}]}}
`, m.quota, m.quota/20), &quota.BookOptions{Builtins: headroom.Builtin})
		if err != nil {
			t.Fatal(err)
		}
		ledger, err := quota.New(book, open(clock), &quota.Options{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		client = &http.Client{Transport: meter.New(ledger, &meter.Options{
			Base: upstream, Logger: slog.New(slog.DiscardHandler), Keys: map[string]meter.KeySource{"youtube": meter.Key(sdkKey)},
		})}
	}
	// call reports whether there is any point in asking again.
	call := func(ctx context.Context, path string) bool {
		req, err := http.NewRequestWithContext(ctx, "GET", "https://youtube.googleapis.com/youtube/v3/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if open == nil {
			req.Header.Set("X-Goog-Api-Key", sdkKey)
		}
		resp, err := client.Do(req)
		if errors.Is(err, quota.ErrRefused) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		return true
	}
	start()
	var s spent
	for _, d := range m.demands() {
		clock.Set(d.at)
		if d.restart {
			start()
		}
		backfill := meter.WithClass(context.Background(), "backfill")
		for n := 0; n < d.backfill && call(backfill, "videos?part=id&id=x&fields=etag"); n++ {
		}
		for r, pages := range d.pages {
			region := []string{"US", "JP", "BR", "DE", "IN", "TH", "EG", "FR"}[r]
			for n := 0; n < pages && call(context.Background(), "videos?part=id&chart=mostPopular&maxResults=1&fields=etag&regionCode="+region); n++ {
			}
		}
		if d.runaway {
			n := 0
			for n < 100 && call(context.Background(), "search?part=id&type=video&maxResults=1&fields=etag") {
				n++
			}
			s.runaway = max(s.runaway, n)
		}
	}
	s.units = sim.Counts().Where(youtubesim.Count{Pool: youtubesim.Default}).Total().Units
	s.refused = sim.Counts().Total().Refused
	return s
}

// oracle is what the best of ledgers would have spent: an exact log of 24 hours and
// the calendar of California, or that alone.
func (m month) oracle(t *testing.T, trailing bool) (units int64) {
	t.Helper()
	california, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	type charge struct {
		at time.Time
		n  int64
	}
	var log []charge
	var inDay, inLog int64
	day := ""
	for _, d := range m.demands() {
		if today := d.at.In(california).Format(time.DateOnly); today != day {
			day, inDay = today, 0
		}
		for len(log) > 0 && !log[0].at.After(d.at.Add(-24*time.Hour)) {
			inLog -= log[0].n
			log = log[1:]
		}
		take := func(asked, limit int64) {
			free := limit - inDay
			if trailing {
				free = min(free, limit-inLog)
			}
			n := max(min(asked, free), 0)
			log = append(log, charge{d.at, n})
			inDay, inLog, units = inDay+n, inLog+n, units+n
		}
		take(int64(d.backfill), m.limit()-(m.limit()*30+99)/100)
		for _, pages := range d.pages {
			take(int64(pages), m.limit())
		}
	}
	return units
}

// inProcess is an upstream without a network in between.
type inProcess struct{ http.Handler }

func (u inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	u.ServeHTTP(w, req)
	return w.Result(), nil
}

func TestMonth(t *testing.T) {
	days, most := 8, int64(400)
	if os.Getenv("HEADROOM_SOAK") == "1" {
		days, most = 30, 2000
	}
	stores := map[string]func(t *testing.T) func(quota.Clock) quota.Store{
		"memory": func(*testing.T) func(quota.Clock) quota.Store {
			var s quota.Store // outlives the processes
			return func(c quota.Clock) quota.Store {
				if s == nil {
					s = memstore.New(&memstore.Options{Clock: c})
				}
				return s
			}
		},
		"sqlite": func(t *testing.T) func(quota.Clock) quota.Store {
			path := filepath.Join(t.TempDir(), "ledger.db")
			return func(c quota.Clock) quota.Store {
				s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Clock: c})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return s
			}
		},
		"redis": func(t *testing.T) func(quota.Clock) quota.Store {
			server, err := redistest.Start(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Kill)
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			t.Cleanup(func() { client.Close() })
			t.Cleanup(func() { redisclock.Set(nil) })
			return func(c quota.Clock) quota.Store {
				redisclock.Set(c.Now)
				s, err := redisstore.New(client, nil)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
		},
	}
	for _, m := range []month{
		{start: time.Date(2026, 10, 29, 8, 0, 0, 0, time.UTC), days: days, quota: most, seed: 1}, // a day of 25 hours
		{start: time.Date(2027, 3, 10, 8, 0, 0, 0, time.UTC), days: days, quota: most, seed: 2},  // one of 23
	} {
		from := m.start.Format(time.DateOnly)
		best, calendar := m.oracle(t, true), m.oracle(t, false)
		t.Logf("from %s, %d days, seed %d: the oracle spends %d a day, a calendar alone %d", from, m.days, m.seed, best/int64(m.days), calendar/int64(m.days))
		for name, store := range stores {
			t.Run(from+"/"+name, func(t *testing.T) {
				s := m.run(t, store(t))
				t.Logf("%d units a day, %.3f of the oracle's; a search without end spent %d", s.units/int64(m.days), float64(s.units)/float64(best), s.runaway)
				if s.refused != 0 {
					t.Errorf("the upstream refused %d calls", s.refused)
				}
				if s.runaway > guard || s.runaway == 0 {
					t.Errorf("a search without end spent %d, want 1 to %d", s.runaway, guard)
				}
				if s.units*100 < best*97 {
					t.Errorf("%d units were spent, less than 0.97 of the oracle's %d", s.units, best)
				}
			})
		}
		t.Run(from+"/without a ledger", func(t *testing.T) {
			if s := m.run(t, nil); s.refused < 1000 {
				t.Errorf("the upstream refused %d calls, want thousands", s.refused)
			}
		})
	}
}
