package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// The goals of a granted reservation over HTTP.
const (
	reserveGoal = 0.6 // of what the library does on the same ledger
	leasedGoal  = 0.5 // of a bare handler, on a pool with leased blocks
)

const (
	tokenText   = "a-token-of-this-benchmark-0123456789abcdef"
	reserveCall = `{"method": "videos.list", "job": "trending", "region": "DE"}`
)

// reserve compares POST /v1/reserve with the library, on one ledger in SQLite, and with a
// bare handler, on one with leased blocks.
func reserve(ctx context.Context, c *catalog.Catalog, dir string, rounds int, turn time.Duration) (err error) {
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "ledger.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	under, err := sqlitestore.Open(ctx, filepath.Join(dir, "leased.db"), nil)
	if err != nil {
		return err
	}
	leased := leasestore.New(under, nil)
	defer func() { err = errors.Join(err, leased.Close(), under.Close()) }()
	plain, handler, err := deciding(c, store, "")
	if err != nil {
		return err
	}
	_, blocks, err := deciding(c, leased, "lease: {life: 10s}")
	if err != nil {
		return err
	}
	direct := func(int) error {
		_, err := plain.Reserve(ctx, quota.Call{Method: "videos.list", Job: "bench/trending", Region: "DE"})
		return err
	}
	server, leasing, bare := httptest.NewServer(handler), httptest.NewServer(blocks), httptest.NewServer(http.HandlerFunc(answers))
	defer server.Close()
	defer leasing.Close()
	defer bare.Close()
	asking := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := direct(0); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answers(w, r)
	}))
	defer asking.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	var open [][]*lean
	defer func() {
		for _, all := range open {
			err = errors.Join(err, hangUp(all))
		}
	}()
	post := func(to *httptest.Server, body string) func(int) error {
		all, failed := dial(to, slices.Max(callers))
		open, err = append(open, all), errors.Join(err, failed)
		request := requestTo(to, body)
		return func(caller int) error { return all[caller].ask(request) }
	}
	const manyCalls = 16
	batch := "[" + strings.Repeat(reserveCall+",", manyCalls-1) + reserveCall + "]"
	heavy := func(int) error { return reserveAt(ctx, client, server.URL+"/v1/reserve", reserveCall) }
	empty := reserving{"bare: a handler that reads as much and answers as much", 1, post(bare, reserveCall)}
	onFile := []reserving{
		{"the library", 1, direct},
		empty,
		{"the bare handler, which asks the library first", 1, post(asking, reserveCall)},
		{"POST /v1/reserve", 1, post(server, reserveCall)},
		{"POST /v1/reserve, 16 in an array", manyCalls, post(server, batch)},
		{"POST /v1/reserve, by net/http's client", 1, heavy},
	}
	onBlocks := []reserving{empty, {"POST /v1/reserve", 1, post(leasing, reserveCall)}}
	if err != nil {
		return err
	}
	if err := byTurns(fmt.Sprintf("vs library\tper second\tcpu us\tcallers\t  granted on one ledger in SQLite; the goal is %.1f", reserveGoal), rounds, turn, onFile); err != nil {
		return err
	}
	return byTurns(fmt.Sprintf("vs bare\tper second\tcpu us\tcallers\t  granted on a pool with leased blocks; the goal is %.1f", leasedGoal), rounds, turn, onBlocks)
}

// deciding returns a ledger on a store, and a server that decides on it.
func deciding(c *catalog.Catalog, store quota.Store, lease string) (*quota.Ledger, http.Handler, error) {
	costs, err := book.Parse("bench.yaml", fmt.Appendf(nil, `
revision: 1000000
extends: builtin
upstreams:
  youtube:
    pools:
      units:
        quota: 2000000000
        windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}]
        %s
`, lease), &book.Options{Builtins: headroom.ReadBuiltin})
	if err != nil {
		return nil, nil, err
	}
	ledger, err := quota.New(costs, store, nil)
	if err != nil {
		return nil, nil, err
	}
	log := slog.New(slog.DiscardHandler)
	runner := ingest.NewRunner(&ingest.Config{}, ledger, c, nil, nil, &ingest.Options{Log: log})
	token, err := access.New("bench", tokenText, access.Rights...)
	if err != nil {
		return nil, nil, err
	}
	server, err := web.New(web.Sources{Sources: view.Sources{Ledger: ledger, Catalog: c, Runner: runner}, Tokens: []*access.Token{token}}, &web.Options{Log: log})
	return ledger, server, err
}

// answers reads a reservation, and answers about as much as a decision has.
func answers(w http.ResponseWriter, r *http.Request) {
	var call struct{ Method, Job, Region string }
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"granted": true, "token": strings.Repeat("x", 100), "pool": "youtube/units", "units": 1, "used": 1, "limit": 2_000_000_000})
}

// reserveAt reserves over HTTP.
func reserveAt(ctx context.Context, client *http.Client, address, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+tokenText)
	r, err := client.Do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, answer)
	}
	return err
}

// reserving is a contender of these tables.
type reserving struct {
	name  string
	calls int // of one do
	do    func(caller int) error
}

// byTurns compares all with the first, round by round.
func byTurns(head string, rounds int, turn time.Duration, all []reserving) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%s\n", head)
	for _, n := range callers {
		each := make([][]measured, len(all))
		for round := range rounds + 1 {
			for i, a := range all {
				m, err := perSecond(n, turn, a.do)
				if err != nil {
					return fmt.Errorf("%s: %w", a.name, err)
				}
				m.rate, m.cpu = m.rate*float64(a.calls), m.cpu/float64(a.calls)
				if round > 0 { // connections are up, and caches warm
					each[i] = append(each[i], m)
				}
			}
		}
		for i, a := range all {
			middle := func(of func(own, first measured) float64) float64 {
				var some []float64
				for r := range rounds {
					some = append(some, of(each[i][r], each[0][r]))
				}
				return median(some)
			}
			fmt.Fprintf(w, "%.2f\t%.0f\t%.0f\t%d\t  %s\n", middle(func(own, first measured) float64 { return own.rate / first.rate }),
				middle(func(own, _ measured) float64 { return own.rate }), middle(func(own, _ measured) float64 { return own.cpu }), n, a.name)
		}
	}
	return w.Flush()
}

// measured is what callers did in a turn.
type measured struct {
	rate float64 // a second
	cpu  float64 // us of the processors for each
}

// perSecond has so many callers do something for a turn.
func perSecond(n int, turn time.Duration, do func(caller int) error) (measured, error) {
	var done atomic.Int64
	var group sync.WaitGroup
	failed := make([]error, n)
	began, before := time.Now(), cpuTime()
	for i := range n {
		group.Go(func() {
			for time.Since(began) < turn && failed[i] == nil {
				failed[i] = do(i)
				done.Add(1)
			}
		})
	}
	group.Wait()
	used, times := cpuTime()-before, float64(done.Load())
	return measured{times / time.Since(began).Seconds(), float64(used.Microseconds()) / times}, errors.Join(failed...)
}
