package open_test

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
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// Processes that spill use both upstreams to their limits, and neither gets a call too many, or the other's key. One
// that is killed, or that did not hear of a reservation in time, may have reserved what it did not send.
func TestProcessesSpill(t *testing.T) {
	for _, name := range []string{"sqlite", "redis", "postgres", "sqlite and kill -9", "redis and kill -9", "postgres and kill -9"} {
		t.Run(name, func(t *testing.T) {
			kind, _, killed := strings.Cut(name, " ")
			t.Parallel()
			folder := t.TempDir()
			address := "sqlite:" + filepath.Join(folder, "ledger.db")
			switch kind {
			case "postgres":
				address = pgtest.Shared(t)
			case "redis":
				server, err := redistest.Start(t.TempDir(), "--save", "", "--appendonly", "no")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(server.Kill)
				address = "redis://" + server.Addr
			}
			text := "revision: 1\nbudgets: {all: {quota: 1000 USD, windows: [{per: month}], of: [west, east]}}\nupstreams:\n"
			var got, wrong [2]atomic.Int64
			early := make(chan struct{})
			begun := sync.OnceFunc(func() { close(early) })
			limits := [2]int64{60, 90}
			for i, name := range []string{"west", "east"} {
				s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if got[i].Add(1); r.Header.Get("Authorization") != "key of "+name {
						wrong[i].Add(1)
					}
					if got[1].Load() > 5 { // some have spilled
						begun()
					}
				}))
				t.Cleanup(s.Close)
				text += fmt.Sprintf("  %s:\n    hosts: [%q]\n    api_key: {header: Authorization}\n    pools: {calls: {quota: %d, windows: [{per: 24h}]}}\n    methods: {ask: {route: POST /ask, cost: 1, bill: 1 USD}}\n",
					name, strings.TrimPrefix(s.URL, "http://"), limits[i])
				if name == "west" {
					text += "    spill: [east]\n"
				}
			}
			for name, content := range map[string]string{"costs.yaml": text, "address": address} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var children []*childtest.Child
			for range 4 {
				children = append(children, childtest.Start(t, "spill", folder))
			}
			for _, c := range children {
				c.Begin()
			}
			if killed {
				select {
				case <-early:
				case <-time.After(3 * time.Minute):
					t.Fatal("no call has spilled")
				}
				children[0].Kill()
				children = children[1:]
			}
			sent, lost := [2]int64{}, int64(0) // lost is how many reservations may have had no call
			if killed {
				lost = 3 // of its goroutines
			}
			for _, c := range children {
				var west, east, outages int64
				if _, err := fmt.Sscan(strings.Join(c.Rest(), "\n"), &west, &east, &outages); err != nil {
					t.Fatal(err)
				}
				sent[0], sent[1], lost = sent[0]+west, sent[1]+east, lost+outages
			}
			t.Logf("the upstreams got %d and %d calls", got[0].Load(), got[1].Load())
			for i := range limits {
				n := got[i].Load()
				if n > limits[i] || n < limits[i]-lost || sent[i] > n || sent[i] < n && !killed || wrong[i].Load() != 0 {
					t.Errorf("upstream %d got %d calls, %d with a wrong key, and the processes say %d: want %d, of which %d may be lost", i, n, wrong[i].Load(), sent[i], limits[i], lost)
				}
			}
			costs, err := book.Parse("costs.yaml", []byte(text), nil)
			if err != nil {
				t.Fatal(err)
			}
			opened, err := open.Open(t.Context(), address, &open.Options{Book: costs, State: folder, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			all, err := opened.Ledger.View().Usage(t.Context(), book.Budgets, "")
			used := int64(0)
			if err == nil {
				used = all[0].Windows[0].Used / book.Millionths
			}
			if sum := got[0].Load() + got[1].Load(); used < sum || used > sum+2*lost {
				t.Errorf("%v, %v: want a bill for each of %d calls, once, and at most %d more", all, err, sum, 2*lost)
			}
		})
	}
}

// spill is a process that calls an upstream until neither that nor the other one has units.
func spill(path string, begin func() bool, out io.Writer) error {
	costs, err := book.Parse("costs.yaml", must(os.ReadFile(filepath.Join(path, "costs.yaml"))), nil)
	if err != nil {
		return err
	}
	var outages counter // also those of the other upstream, which a refusal of the first one hides
	opened, err := open.Open(context.Background(), string(must(os.ReadFile(filepath.Join(path, "address")))), &open.Options{Book: costs, State: path, Logger: slog.New(slog.DiscardHandler), Observer: &outages})
	if err != nil {
		return err
	}
	keys := map[string]meter.KeySource{"west": meter.Key("key of west"), "east": meter.Key("key of east")}
	transport, err := meter.New(opened.Ledger, &meter.Options{Base: &http.Transport{}, Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if !begin() {
		return nil
	}
	var west, east atomic.Int64
	var callers sync.WaitGroup
	failed := make(chan error, 3)
	for range 3 {
		callers.Go(func() {
			for {
				resp, err := (&http.Client{Transport: transport}).Post("http://"+costs.Upstreams["west"].Hosts[0]+"/ask", "text/plain", strings.NewReader("?"))
				if errors.Is(err, quota.ErrRefused) {
					failed <- nil
					return
				}
				if errors.Is(err, quota.ErrOutage) && outages.Load() < 600 { // the server of a busy machine did not answer in time
					time.Sleep(100 * time.Millisecond)
					continue
				}
				if err != nil {
					failed <- err
					return
				}
				_ = resp.Body.Close()
				if resp.Header.Get(meter.SpilledHeader) == "east" {
					east.Add(1)
				} else {
					west.Add(1)
				}
			}
		})
	}
	callers.Wait()
	fmt.Fprintln(out, west.Load(), east.Load(), outages.Load())
	return errors.Join(<-failed, <-failed, <-failed, transport.Flush(context.Background()), leave(opened))
}

// counter counts the outages of a ledger.
type counter struct{ atomic.Int64 }

func (c *counter) Observe(_ context.Context, e quota.Event) {
	if e.Kind == quota.EventOutage {
		c.Add(1)
	}
}

// leave closes a ledger. On a slow disk, other processes may write to the journal for long. What it lacks then is found again.
func leave(opened *open.Opened) error {
	err := opened.Close()
	if err != nil && strings.Contains(err.Error(), "it was busy for") {
		return nil
	}
	return err
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
