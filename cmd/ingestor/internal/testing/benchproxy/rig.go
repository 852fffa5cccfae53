package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/record"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

const token = "a-token-of-the-benchmark-0123456789"

// endless is a limit that no run reaches.
const endless = "{quota: 1000000000, windows: [{per: day}]}"

// newProxy returns the proxy of an upstream at an address, with the limit of a pool.
func newProxy(upstream, limit string, wait time.Duration, store quota.Store, clock quota.Clock, keep *record.Recorder) (*proxy.Handler, error) {
	costs, err := book.Parse("bench.yaml", fmt.Appendf(nil, `
revision: 1
upstreams:
  api:
    hosts: ["%s"]
    api_key: {header: X-Api-Key}
    pools: {calls: %s}
    methods:
      list: {route: GET /items, pool: calls, cost: 1}
      stream: {route: GET /stream, pool: calls, cost: 1}
`, strings.TrimPrefix(upstream, "http://"), limit), nil)
	if err != nil {
		return nil, err
	}
	ledger, err := quota.New(costs, store, &quota.Options{Clock: clock})
	if err != nil {
		return nil, err
	}
	t, err := access.New("bench", token)
	if err != nil {
		return nil, err
	}
	return proxy.New(ledger, []*access.Token{t.Bound(&access.Grant{Upstreams: []string{"api"}})}, &proxy.Options{
		Keys: map[string]meter.KeySource{"api": meter.Key("the-key-of-the-benchmark")}, Log: slog.New(slog.DiscardHandler), Defaults: proxy.Labels{Wait: wait}, Record: keep,
	})
}

// upstream answers at once, or in three pieces.
func upstream() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items", little)
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
	})
	return mux
}

func little(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"items": []}`)
}

// role is the variable by which a process is one of those below, and not the benchmark.
const role = "BENCH_PROXY"

// child is the process of an upstream or of a proxy, which share neither a scheduler nor a
// garbage collector with those who call. It ends with its standard input.
func child(in io.Reader, out io.Writer) (is bool, err error) {
	kind, to, _ := strings.Cut(os.Getenv(role), " ")
	if kind == "" {
		return false, nil
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return true, err
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", l.Addr()); err != nil {
		return true, err
	}
	var handler http.Handler
	switch kind {
	case "upstream":
		handler = upstream()
	case "bare":
		address, err := url.Parse(to)
		if err != nil {
			return true, err
		}
		handler = &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(address) }, Transport: proxy.NewTransport(), FlushInterval: -1}
	case "ours", "recording":
		var keep *record.Recorder
		if kind == "recording" {
			dir, err := os.MkdirTemp("", "bench-proxy")
			if err != nil {
				return true, err
			}
			defer func() { _ = os.RemoveAll(dir) }()
			if keep, err = record.Open(filepath.Join(dir, "calls.jsonl"), 1<<30, nil, nil, slog.New(slog.DiscardHandler)); err != nil {
				return true, err
			}
			defer func() { err = errors.Join(err, keep.Close()) }()
		}
		h, err := newProxy(to, endless, 0, memstore.New(nil), nil, keep)
		if err != nil {
			return true, err
		}
		return true, h.Serve(ctx, context.Background(), l)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return true, err
	}
	return true, nil
}

// start starts a child, and returns its address.
func start(ctx context.Context, kind string) (address string, end func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), role+"="+kind)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	end = func() error {
		_ = in.Close()
		return cmd.Wait()
	}
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("%s does not begin: %w", kind, err), end())
	}
	return strings.TrimSpace(address), end, nil
}

// contenders are the upstream itself, a bare proxy and ours, each in a process of its own.
type contenders struct {
	bases  []string // of addresses
	client *http.Client
	ends   []func() error
}

func newContenders(ctx context.Context, more ...string) (_ *contenders, err error) {
	c := &contenders{client: &http.Client{Transport: proxy.NewTransport()}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	for i, kind := range append([]string{"upstream", "bare", "ours"}, more...) {
		if i > 0 {
			kind += " " + c.bases[0]
		}
		address, end, err := start(ctx, kind)
		if err != nil {
			return nil, err
		}
		if i >= 2 {
			address += "/api"
		}
		c.bases, c.ends = append(c.bases, address), append(c.ends, end)
	}
	return c, nil
}

func (c *contenders) close() (err error) {
	c.client.CloseIdleConnections()
	for _, end := range c.ends {
		err = errors.Join(err, end())
	}
	return err
}

// call makes one call, and returns when its first byte came.
func call(ctx context.Context, client *http.Client, address string) (first time.Time, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return first, err
	}
	req.Header.Set("X-Api-Key", token)
	resp, err := client.Do(req)
	if err != nil {
		return first, err
	}
	body := bufio.NewReader(resp.Body)
	_, err = body.ReadByte()
	first = time.Now()
	if err == nil {
		_, err = io.Copy(io.Discard, body)
	}
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", address, resp.Status)
	}
	return first, err
}
