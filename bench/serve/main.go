// Serve sets what ingestor serve answers beside a bare handler, over loopback.
//
//	go run ./serve
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/bench/library"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/web"
	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

func main() {
	rounds := flag.Int("rounds", 9, "interleaved rounds, of which the median counts")
	turn := flag.Duration("turn", 200*time.Millisecond, "how long each is asked in a round, by one caller and by many")
	videos := flag.Int("videos", 20_000, "videos in the catalog")
	flag.Parse()
	if err := run(context.Background(), *rounds, *turn, *videos); err != nil {
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
}

func run(ctx context.Context, rounds int, turn time.Duration, videos int) (err error) {
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
type servers struct{ ours, shut, bare *httptest.Server }

func (s *servers) close() {
	s.ours.Close()
	s.shut.Close()
	s.bare.Close()
}

// open starts a server that limits nobody, one that refuses whoever comes again, and a
// bare one, which answers what it is told to.
func open(c *catalog.Catalog) (*servers, error) {
	ours, err := server(c, 2_000_000_000)
	if err != nil {
		return nil, err
	}
	shut, err := server(c, 1)
	if err != nil {
		return nil, err
	}
	return &servers{httptest.NewServer(ours), httptest.NewServer(shut), httptest.NewUnstartedServer(nil)}, nil
}

func server(c *catalog.Catalog, limit int64) (*web.Server, error) {
	costs, err := book.Parse("bench.yaml", fmt.Appendf(nil, `
extends: builtin
families: {client: {quota: %d, windows: [{per: 1h, algorithm: counter}]}}
`, limit), &book.Options{Builtins: headroom.Builtin})
	if err != nil {
		return nil, err
	}
	ledger, err := quota.New(costs, memstore.New(nil), nil)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	runner := ingest.NewRunner(&ingest.Config{}, ledger, c, nil, nil, &ingest.Options{Log: log})
	return web.New(web.Sources{Sources: view.Sources{Ledger: ledger, Catalog: c, Runner: runner}}, &web.Options{Log: log})
}

// contenders asks each once, to see that it is answered as it should be.
func contenders(ctx context.Context, s *servers, l *library.Library) ([]asked, error) {
	chart, tag, err := once(ctx, s.ours.URL+"/api/v1/trending?region=US")
	if err != nil {
		return nil, err
	}
	if _, _, err := once(ctx, s.shut.URL+"/api/v1/regions"); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for path, body := range map[string][]byte{"/little": []byte("{}\n"), "/chart": chart} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
		})
	}
	s.bare.Config.Handler = mux
	s.bare.Start()
	search := func(word string) string { return s.ours.URL + "/api/v1/search?q=" + url.QueryEscape(word+" ") }
	return []asked{
		{"bare: a handler that answers {}", s.bare.URL + "/little", nil, http.StatusOK},
		{fmt.Sprintf("bare: one that answers the %d kB of the chart", len(chart)>>10), s.bare.URL + "/chart", nil, http.StatusOK},
		{"trending: the chart, of 200 videos", s.ours.URL + "/api/v1/trending?region=US", nil, http.StatusOK},
		{"trending: it is still the same", s.ours.URL + "/api/v1/trending?region=US", http.Header{"If-None-Match": {tag}}, http.StatusNotModified},
		{"search: a word of the 10,000 most common ones", search(l.Words[5000]), nil, http.StatusOK},
		{"search: one of the 100", search(l.Words[50]), nil, http.StatusOK},
		{"a client that is refused", s.shut.URL + "/api/v1/trending?region=US", nil, http.StatusTooManyRequests},
	}, nil
}

func once(ctx context.Context, address string) (body []byte, tag string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, "", err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(r.Body)
	if err = errors.Join(err, r.Body.Close()); err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", address, r.Status)
	}
	return b.Bytes(), r.Header.Get("ETag"), err
}

// compare asks all by turns, and prints the median of each and of its ratio to the first.
func compare(ctx context.Context, all []asked, rounds int, turn time.Duration) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: slices.Max(callers)}}
	defer client.CloseIdleConnections()
	rates := make([][][]float64, len(all)) // by contender and number of callers
	for i := range all {
		rates[i] = make([][]float64, len(callers))
	}
	for round := range rounds + 1 {
		for i, a := range all {
			for k, n := range callers {
				rate, err := a.rate(ctx, client, n, turn)
				if err != nil {
					return err
				}
				if round > 0 { // connections are up, and caches warm
					rates[i][k] = append(rates[i][k], rate)
				}
			}
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "vs bare\tus, 1 caller\tper second, 16\t  \t")
	for i, a := range all {
		ratios := make([]float64, rounds)
		for r := range ratios {
			ratios[r] = rates[0][0][r] / rates[i][0][r]
		}
		fmt.Fprintf(w, "%.2f\t%.0f\t%.0f\t  %s\n", median(ratios), 1e6/median(rates[i][0]), median(rates[i][1]), a.name)
	}
	return w.Flush()
}

// rate is how many requests a second so many callers have answered.
func (a asked) rate(ctx context.Context, client *http.Client, n int, turn time.Duration) (float64, error) {
	return perSecond(n, turn, func() error { return a.ask(ctx, client) })
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
