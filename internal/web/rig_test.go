package web_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/internal/metrics"
	"github.com/headroom-quota/headroom/internal/view"
	"github.com/headroom-quota/headroom/internal/web"
	"github.com/headroom-quota/headroom/internal/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// rig is a server with all that is under it, on a clock that is moved. What it serves
// is fetched by real runs, from an upstream that is simulated.
type rig struct {
	testing.TB
	clock   *quota.SimClock
	ledger  *quota.Ledger
	catalog *catalog.Catalog
	runner  *ingest.Runner
	config  *ingest.Config
	sim     *youtubesim.Sim
	server  *web.Server
	store   *gate
	url     string
}

// gate is a store that can be kept from telling how its pools stand.
type gate struct {
	quota.Store
	before atomic.Pointer[func(context.Context) error] // what is done first; nil is nothing
}

func (g *gate) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	if before := g.before.Load(); before != nil {
		if err := (*before)(ctx); err != nil {
			return nil, err
		}
	}
	return g.Store.Look(ctx, charges)
}

// noon is in the middle of a day in California.
var noon = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

// generous are limits per client that no test reaches.
const generous = "families: {client: {quota: 1000000, windows: [{per: 1m, algorithm: counter}]}}"

// newRig serves with options, of which the rig sets the clock, and with limits that are
// not reached.
func newRig(t testing.TB, o *web.Options) *rig {
	t.Helper()
	return newLimitedRig(t, o, generous)
}

// newLimitedRig serves with the families of a price book.
func newLimitedRig(t testing.TB, o *web.Options, families string) *rig {
	t.Helper()
	return newRigOf(t, o, families, hourly())
}

// hourly are two charts, of two pages each.
func hourly() *ingest.Config {
	return &ingest.Config{
		Regions: []string{"US", "DE"}, Workers: 1,
		Jobs: map[string]ingest.Job{"trending": {Kind: ingest.Trending, Cron: "15 * * * *", Pages: 2}},
	}
}

// newRigOf serves with what a price book says beside the built-in one, and with jobs.
func newRigOf(t testing.TB, o *web.Options, differs string, config *ingest.Config) *rig {
	t.Helper()
	r := &rig{TB: t, clock: quota.NewSimClock(noon), config: config}
	if o == nil {
		o = &web.Options{}
	}
	o.Clock = r.clock
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if o.Metrics == nil {
		o.Metrics = metrics.New(&metrics.Options{Log: o.Log})
	}
	r.store = &gate{Store: memstore.New(&memstore.Options{Clock: r.clock})}
	r.ledger, err = quota.New(r.book(differs), r.store, &quota.Options{Clock: r.clock, Observer: o.Metrics})
	r.must(err)
	r.catalog, err = catalog.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Clock: r.clock})
	r.must(err)
	t.Cleanup(func() { r.must(r.catalog.Close()) })
	for _, fault := range r.config.Prepare() {
		t.Fatal(fault)
	}
	r.sim = youtubesim.New(&youtubesim.Options{Seed: 1, Clock: r.clock.Now})
	sim := httptest.NewServer(r.sim)
	t.Cleanup(sim.Close)
	transport, err := meter.New(r.ledger, &meter.Options{
		Base: toServer{sim.Listener.Addr().String()},
		Keys: map[string]meter.KeySource{"youtube": meter.Key("AIza-not-a-key")}, Logger: o.Log,
	})
	r.must(err)
	client, err := youtube.New(&http.Client{Transport: transport}, nil)
	r.must(err)
	r.runner = ingest.NewRunner(r.config, r.ledger, r.catalog, client, lease.Files(t.TempDir()), &ingest.Options{
		Clock: r.clock, Log: o.Log, Jitter: func(time.Duration) time.Duration { return 0 },
	})
	r.server, err = web.New(web.Sources{Sources: view.Sources{Ledger: r.ledger, Catalog: r.catalog, Runner: r.runner, Jobs: r.config.List()}}, o)
	r.must(err)
	front := httptest.NewServer(r.server)
	t.Cleanup(front.Close)
	r.url = front.URL
	return r
}

// toServer sends what is meant for the upstream to the simulator.
type toServer struct{ address string }

func (s toServer) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host, out.Host = "http", s.address, s.address
	return http.DefaultTransport.RoundTrip(out)
}

// book is the built-in price book with families.
func (r *rig) book(families string) *quota.Book {
	r.Helper()
	b, err := book.Parse("test", []byte("extends: builtin\nrevision: 2\n"+families), &book.Options{Builtins: headroom.Builtin})
	r.must(err)
	return b
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// run makes one run of a job.
func (r *rig) run(name string) {
	r.Helper()
	for _, j := range r.config.List() {
		if j.Name == name {
			_, err := r.runner.Run(context.Background(), j, ingest.Occasion{})
			r.must(err)
			return
		}
	}
	r.Fatalf("there is no job %s", name)
}

// answer is what the server answered.
type answer struct {
	*http.Response
	body string
}

// ask makes a request; headers are pairs of name and value.
func (r *rig) ask(method, path, body string, headers ...string) answer {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.url+path, strings.NewReader(body))
	r.must(err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req) // follows no redirect
	r.must(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	r.must(err)
	return answer{res, string(text)}
}

// get asks for JSON and reads it into a value.
func (r *rig) get(path string, into any) {
	r.Helper()
	a := r.ask("GET", path, "")
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "application/json" {
		r.Fatalf("%s: %s, %s", path, a.Status, a.body)
	}
	r.must(json.Unmarshal([]byte(a.body), into))
}

// problem asks for what must fail, and returns what it says.
func (r *rig) problem(status int, method, path, body string, headers ...string) web.Problem {
	r.Helper()
	a := r.ask(method, path, body, headers...)
	if a.StatusCode != status || a.Header.Get("Content-Type") != "application/problem+json" {
		r.Fatalf("%s %s: %s of %s, %s", method, path, a.Status, a.Header.Get("Content-Type"), a.body)
	}
	var p web.Problem
	r.must(json.Unmarshal([]byte(a.body), &p))
	if p.Status != status || p.Title == "" {
		r.Errorf("%s %s: the problem says %+v", method, path, p)
	}
	return p
}
