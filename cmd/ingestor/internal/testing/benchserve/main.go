// Serve sets what ingestor serve answers beside a bare handler, over loopback.
//
//	go run ./serve
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest/library"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

func main() {
	rounds := flag.Int("rounds", 9, "interleaved rounds, of which the median counts")
	turn := flag.Duration("turn", 100*time.Millisecond, "how long each is asked in a round, by one caller and by many")
	videos := flag.Int("videos", 20_000, "videos in the catalog")
	only := flag.Bool("reserve", false, "measure reservations only")
	flag.Parse()
	if err := run(context.Background(), *rounds, *turn, *videos, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench-serve:", err)
		os.Exit(1)
	}
}

// callers are how many ask at once.
var callers = []int{1, 16}

// asked is one contender.
type asked struct {
	name   string
	url    string
	header http.Header
	status int
	to     int     // the row of the one that its time is compared with
	goal   float64 // the highest ratio; 0 compares with none
}

func run(ctx context.Context, rounds int, turn time.Duration, videos int, only bool) (err error) {
	dir, err := os.MkdirTemp("", "bench-serve")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := catalog.Open(ctx, filepath.Join(dir, "catalog.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if only {
		return reserve(ctx, c, dir, rounds, turn)
	}
	l := library.New(1)
	if err := fill(ctx, c, l, videos); err != nil {
		return err
	}
	s, err := open(c)
	if err != nil {
		return err
	}
	defer s.close()
	all, err := contenders(ctx, s, l)
	if err != nil {
		return err
	}
	return errors.Join(compare(ctx, all, rounds, turn), reserve(ctx, c, dir, rounds, turn))
}

// fill saves a chart of 200 videos, and others.
func fill(ctx context.Context, c *catalog.Catalog, l *library.Library, videos int) error {
	r, err := c.Begin(ctx, catalog.Start{Job: "trending"})
	if err != nil {
		return err
	}
	var cur catalog.Cursor
	for n := range max(videos/50, 4) {
		work, chart := "US", n < 4
		if !chart {
			work = "others"
		}
		if cur, err = c.Cursor(ctx, "trending", work); err != nil {
			return err
		}
		p := &catalog.Page{Cursor: cur, Region: "US", Chart: chart, Videos: l.Page(n), Done: n == 3, Next: "more"}
		if p.Done {
			p.Next = ""
		}
		if _, err := r.Save(ctx, p); err != nil {
			return err
		}
	}
	return r.End(ctx, catalog.Outcome{State: catalog.Done})
}

// servers are those that are asked.
type servers struct{ ours, anew, shut, bare *httptest.Server }

func (s *servers) close() {
	for _, one := range []*httptest.Server{s.ours, s.anew, s.shut, s.bare} {
		one.Close()
	}
}

// uncounted is a catalog whose answers cannot be kept.
type uncounted struct{ view.Catalog }

// open starts a server that limits nobody, one that also keeps nothing, one that refuses
// whoever comes again, and a bare one, which answers what it is told to.
func open(c *catalog.Catalog) (*servers, error) {
	ours, err := server(c, 0, 2_000_000_000)
	if err != nil {
		return nil, err
	}
	anew, err := server(uncounted{c}, -1, 2_000_000_000)
	if err != nil {
		return nil, err
	}
	shut, err := server(c, 0, 1)
	if err != nil {
		return nil, err
	}
	return &servers{httptest.NewServer(ours), httptest.NewServer(anew), httptest.NewServer(shut), httptest.NewUnstartedServer(nil)}, nil
}

func server(c view.Catalog, share time.Duration, limit int64) (*web.Server, error) {
	costs, err := book.Parse("bench.yaml", fmt.Appendf(nil, `
extends: builtin
families: {client: {quota: %d, windows: [{per: 1h, algorithm: counter}]}}
`, limit), &book.Options{Builtins: headroom.ReadBuiltin})
	if err != nil {
		return nil, err
	}
	ledger, err := quota.New(costs, memstore.New(nil), nil)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	runner := ingest.NewRunner(&ingest.Config{}, ledger, nil, nil, nil, &ingest.Options{Log: log})
	measured := metrics.New(&metrics.Options{Log: log, Share: share})
	return web.New(web.Sources{Sources: view.Sources{Ledger: ledger, Catalog: c, Runner: runner}}, &web.Options{Log: log, Metrics: measured, Share: share})
}

const (
	chart    = "/api/v1/trending?region=US"
	first    = "/"
	measures = "/metrics"
)

var zipped = http.Header{"Accept-Encoding": {"gzip"}}

// contenders asks each once, to see that it is answered as it should be. The bare handlers
// answer the same bytes.
func contenders(ctx context.Context, s *servers, l *library.Library) (all []asked, err error) {
	mux := http.NewServeMux()
	bare := func(name, path string, body []byte, header http.Header) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = header["Content-Type"]
			w.Header()["Content-Encoding"] = header["Content-Encoding"]
			_, _ = w.Write(body)
		})
		all = append(all, asked{name: name, url: path, status: http.StatusOK})
	}
	bare("bare: a handler that answers {}", "/little", []byte("{}\n"), http.Header{"Content-Type": {"application/json"}})
	var tag string
	for _, one := range []struct {
		name, path string
		header     http.Header
	}{{"the chart", chart, nil}, {"the chart, in gzip", chart, zipped}, {"the first page", first, nil}, {"the metrics", measures, nil}} {
		body, header, err := once(ctx, s.ours.URL+one.path, one.header)
		if err != nil {
			return nil, err
		}
		if one.header.Get("Accept-Encoding") != header.Get("Content-Encoding") {
			return nil, fmt.Errorf("%s is not compressed as it should be", one.name)
		}
		if tag == "" {
			tag = header.Get("ETag")
		}
		bare(fmt.Sprintf("bare: the %d kB of %s", len(body)>>10, one.name), fmt.Sprintf("/%d", len(all)), body, header)
	}
	s.bare.Config.Handler = mux
	s.bare.Start()
	for i := range all {
		all[i].url = s.bare.URL + all[i].url
	}
	if _, _, err := once(ctx, s.shut.URL+"/api/v1/regions", nil); err != nil {
		return nil, err
	}
	add := func(a asked) { all = append(all, a) }
	add(asked{"the chart, of 200 videos", s.ours.URL + chart, nil, http.StatusOK, 1, 1.5})
	add(asked{"the chart, in gzip", s.ours.URL + chart, zipped, http.StatusOK, 2, 1.5})
	add(asked{"the chart is still the same", s.ours.URL + chart, http.Header{"If-None-Match": {tag}}, http.StatusNotModified, 0, 2})
	add(asked{"the first page", s.ours.URL + first, nil, http.StatusOK, 3, 2})
	add(asked{"the metrics", s.ours.URL + measures, nil, http.StatusOK, 4, 1.5})
	for _, one := range []struct{ name, path string }{
		{"the chart", chart},
		{"the first page", first},
		{"the metrics", measures},
		{"search: a word of the 10,000 most common ones", "/api/v1/search?q=" + url.QueryEscape(l.Words[5000]+" ")},
		{"search: one of the 100", "/api/v1/search?q=" + url.QueryEscape(l.Words[50]+" ")},
	} {
		add(asked{one.name + ", made anew", s.anew.URL + one.path, nil, http.StatusOK, 0, 0})
		add(asked{one.name + ", kept", s.ours.URL + one.path, nil, http.StatusOK, len(all) - 1, 0.5})
	}
	add(asked{"a client that is refused", s.shut.URL + chart, nil, http.StatusTooManyRequests, 0, 0})
	return all, nil
}

