package fleet_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
)

// TestRunIsLikeTheLocalOne makes the same runs by a single process with a file, and by a
// fleet.
func TestRunIsLikeTheLocalOne(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		units int64
		job   ingest.Job
		prime func(*rig)
	}{
		{name: "done", units: 100, job: ingest.Job{Kind: ingest.Trending, Regions: []string{"US", "DE", "FR"}, Pages: 3}},
		{name: "searches go on in the next run", units: 100, job: ingest.Job{Kind: ingest.Search, Regions: []string{"US"}, Queries: []string{"music", "news"}, Pages: 2}},
		{name: "beyond the quota", units: 4, job: ingest.Job{Kind: ingest.Trending, Regions: []string{"US", "DE"}, Pages: 4}},
		{name: "max_units", units: 100, job: ingest.Job{Kind: ingest.Trending, Regions: []string{"US", "DE"}, Pages: 4, MaxUnits: 3}},
		{name: "retention", units: 100, job: ingest.Job{Kind: ingest.Retention}},
		{name: "a region that fails", units: 100, job: ingest.Job{Kind: ingest.Trending, Regions: []string{"US", "DE", "FR"}, Pages: 2}, prime: func(r *rig) {
			r.sim.Inject(youtubesim.Fault{Region: "DE", Do: youtubesim.Answer, Status: 404})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.job.Cron = "0 0 * * *"
			got := make([]*ingest.Report, 2)
			begun := time.Now() // what the upstream shows changes with time
			for i := range got {
				r := newRigAt(t, func() time.Time { return begun }, tt.units, map[string]ingest.Job{"it": tt.job})
				r.config.Workers = 1
				if tt.prime != nil {
					tt.prime(r)
				}
				var err error
				if i == 0 {
					c, err := catalog.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), nil)
					r.must(err)
					t.Cleanup(func() { r.must(c.Close()) })
					got[i], err = r.runner(c, quota.SystemClock{}, lease.Files(t.TempDir())).Run(t.Context(), r.job("it"), ingest.Occasion{})
					r.must(err)
				} else {
					f := r.fleet(r.catalog(), fleet.Options{Workers: 1})
					got[i], err = f.Once(context.Background(), r.job("it"), ingest.Occasion{})
					r.must(err)
				}
				rep := got[i]
				t.Logf("%s %v until %s: %v", rep.State, rep.Units, rep.ResumeAt, rep.Err)
			}
			if diff := cmp.Diff(states(got[0]), states(got[1])); diff != "" {
				t.Errorf("(-local +fleet)\n%s", diff)
			}
			if a, b := got[0], got[1]; a.State != b.State || a.Units != b.Units || a.ResumeAt.IsZero() != b.ResumeAt.IsZero() || a.ResumeAt.Sub(b.ResumeAt).Abs() > time.Minute {
				t.Errorf("local %s, %d units, until %s; fleet %s, %d units, until %s", a.State, a.Units, a.ResumeAt, b.State, b.Units, b.ResumeAt)
			}
		})
	}
}
