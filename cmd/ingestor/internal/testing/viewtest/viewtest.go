// Package viewtest builds [view.Sources] for tests: a ledger, a catalog and a runner on a
// clock that the test moves. Real runs fill them, from a simulated upstream.
package viewtest

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubetest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// Noon is when the clock of a rig starts: the middle of a day in California.
var Noon = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

// Rig holds the sources and what fills them.
type Rig struct {
	testing.TB
	Clock   *quota.SimClock
	Ledger  *quota.Ledger
	Catalog *catalog.Catalog
	Runner  *ingest.Runner
	Config  *ingest.Config
	Sim     *youtubesim.Sim
	Store   *Gate
}

// Gate is a store whose pools a test can make unreadable or slow to read.
type Gate struct {
	*memstore.Store
	Before atomic.Pointer[func(context.Context) error] // runs before each Look; nil does nothing
	Lost   atomic.Pointer[quota.ForgottenError]        // of a pool that Look has forgotten; or nil
}

// Look implements [quota.Store].
func (g *Gate) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	if before := g.Before.Load(); before != nil {
		if err := (*before)(ctx); err != nil {
			return nil, err
		}
	}
	if lost := g.Lost.Load(); lost != nil && slices.ContainsFunc(charges, func(c quota.Charge) bool { return c.Pool == lost.Pool }) {
		return nil, lost
	}
	return g.Store.Look(ctx, charges)
}

// Options are the settings of [New]; nil is legal.
type Options struct {
	Prices   string         // price book entries that override the built-in ones
	Config   *ingest.Config // nil: see [Hourly]
	Observer quota.Observer // of the ledger
	Log      *slog.Logger   // nil: discards
}

// Hourly returns the settings of one job, which fetches two pages of two charts each hour.
func Hourly() *ingest.Config {
	return &ingest.Config{
		Regions: []string{"US", "DE"}, Workers: 1,
		Jobs: map[string]ingest.Job{"trending": {Kind: ingest.Trending, Cron: "15 * * * *", Pages: 2}},
	}
}

// New returns a rig whose catalog is empty and whose ledger is in memory.
func New(t testing.TB, o *Options) *Rig {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	r := &Rig{TB: t, Clock: quota.NewSimClock(Noon), Config: o.Config}
	if r.Config == nil {
		r.Config = Hourly()
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var err error
	r.Store = &Gate{Store: memstore.New(&memstore.Options{Clock: r.Clock})}
	r.Ledger, err = quota.New(r.Book(o.Prices), r.Store, &quota.Options{Clock: r.Clock, Observer: o.Observer})
	r.Must(err)
	r.Catalog, err = catalog.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Clock: r.Clock})
	r.Must(err)
	t.Cleanup(func() { r.Must(r.Catalog.Close()) })
	for _, fault := range r.Config.Prepare() {
		t.Fatal(fault)
	}
	r.Sim = youtubesim.New(&youtubesim.Options{Seed: 1, Clock: r.Clock.Now})
	sim := httptest.NewServer(r.Sim)
	t.Cleanup(sim.Close)
	client, err := youtubetest.Client(r.Ledger, sim.Listener.Addr().String(), log)
	r.Must(err)
	r.Runner = ingest.NewRunner(r.Config, r.Ledger, r.Catalog, client, lease.Files(t.TempDir()), &ingest.Options{
		Clock: r.Clock, Log: log, Jitter: func(time.Duration) time.Duration { return 0 },
	})
	return r
}

// Sources returns the sources, as a server or a page takes them.
func (r *Rig) Sources() view.Sources {
	return view.Sources{Ledger: r.Ledger, Catalog: r.Catalog, Runner: r.Runner, Jobs: r.Config.List()}
}

// Book returns the built-in price book with these entries in place of its own.
func (r *Rig) Book(entries string) *quota.Book {
	r.Helper()
	b, err := book.Parse("test", []byte("extends: builtin\nrevision: 2\n"+entries), &book.Options{Builtins: headroom.ReadBuiltin})
	r.Must(err)
	return b
}

// Must ends the test if there is an error.
func (r *Rig) Must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// Run runs a job once, now, as a person does.
func (r *Rig) Run(name string) { r.run(name, ingest.Occasion{}) }

// RunOnTime runs a job once, as a timer does for which it is due now.
func (r *Rig) RunOnTime(name string) { r.run(name, ingest.Occasion{Scheduled: r.Clock.Now()}) }

func (r *Rig) run(name string, on ingest.Occasion) {
	r.Helper()
	for _, j := range r.Config.List() {
		if j.Name == name {
			_, err := r.Runner.Run(context.Background(), j, on)
			r.Must(err)
			return
		}
	}
	r.Fatalf("there is no job %s", name)
}