func once(ctx context.Context, address string, header http.Header) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(req.Header, header)
	r, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", address, r.Status)
	}
	return body, r.Header, err
}

// taken is what requests took in a turn of one caller, and in one of many.
type taken struct {
	alone float64 // us of a request
	cpu   float64 // us of the processors for a request, its client's included; others on the machine hardly matter
	rate  float64 // requests per second
}

// compare asks all by turns, and prints the medians of what they take and of the ratios.
func compare(ctx context.Context, all []asked, rounds int, turn time.Duration) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: slices.Max(callers), DisableCompression: true}}
	defer client.CloseIdleConnections()
	own, peers := make([][]taken, len(all)), make([][]taken, len(all))
	for round := range rounds + 1 {
		for i, a := range all {
			var peer taken
			var err error
			if a.goal > 0 { // right before, so that both meet the same machine
				if peer, err = all[a.to].take(ctx, client, turn); err != nil {
					return err
				}
			}
			took, err := a.take(ctx, client, turn)
			if err != nil {
				return err
			}
			if round > 0 { // connections are up, and caches warm
				own[i], peers[i] = append(own[i], took), append(peers[i], peer)
			}
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "row\tus, 1 caller\tcpu us\tper second, 16\ttimes row\t1 caller\tcpu\tgoal\t  \t")
	for i, a := range all {
		middle := func(of func(own, peer taken) float64) float64 {
			var each []float64
			for r := range rounds {
				each = append(each, of(own[i][r], peers[i][r]))
			}
			return median(each)
		}
		fmt.Fprintf(w, "%d\t%.0f\t%.0f\t%.0f\t", i, middle(func(own, _ taken) float64 { return own.alone }),
			middle(func(own, _ taken) float64 { return own.cpu }), middle(func(own, _ taken) float64 { return own.rate }))
		if a.goal > 0 {
			fmt.Fprintf(w, "%d\t%.2f\t%.2f\t%.1f", a.to, middle(func(own, peer taken) float64 { return own.alone / peer.alone }),
				middle(func(own, peer taken) float64 { return own.cpu / peer.cpu }), a.goal)
		} else {
			fmt.Fprint(w, "\t\t\t")
		}
		fmt.Fprintf(w, "\t  %s\n", a.name)
	}
	return w.Flush()
}

// take measures what requests take.
func (a asked) take(ctx context.Context, client *http.Client, turn time.Duration) (t taken, err error) {
	ask := func(int) error { return a.ask(ctx, client) }
	alone, err := perSecond(callers[0], turn, ask)
	if err != nil {
		return t, err
	}
	many, err := perSecond(callers[1], turn, ask)
	return taken{1e6 / alone.rate, many.cpu, many.rate}, err
}

// cpuTime is what this process has used of the processors.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// ask makes one request, and reads all of the answer.
func (a asked) ask(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header = a.header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	r, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r.Body)
	if err = errors.Join(err, r.Body.Close()); err == nil && r.StatusCode != a.status {
		err = fmt.Errorf("%s: %s", a.name, r.Status)
	}
	return err
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
