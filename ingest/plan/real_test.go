package plan_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubetest"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// real has all parts of the ingestor, with files and HTTP. Only the clock and the upstream
// are simulated.
type real struct {
	t       *testing.T
	scene   *scene
	dir     string
	clock   *quota.SimClock
	sim     *youtubesim.Sim
	ledger  *quota.Ledger
	catalog *catalog.Catalog
	runner  *ingest.Runner
}

func newReal(t *testing.T, s *scene) *real {
	t.Helper()
	r := &real{t: t, scene: s, dir: t.TempDir(), clock: quota.NewSimClock(s.from)}
	limits := s.book.Upstreams["youtube"].Pools
	r.sim = youtubesim.New(&youtubesim.Options{Seed: 1, Clock: r.clock.Now, Quota: youtubesim.Quota{
		youtubesim.Default:    limits["units"].Windows[0].Quota,
		youtubesim.SearchList: limits["searches"].Windows[0].Quota,
	}})
	if s.failing != "" {
		r.sim.Inject(youtubesim.Fault{Method: "videos.list", Region: s.failing, Do: youtubesim.Answer, Status: 500})
	}
	server := httptest.NewServer(r.sim)
	t.Cleanup(server.Close)
	store, err := sqlitestore.Open(t.Context(), filepath.Join(r.dir, "ledger.db"), &sqlitestore.Options{Clock: r.clock})
	r.must(err)
	t.Cleanup(func() { r.must(store.Close()) })
	r.ledger, err = quota.New(s.book, store, &quota.Options{Clock: r.clock})
	r.must(err)
	r.catalog, err = catalog.Open(t.Context(), filepath.Join(r.dir, "catalog.db"), &catalog.Options{Clock: r.clock})
	r.must(err)
	t.Cleanup(func() { r.must(r.catalog.Close()) })
	quiet := slog.New(slog.DiscardHandler)
	client, err := youtubetest.Client(r.ledger, server.Listener.Addr().String(), nil)
	r.must(err)
	c := *s.config
	c.Workers = 1
	r.runner = ingest.NewRunner(&c, r.ledger, r.catalog, client, lease.Files(filepath.Join(r.dir, "locks")), &ingest.Options{
		Clock: r.clock, Log: quiet, Jitter: func(time.Duration) time.Duration { return 0 },
	})
	return r
}

func (r *real) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// daemon runs the jobs from one time to another, and returns the deferrals.
func (r *real) daemon(from, until time.Time) (deferred map[string][]string) {
	r.t.Helper()
	deferred = map[string][]string{}
	r.clock.Set(from)
	d := ingest.NewDaemon(r.runner, r.scene.config.List(), func(j *ingest.Job, rep *ingest.Report, err error) {
		r.must(err)
		for _, w := range rep.Work {
			var refused *quota.RefusedError
			if w.State == catalog.Deferred && errors.As(w.Err, &refused) {
				key := fmt.Sprintf("%s %s %s", j.Name, w.Work, refused.Pool)
				deferred[key] = append(deferred[key], fmt.Sprintf("%s until %s", stamp(rep.Ended), stamp(refused.RetryAt)))
			}
		}
	})
	r.must(d.Simulate(r.t.Context(), r.clock, until))
	return deferred
}

// spend makes other programs spend units of the ledger and the upstream the day before.
func (r *real) spend(rnd *rand.Rand) {
	pool := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
	for ago := 23 * time.Hour; ago > 0; ago -= time.Duration(1+rnd.IntN(240)) * time.Minute {
		r.clock.Set(r.scene.from.Add(-ago))
		_, err := r.ledger.Admin().Adjust(context.Background(), pool, int64(1+rnd.IntN(2)), "by hand")
		r.must(err)
		req, err := http.NewRequest(http.MethodGet, "http://upstream/youtube/v3/videos", nil)
		r.must(err)
		req.Header.Set("X-Goog-Api-Key", "AIza-not-a-key")
		r.sim.ServeHTTP(httptest.NewRecorder(), req)
	}
	r.clock.Set(r.scene.from)
}

