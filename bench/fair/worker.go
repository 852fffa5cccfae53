package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

const (
	per   = 20 * time.Second // the window of the pool
	limit = 200_000.0        // and its units
	// warmUp is not counted: nobody waits yet, and what was taken before stays taken.
	warmUp = 2 * per
)

// prices has one pool for each mix, so that no mix meets what another one has left.
const prices = `
revision: 1
budgets: {money-%[1]s: {quota: 200 USD, windows: [{per: 20s, precision: 100ms}], of: paid-%[1]s}}
upstreams:
  paid-%[1]s:
    pools: {units: {quota: 1000000000, windows: [{per: 20s}]}}
    methods:
      paid-few: {pool: units, cost: 20, bill: 0.02 USD}
      paid-many: {pool: units, cost: 20, bill: 0.02 USD}
  api-%[1]s:
    hosts: [127.0.0.1]
    pools: {units: {quota: 200000, windows: [{per: 20s, precision: 100ms}]}}
    methods:
      fixed: {route: GET /fixed, pool: units, cost: 400}
      heavy: {route: GET /heavy, pool: units, cost: 4000}
      model: {route: GET /model, pool: units, cost: {estimate: {learn: p95, first: 1000}, actual: {body: usage}}}
  leased-%[1]s:
    pools: {units: {quota: 200000, windows: [{per: 20s, precision: 100ms}], lease: {}}}
    methods:
      few: {pool: units, cost: 20}
      many: {pool: units, cost: 20}
      cheap-few: {pool: units, cost: 2}
      cheap-many: {pool: units, cost: 2}
`

// result is what a process says at its end.
type result struct {
	Units   int64
	Longest time.Duration
}

// work lets processes use one pool together.
func work(ledger string, kinds []string, each time.Duration, callers int) ([]result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	var all sync.WaitGroup
	results, failed := make([]result, len(kinds)), make([]error, len(kinds))
	for i, kind := range kinds {
		if kind == "heavy" {
			callers = 1
		}
		cmd := exec.Command(self, "-child", kind, "-ledger", ledger, "-callers", strconv.Itoa(callers),
			"-counts", fmt.Sprint(began.Add(warmUp).UnixMilli()), "-end", fmt.Sprint(began.Add(each).UnixMilli()))
		cmd.Stderr = os.Stderr
		all.Go(func() {
			text, err := cmd.Output()
			if err == nil {
				err = json.Unmarshal(text, &results[i])
			}
			failed[i] = err
		})
	}
	all.Wait()
	return results, errors.Join(failed...)
}

// worker is one process.
type worker struct {
	kind, ledger string
	counts, end  int64
}

func (w *worker) store(ctx context.Context) (quota.Store, error) {
	scheme, rest, _ := strings.Cut(w.ledger, ":")
	switch scheme {
	case "redis":
		return redisstore.Open(w.ledger, nil)
	case "sqlite":
		return sqlitestore.Open(ctx, rest, nil)
	}
	return pgstore.Open(w.ledger, nil)
}

// crowds are the callers of processes whose calls are granted from blocks or spend a budget, by kind.
var crowds = map[string]int{"few": 2, "many": 20, "cheap-few": 12, "cheap-many": 40, "paid-few": 2, "paid-many": 20}

// take makes calls that are sent nowhere, and take 10 ms.
func (w *worker) take(ctx context.Context, l *quota.Ledger, callers int) error {
	upstream := "leased"
	if strings.HasPrefix(w.kind, "paid") {
		upstream = "paid"
	}
	var units atomic.Int64
	failed := make(chan error, callers)
	for range callers {
		go func() {
			for {
				began := time.Now()
				r, err := l.Wait(ctx, quota.Call{Upstream: fmt.Sprint(upstream, "-m", w.end), Method: w.kind}, time.Hour)
				if err != nil {
					failed <- err
					return
				}
				if began.After(time.UnixMilli(w.counts)) {
					units.Add(r.Charges()["units"])
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
	select {
	case err := <-failed:
		return err
	case <-time.After(time.Until(time.UnixMilli(w.end))):
	}
	return json.NewEncoder(os.Stdout).Encode(result{Units: units.Load()})
}

// run makes calls until the end, and prints what they have got.
func (w *worker) run(ctx context.Context, callers int) error {
	whole, err := w.store(ctx)
	if err != nil {
		return err
	}
	store := leasestore.New(whole, nil)
	upstream := httptest.NewServer(http.HandlerFunc(answer))
	b, err := book.Parse("costs.yaml", fmt.Appendf(nil, prices, fmt.Sprint("m", w.end)), nil)
	if err != nil {
		return err
	}
	l, err := quota.New(b, store, nil)
	if err != nil {
		return err
	}
	if n := crowds[w.kind]; n > 0 {
		return w.take(ctx, l, n)
	}
	m, err := meter.New(l, &meter.Options{MaxWait: time.Hour, Base: http.DefaultTransport, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	client := &http.Client{Transport: m}
	var mu sync.Mutex
	var got result
	failed := make(chan error, callers)
	for range callers {
		go func() {
			for {
				began := time.Now()
				units, err := call(ctx, client, upstream.URL+"/"+w.kind)
				if err != nil {
					failed <- err
					return
				}
				if began.Before(time.UnixMilli(w.counts)) {
					continue
				}
				mu.Lock()
				got.Units += units
				got.Longest = max(got.Longest, time.Since(began))
				mu.Unlock()
			}
		}()
	}
	select {
	case err := <-failed:
		return err
	case <-time.After(time.Until(time.UnixMilli(w.end))):
	}
	mu.Lock()
	defer mu.Unlock()
	return json.NewEncoder(os.Stdout).Encode(got)
}

func call(ctx context.Context, client *http.Client, url string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	var said struct{ Usage int64 }
	return said.Usage, json.Unmarshal(text, &said)
}

// answer answers as an upstream does. What a model's call has used follows a Pareto distribution.
func answer(w http.ResponseWriter, r *http.Request) {
	units := 400
	switch r.URL.Path {
	case "/heavy":
		units = 4000
	case "/model":
		units = min(int(200/math.Pow(1-rand.Float64(), 1/1.5)), 8000)
	}
	time.Sleep(50*time.Millisecond + rand.N(250*time.Millisecond))
	_, _ = fmt.Fprintf(w, `{"usage": %d}`, units)
}
