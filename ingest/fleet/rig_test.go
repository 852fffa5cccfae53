package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubetest"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// rig is the ground of a fleet: a database, a ledger, and a simulated upstream.
type rig struct {
	t      *testing.T
	url    string
	sim    *youtubesim.Sim
	server *httptest.Server
	ledger *quota.Ledger
	config *ingest.Config
	slow   func() // called before each request; nil: nothing
}

// made is a database with the tables of a catalog and a fleet.
var made = pgtest.Prepare(func(url string) error {
	ctx := context.Background()
	c, err := pgcatalog.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	return errors.Join(fleet.Migrate(ctx, c), c.Close())
})

func newRig(t *testing.T, units int64, jobs map[string]ingest.Job) *rig {
	t.Helper()
	return newRigAt(t, nil, units, jobs)
}

// newRigAt is newRig with an upstream whose clock is another one; nil is the machine's.
func newRigAt(t *testing.T, clock func() time.Time, units int64, jobs map[string]ingest.Job) *rig {
	t.Helper()
	r := &rig{t: t, url: made.Shared(t)}
	r.sim = youtubesim.New(&youtubesim.Options{Seed: 1, Clock: clock, Quota: youtubesim.Quota{youtubesim.Default: units + 5}})
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.slow != nil {
			r.slow()
		}
		r.sim.ServeHTTP(w, req)
	}))
	t.Cleanup(r.server.Close)
	r.ledger = r.newLedger(memstore.New(nil), 2, units)
	r.config = &ingest.Config{Jobs: jobs, Workers: 2, MaxWait: 2 * time.Second}
	for _, fault := range r.config.Prepare() {
		t.Fatal(fault)
	}
	return r
}

func (r *rig) newLedger(store quota.Store, revision int, units int64) *quota.Ledger {
	r.t.Helper()
	l, err := youtubetest.Ledger(store, revision, units, nil)
	r.must(err)
	return l
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) job(name string) *ingest.Job {
	j := r.config.Jobs[name]
	return &j
}

// catalog opens the catalog in the database, and the tables of the fleet.
func (r *rig) catalog() *pgcatalog.Catalog {
	r.t.Helper()
	c, err := pgcatalog.Open(r.t.Context(), r.url, &pgcatalog.Options{Conns: 20})
	r.must(err)
	r.t.Cleanup(func() {
		r.charged(c)
		r.must(c.Close())
	})
	r.must(fleet.Migrate(r.t.Context(), c))
	return c
}

// charged compares the units of each unit of work that has ended with those of its pools.
func (r *rig) charged(c *pgcatalog.Catalog) {
	rows, err := c.Pool().Query(context.Background(), `SELECT work, units, charges FROM headroom_catalog.run_work WHERE state <> 'running'
		AND units <> (SELECT coalesce(sum(value::bigint), 0) FROM json_each_text(coalesce(nullif(charges, ''), '{}')::json))`)
	r.must(err)
	defer rows.Close()
	for rows.Next() {
		var work, charges string
		var units int64
		r.must(rows.Scan(&work, &units, &charges))
		r.t.Errorf("%s spent %d units, and its pools have %s", work, units, charges)
	}
	if denied, is := errors.AsType[*pgconn.PgError](rows.Err()); !is || denied.Code != "42501" { // a test has taken the rights away
		r.must(rows.Err())
	}
}

// runner returns a runner on a catalog.
func (r *rig) runner(c ingest.Catalog, clock quota.Clock, locks lease.Locker) *ingest.Runner {
	r.t.Helper()
	client, err := youtubetest.Client(r.ledger, r.server.Listener.Addr().String(), r.log())
	r.must(err)
	return ingest.NewRunner(r.config, r.ledger, c, client, locks, &ingest.Options{
		Clock: clock, Log: r.log(), Jitter: func(time.Duration) time.Duration { return 0 },
	})
}

func (r *rig) log() *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// fleet returns one process of a fleet.
func (r *rig) fleet(c *pgcatalog.Catalog, o fleet.Options) *fleet.Fleet {
	r.t.Helper()
	clock, err := fleet.NewClock(r.t.Context(), c)
	r.must(err)
	o.Log = r.log()
	f, err := fleet.New(c, clock, r.runner(c, clock, nil), r.config.List(), &o)
	r.must(err)
	return f
}

// process returns what a process has that is one of a fleet: the database at a URL, and a ledger
// of its own.
func process(ctx context.Context, url string, jobs map[string]ingest.Job) (*rig, *pgcatalog.Catalog, *fleet.Clock, error) {
	r := &rig{config: &ingest.Config{Jobs: jobs}}
	r.config.Prepare()
	c, err := pgcatalog.Open(ctx, url, &pgcatalog.Options{Conns: 10})
	if err != nil {
		return nil, nil, nil, err
	}
	clock, err := fleet.NewClock(ctx, c)
	if err != nil {
		return nil, nil, nil, err
	}
	r.ledger, err = youtubetest.Ledger(memstore.New(nil), 2, 1000, nil)
	return r, c, clock, err
}

// soak reports whether to run with full counts.
func soak() bool { return os.Getenv("HEADROOM_SOAK") == "1" }

var retryAfter = regexp.MustCompile("retry after [0-9hms]+ at [0-9T:Z-]+")

// states is a line per unit of work of a report.
func states(rep *ingest.Report) []string {
	var all []string
	for _, w := range rep.Work {
		all = append(all, fmt.Sprintf("%s %s: %d pages, %d new, %d updated, %d units, %v", w.Work, w.State, w.Pages, w.New, w.Updated, w.Units, retryAfter.ReplaceAllString(fmt.Sprint(w.Err), "")))
	}
	return all
}

// background runs do until the test ends.
func (r *rig) background(do func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := do(ctx); err != nil {
			r.t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	r.t.Cleanup(stop)
	return stop
}

// beat says that a process is alive. What beats often gives each beat little time, which may not
// do on a busy machine.
func (r *rig) beat(f *fleet.Fleet) {
	r.t.Helper()
	r.eventually("a beat", func() bool { return f.Beat(context.Background()) == nil })
}

// eventually waits until a condition holds.
func (r *rig) eventually(what string, holds func() bool) {
	r.t.Helper()
	for end := time.Now().Add(4 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("never: %s", what)
		}
	}
}