// known gives a plan the spend of a copy of the ledger and a sketch of the catalog.
func (r *real) known(ctx context.Context, s *scene, o *plan.Options) {
	r.t.Helper()
	clock := quota.NewSimClock(s.from)
	file := filepath.Join(r.t.TempDir(), "ledger.db")
	r.must(sqlitefile.Snapshot(ctx, filepath.Join(r.dir, "ledger.db"), file))
	store, err := sqlitestore.Open(ctx, file, &sqlitestore.Options{Clock: clock})
	r.must(err)
	l, err := quota.New(s.book, store, nil)
	r.must(err)
	o.Past, err = plan.ReadPast(ctx, l, clock)
	r.must(err)
	r.must(store.Close())
	r.must(catalog.Inspect(ctx, filepath.Join(r.dir, "catalog.db"), func(c *catalog.Catalog) (err error) {
		o.History, err = plan.ReadSketch(ctx, c, s.config.List(), clock)
		return err
	}))
}

// run runs the jobs for the days of the plan, and reads the outcome from the ledger and the
// catalog.
func (r *real) run(s *scene) outcome {
	r.t.Helper()
	ctx := r.t.Context()
	pacific, err := time.LoadLocation("America/Los_Angeles")
	r.must(err)
	local := s.from.In(pacific)
	until := time.Date(local.Year(), local.Month(), local.Day()+s.days, 0, 0, 0, 0, pacific)
	already := r.units(ctx, s.from)
	o := outcome{Behind: map[string]string{}}
	for key, times := range r.daemon(s.from, until.Add(-time.Microsecond)) {
		o.Deferred = append(o.Deferred, fmt.Sprintf("%s %s, %d times", key, times[0], len(times)))
	}
	slices.Sort(o.Deferred)
	o.Units = r.units(ctx, s.from)
	for key := range o.Units {
		if _, day, _ := strings.Cut(key, " "); day >= until.Format(time.DateOnly) { // a run waited beyond the end
			delete(o.Units, key)
		}
	}
	for key, units := range already {
		if o.Units[key] -= units; o.Units[key] == 0 {
			delete(o.Units, key)
		}
	}
	for _, j := range s.config.List() {
		r.behind(ctx, j, until, o.Behind)
	}
	return o
}

// units returns the units that calls spent, by pool and day.
func (r *real) units(ctx context.Context, since time.Time) map[string]int64 {
	spent, err := r.ledger.View().Spend(ctx, quota.SpendQuery{Since: since}, quota.ByDay, quota.ByMethod)
	r.must(err)
	units := map[string]int64{}
	for _, one := range spent {
		if one.Labels.Reason == "" {
			units[strings.Replace(one.Pool.String(), "youtube@/", "youtube/", 1)+" "+one.Day] += one.Units
		}
	}
	return units
}

// behind reads from the history of runs which work was due and not done.
func (r *real) behind(ctx context.Context, j *ingest.Job, until time.Time, all map[string]string) {
	runs, err := r.catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Limit: 10_000})
	r.must(err)
	slices.Reverse(runs)
	type late struct {
		since  time.Time
		worst  time.Duration
		missed int
	}
	lates := map[string]*late{}
	for i, run := range runs {
		if run.StartedAt.Before(r.scene.from) || run.Scheduled.IsZero() {
			continue
		}
		for _, w := range run.Work {
			if hadItsTurn(&w) {
				continue
			}
			one := lates[w.Work]
			if one == nil {
				one = &late{}
				lates[w.Work] = one
			}
			one.missed++
			if took := doneAfter(runs[i:], w.Work, until).Sub(run.Scheduled); took > one.worst {
				one.since, one.worst = run.Scheduled, took
			}
		}
	}
	for work, one := range lates {
		all[j.Name+" "+work] = fmt.Sprintf("%d s since %s, %d missed", int64(one.worst/time.Second), stamp(one.since), one.missed)
	}
}

// hadItsTurn reports whether a run fetched as many pages of the work as it may.
func hadItsTurn(w *catalog.WorkRecord) bool {
	return w.State == catalog.Done || w.Error == ingest.ErrMorePages.Error()
}

// doneAfter returns when runs first finished the work.
func doneAfter(runs []catalog.RunRecord, work string, until time.Time) time.Time {
	for _, run := range runs {
		for _, w := range run.Work {
			if w.Work == work && hadItsTurn(&w) {
				return run.EndedAt
			}
		}
	}
	return until
}
