package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/web"
	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

const reserveGoal = 0.6

// reserve compares POST /v1/reserve with the library, on one ledger in SQLite.
func reserve(ctx context.Context, c *catalog.Catalog, dir string, rounds int, turn time.Duration) (err error) {
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "ledger.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	costs, err := book.Parse("bench.yaml", []byte(`
revision: 1000000
extends: builtin
upstreams: {youtube: {pools: {units: {quota: 2000000000, windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}]}}}}
`), &book.Options{Builtins: headroom.Builtin})
	if err != nil {
		return err
	}
	ledger, err := quota.New(costs, store, nil)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	runner := ingest.NewRunner(&ingest.Config{}, ledger, c, nil, nil, &ingest.Options{Log: log})
	const text = "a-token-of-this-benchmark-0123456789abcdef"
	token, err := web.NewToken("bench", text, web.Rights...)
	if err != nil {
		return err
	}
	handler, err := web.New(web.Sources{Sources: view.Sources{Ledger: ledger, Catalog: c, Runner: runner}, Tokens: []*web.Token{token}}, &web.Options{Log: log})
	if err != nil {
		return err
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	post := func(body string) func() error {
		return func() error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/reserve", strings.NewReader(body))
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer "+text)
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
	}
	const call = `{"method": "videos.list", "job": "trending", "region": "DE"}`
	all := []struct {
		name  string
		calls int // of one do
		do    func() error
	}{
		{"the library", 1, func() error {
			_, err := ledger.Reserve(ctx, quota.Call{Method: "videos.list", Job: "bench/trending", Region: "DE"})
			return err
		}},
		{"POST /v1/reserve", 1, post(call)},
		{"POST /v1/reserve, 16 in an array", 16, post("[" + strings.Repeat(call+",", 15) + call + "]")},
	}
	rates, ratios := make([][][]float64, len(callers)), make([][][]float64, len(callers))
	for k := range callers {
		rates[k], ratios[k] = make([][]float64, len(all)), make([][]float64, len(all))
		for round := range rounds + 1 {
			var first float64
			for i, a := range all {
				rate, err := perSecond(callers[k], turn, a.do)
				if err != nil {
					return fmt.Errorf("%s: %w", a.name, err)
				}
				if rate *= float64(a.calls); i == 0 {
					first = rate
				}
				if round > 0 {
					rates[k][i], ratios[k][i] = append(rates[k][i], rate), append(ratios[k][i], rate/first)
				}
			}
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nvs library\tper second\tcallers\t  granted on one ledger in SQLite; the goal is %.1f\n", reserveGoal)
	for k, n := range callers {
		for i, a := range all {
			fmt.Fprintf(w, "%.2f\t%.0f\t%d\t  %s\n", median(ratios[k][i]), median(rates[k][i]), n, a.name)
		}
	}
	return w.Flush()
}

// perSecond returns how often so many callers do something in a second.
func perSecond(n int, turn time.Duration, do func() error) (float64, error) {
	var done atomic.Int64
	var group sync.WaitGroup
	failed := make([]error, n)
	began := time.Now()
	for i := range n {
		group.Go(func() {
			for time.Since(began) < turn && failed[i] == nil {
				failed[i] = do()
				done.Add(1)
			}
		})
	}
	group.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), errors.Join(failed...)
}
