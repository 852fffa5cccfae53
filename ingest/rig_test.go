package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubetest"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// rig is a runner with all that is under it, on a clock that is moved, before an
// upstream that is simulated.
type rig struct {
	t       *testing.T
	clock   *quota.SimClock
	sim     *youtubesim.Sim
	store   quota.Store
	ledger  *quota.Ledger
	catalog *catalog.Catalog
	runner  *ingest.Runner
	options ingest.Options
	config  *ingest.Config
	locks   lease.Locker
	server  *httptest.Server
}

// noon is in the middle of a day in California.
var noon = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

// newRig has so many units a day, and the true quota is headroom more.
func newRig(t *testing.T, units int64, jobs map[string]ingest.Job) *rig {
	t.Helper()
	r := &rig{t: t, clock: quota.NewSimClock(noon), locks: lease.Files(t.TempDir())}
	r.sim = youtubesim.New(&youtubesim.Options{Seed: 1, Clock: r.clock.Now, Quota: youtubesim.Quota{youtubesim.Default: units + 5}})
	server := httptest.NewServer(r.sim)
	t.Cleanup(server.Close)

	r.store = memstore.New(&memstore.Options{Clock: r.clock})
	r.ledger = r.newLedger(2, units)
	var err error
	r.catalog, err = catalog.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Clock: r.clock})
	r.must(err)
	t.Cleanup(func() { r.must(r.catalog.Close()) })

	r.config = &ingest.Config{Jobs: jobs, Workers: 1, MaxWait: ingest.DefaultMaxWait}
	for _, fault := range r.config.Prepare() {
		t.Fatal(fault)
	}
	r.options = ingest.Options{Clock: r.clock, Log: slog.New(slog.DiscardHandler), Jitter: func(time.Duration) time.Duration { return 0 }}
	r.server = server
	r.remake()
	return r
}

// newLedger is a ledger of so many units a day, by a book with this revision.
func (r *rig) newLedger(revision int, units int64) *quota.Ledger {
	r.t.Helper()
	l, err := youtubetest.Ledger(r.store, revision, units, r.clock)
	r.must(err)
	return l
}

// remake makes the runner anew, by the options of the rig.
func (r *rig) remake() {
	r.t.Helper()
	r.runner = ingest.NewRunner(r.config, r.ledger, r.catalog, r.upstream(), r.locks, &r.options)
}

// upstream is a client of the simulator, whose calls are metered.
func (r *rig) upstream() *youtube.Client {
	r.t.Helper()
	client, err := youtubetest.Client(r.ledger, r.server.Listener.Addr().String(), r.options.Log)
	r.must(err)
	return client
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

// run makes one run of a job.
func (r *rig) run(name string, why ingest.Occasion) *ingest.Report {
	r.t.Helper()
	rep, err := r.runner.Run(context.Background(), r.job(name), why)
	r.must(err)
	r.charged(rep)
	return rep
}

// charged compares the units of each unit of work with those of its pools.
func (r *rig) charged(rep *ingest.Report) {
	r.t.Helper()
	for _, w := range rep.Work {
		if w.Charges.Sum() != w.Units {
			r.t.Errorf("%s spent %d units, and its pools have %v", w.Work, w.Units, w.Charges)
		}
	}
	runs, err := r.catalog.Runs(context.Background(), catalog.RunsQuery{Job: rep.Job, Limit: 1})
	if err != nil { // the catalog of some tests fails
		return
	}
	if len(runs) == 0 {
		r.t.Errorf("the catalog has no run of %s", rep.Job)
		return
	}
	for _, w := range runs[0].Work {
		if w.Charges.Sum() != w.Units {
			r.t.Errorf("the catalog has %d units of %s, and in its pools %v", w.Units, w.Work, w.Charges)
		}
	}
}

// refused is how many calls the upstream itself refused.
func (r *rig) refused() int64 { return r.sim.Counts().Total().Refused }

// states is a line per unit of work of a report.
func states(rep *ingest.Report) []string {
	var all []string
	for _, w := range rep.Work {
		all = append(all, fmt.Sprintf("%s %s %d", w.Work, w.State, w.Pages))
	}
	return all
}

// soak reports whether to run with full counts.
func soak() bool { return os.Getenv("HEADROOM_SOAK") == "1" }
