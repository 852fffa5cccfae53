// Proxy measures what ingestor proxy adds to calls over loopback, on a ledger in memory.
//
//	go run ./proxy
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/internal/proxy"
	"github.com/headroom-quota/headroom/internal/web"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// sizes are how much is measured.
type sizes struct {
	runs, rate int
	length     time.Duration // of an open loop
	streams    int
	few, many  int // requests before the heap is looked at
	programs   int
	saturated  time.Duration
}

func main() {
	s := sizes{streams: 200, few: 20_000, many: 200_000, programs: 4}
	flag.IntVar(&s.runs, "runs", 5, "runs, of which the median counts")
	flag.IntVar(&s.rate, "rate", 1000, "calls a second of the open loop")
	flag.DurationVar(&s.length, "length", 5*time.Second, "length of a run")
	flag.DurationVar(&s.saturated, "saturated", 30*time.Second, "how long the programs saturate the proxy")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, s); err != nil {
		fmt.Fprintln(os.Stderr, "bench-proxy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, s sizes) error {
	for _, measure := range []func(context.Context, io.Writer, sizes) error{openLoop, streams, heap, saturate} {
		if err := measure(ctx, out, s); err != nil {
			return err
		}
	}
	return nil
}

const token = "a-token-of-the-benchmark-0123456789"

// pair is an upstream, and the proxy in front of it.
type pair struct {
	upstream, proxy *httptest.Server
	client          *http.Client
}

// newPair starts them. The limit is quota per window.
func newPair(limit string, wait time.Duration, store quota.Store, serve http.HandlerFunc) (*pair, error) {
	p := &pair{upstream: httptest.NewServer(serve), client: &http.Client{Transport: proxy.NewTransport()}}
	costs, err := book.Parse("bench.yaml", fmt.Appendf(nil, `
revision: 1
upstreams:
  api:
    hosts: ["%s"]
    api_key: {header: X-Api-Key}
    pools: {calls: %s}
    methods: {list: {route: GET /items, pool: calls, cost: 1}}
`, strings.TrimPrefix(p.upstream.URL, "http://"), limit), nil)
	if err != nil {
		return nil, err
	}
	ledger, err := quota.New(costs, store, nil)
	if err != nil {
		return nil, err
	}
	t, err := web.NewToken("bench", token)
	if err != nil {
		return nil, err
	}
	h, err := proxy.New(ledger, []*proxy.Token{{Token: t, Name: "bench", Grant: proxy.Grant{Upstreams: []string{"api"}}}}, &proxy.Options{
		Keys: map[string]meter.KeySource{"api": meter.Key("the-key-of-the-benchmark")}, Log: slog.New(slog.DiscardHandler), Defaults: proxy.Labels{Wait: wait},
	})
	if err != nil {
		return nil, err
	}
	p.proxy = httptest.NewServer(h)
	return p, nil
}

func (p *pair) close() {
	p.client.CloseIdleConnections()
	p.proxy.Close()
	p.upstream.Close()
}

// addresses are that of the upstream itself, and that through the proxy.
func (p *pair) addresses() [2]string {
	return [2]string{p.upstream.URL + "/items", p.proxy.URL + "/api/items"}
}

const endless = "{quota: 1000000000, windows: [{per: day}]}"

func little(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"items": []}`)
}

// call makes one call, and returns how long its first byte took.
func (p *pair) call(ctx context.Context, address string) (first time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Api-Key", token)
	begun := time.Now()
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, err
	}
	body := bufio.NewReader(resp.Body)
	_, err = body.ReadByte()
	first = time.Since(begun)
	if err == nil {
		_, err = io.Copy(io.Discard, body)
	}
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", address, resp.Status)
	}
	return first, err
}

// openLoop calls at a steady rate, whatever the answers take.
func openLoop(ctx context.Context, out io.Writer, s sizes) error {
	p, err := newPair(endless, 0, memstore.New(nil), little)
	if err != nil {
		return err
	}
	defer p.close()
	var p50, p99 []time.Duration
	for range s.runs {
		var at [2][]time.Duration
		for i, address := range p.addresses() {
			if at[i], err = p.atRate(ctx, address, s); err != nil {
				return err
			}
		}
		p50 = append(p50, share(at[1], 50)-share(at[0], 50))
		p99 = append(p99, share(at[1], 99)-share(at[0], 99))
	}
	_, err = fmt.Fprintf(out, "open loop, %d a second: added %v at p50 (at most 1 ms), %v at p99 (at most 5 ms), median of %d runs\n",
		s.rate, share(p50, 50), share(p99, 50), s.runs)
	return err
}

func (p *pair) atRate(ctx context.Context, address string, s sizes) ([]time.Duration, error) {
	n := int(s.length.Seconds() * float64(s.rate))
	took, errs := make([]time.Duration, n), make([]error, n)
	var all sync.WaitGroup
	begun := time.Now()
	for i := range n {
		due := begun.Add(time.Duration(i) * time.Second / time.Duration(s.rate))
		time.Sleep(time.Until(due))
		all.Go(func() {
			took[i], errs[i] = p.call(ctx, address)
		})
	}
	all.Wait()
	return took, errors.Join(errs...)
}

// share returns the duration that a share of them, in percent, stay within.
func share(all []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)].Round(time.Microsecond)
}

// streams reads the first byte of a stream that goes on.
func streams(ctx context.Context, out io.Writer, s sizes) error {
	p, err := newPair(endless, 0, memstore.New(nil), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
	})
	if err != nil {
		return err
	}
	defer p.close()
	var took [2][]time.Duration
	for range s.streams {
		for i, address := range p.addresses() {
			first, err := p.call(ctx, address)
			if err != nil {
				return err
			}
			took[i] = append(took[i], first)
		}
	}
	_, err = fmt.Fprintf(out, "first byte of a stream: %v later (at most 1 ms), median of %d\n", share(took[1], 50)-share(took[0], 50), s.streams)
	return err
}

// heap compares what is in use after few requests and after many. The ledger is a file,
// because one in memory keeps a receipt of each call for an hour.
func heap(ctx context.Context, out io.Writer, s sizes) (err error) {
	dir, err := os.MkdirTemp("", "bench-proxy")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "ledger.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p, err := newPair(endless, 0, store, little)
	if err != nil {
		return err
	}
	defer p.close()
	var in [2]uint64
	done := 0
	for i, until := range []int{s.few, s.many} {
		var left atomic.Int64
		left.Store(int64(until - done))
		done = until
		errs := make([]error, 16)
		var all sync.WaitGroup
		for w := range errs {
			all.Go(func() {
				for errs[w] == nil && left.Add(-1) >= 0 {
					_, errs[w] = p.call(ctx, p.addresses()[1])
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		var m runtime.MemStats
		for range 3 { // pools are emptied by the second collection
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		in[i] = m.HeapAlloc
	}
	_, err = fmt.Fprintf(out, "heap after collection: %d kB after %d requests, %.2f times that after %d (at most 1.1)\n",
		in[0]>>10, s.few, float64(in[1])/float64(in[0]), s.many)
	return err
}

// program is one that calls as fast as it can, with Python's standard library.
const program = `
import sys, time, urllib.error, urllib.request
base, token, end = sys.argv[1], sys.argv[2], time.time() + float(sys.argv[3])
while time.time() < end:
    try:
        urllib.request.urlopen(urllib.request.Request(base, headers={"X-Api-Key": token}), timeout=60).read()
    except urllib.error.HTTPError as error:
        time.sleep(min(float(error.headers.get("Retry-After", 1)), max(0, end - time.time())))
`

// strict is a server that enforces its limit over every trailing window.
type strict struct {
	quota int
	per   time.Duration

	mu          sync.Mutex
	granted     []time.Time
	first, last time.Time
	refused     int
	measured    int
}

func (s *strict) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	now := time.Now()
	for len(s.granted) > 0 && now.Sub(s.granted[0]) >= s.per {
		s.granted = s.granted[1:]
	}
	over := len(s.granted) >= s.quota
	if over {
		s.refused++
	} else {
		s.granted = append(s.granted, now)
		if s.last = now; s.first.IsZero() {
			s.first = now
		}
		s.measured++
	}
	s.mu.Unlock()
	if over {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	little(w, r)
}

// saturate lets several programs call as fast as they can.
func saturate(ctx context.Context, out io.Writer, s sizes) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		_, err := fmt.Fprintln(out, "saturation: not measured, because python3 is not installed")
		return err
	}
	upstream := &strict{quota: 200, per: 5 * time.Second}
	p, err := newPair(fmt.Sprintf("{quota: %d, windows: [{per: %s}]}", upstream.quota, upstream.per), 30*time.Second, memstore.New(nil), upstream.serve)
	if err != nil {
		return err
	}
	defer p.close()
	errs := make([]error, s.programs)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			cmd := exec.CommandContext(ctx, python, "-c", program, p.addresses()[1], token, fmt.Sprint(s.saturated.Seconds()))
			if said, err := cmd.CombinedOutput(); err != nil {
				errs[i] = fmt.Errorf("python3: %w\n%s", err, said)
			}
		})
	}
	all.Wait()
	took := upstream.last.Sub(upstream.first) + upstream.per
	used := float64(upstream.measured) / (float64(upstream.quota) * took.Seconds() / upstream.per.Seconds())
	_, err = fmt.Fprintf(out, "%d programs in Python saturate %d in %v: %d refusals by the server, %.2f of the limit used (at least 0.9)\n",
		s.programs, upstream.quota, upstream.per, upstream.refused, used)
	return errors.Join(append(errs, err)...)
}
