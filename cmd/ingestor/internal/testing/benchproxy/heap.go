package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// heap compares what is in use after few requests and after many, on two ledgers. That in a
// file has its receipts there. That in memory keeps the receipts of an hour, so its clock
// runs: an hour takes a quarter of the few requests.
func heap(ctx context.Context, out io.Writer, s sizes) (err error) {
	dir, err := os.MkdirTemp("", "bench-proxy")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file, err := sqlitestore.Open(ctx, filepath.Join(dir, "ledger.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	clock := quota.NewSimClock(time.Now())
	for _, of := range []struct {
		name  string
		store quota.Store
		clock quota.Clock
		done  func()
	}{
		{"a file", file, nil, func() {}},
		{"memory", memstore.New(&memstore.Options{Clock: clock}), clock, func() { clock.Advance(4 * quota.ReceiptLife / time.Duration(s.few)) }},
	} {
		in, err := inUse(ctx, s, of.store, of.clock, of.done)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "heap after collection, ledger in %s: %d kB after %d requests, %.2f times that after %d (at most 1.1)\n",
			of.name, in[0]>>10, s.few, float64(in[1])/float64(in[0]), s.many)
		if err != nil {
			return err
		}
	}
	return nil
}

// inUse returns the bytes in use after few requests and after many.
func inUse(ctx context.Context, s sizes, store quota.Store, clock quota.Clock, done func()) (in [2]uint64, err error) {
	server := httptest.NewServer(http.HandlerFunc(little))
	defer server.Close()
	h, err := newProxy(server.URL, endless, 0, store, clock, nil)
	if err != nil {
		return in, err
	}
	proxied := httptest.NewServer(h)
	defer proxied.Close()
	client := &http.Client{Transport: proxy.NewTransport()}
	defer client.CloseIdleConnections()
	made := 0
	for i, until := range []int{s.few, s.many} {
		var left atomic.Int64
		left.Store(int64(until - made))
		made = until
		errs := make([]error, 16)
		var all sync.WaitGroup
		for w := range errs {
			all.Go(func() {
				for errs[w] == nil && left.Add(-1) >= 0 {
					_, errs[w] = call(ctx, client, proxied.URL+"/api/items")
					done()
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return in, err
		}
		var m runtime.MemStats
		for range 3 { // pools are emptied by the second collection
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		in[i] = m.HeapAlloc
	}
	return in, nil
}
