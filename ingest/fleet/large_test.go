package fleet_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// large returns a job with n units of work, which is due long after the test.
func large(n int) map[string]ingest.Job {
	queries := make([]string, n)
	for i := range queries {
		queries[i] = fmt.Sprintf("query %d", i)
	}
	return map[string]ingest.Job{"search": {Kind: ingest.Search, Cron: "0 0 1 1 *", Regions: []string{"US"}, Queries: queries, Pages: 1, MaxLateness: 9000 * time.Hour}}
}

// whole fails the test unless the one run has each unit of its work once, in both queues.
func (r *rig) whole(c *pgcatalog.Catalog, n int) {
	r.t.Helper()
	for _, table := range []string{"units", "works", "river_job"} {
		if have := r.number(c, "SELECT count(*) FROM headroom_fleet."+table); have != n {
			r.t.Errorf("%s has %d rows for %d units of work", table, have, n)
		}
	}
	if open := r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE adding_at IS NOT NULL OR adding_by IS NOT NULL"); open != 0 {
		r.t.Errorf("%d runs still get work", open)
	}
}

// TestALargeRun is inserted in parts. The first of them are worked while the others are inserted.
func TestALargeRun(t *testing.T) {
	t.Parallel()
	n := 3500
	if soak() {
		n = 100_000
	}
	r := newRig(t, 100_000, large(n))
	c := r.catalog()
	f := r.fleet(c, fleet.Options{})
	watching, watched := context.WithCancel(t.Context())
	longest, first, began := 0.0, time.Duration(0), time.Now()
	var watch sync.WaitGroup
	watch.Go(func() {
		for watching.Err() == nil {
			var age float64
			var some int
			_ = c.Pool().QueryRow(watching, "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend'").Scan(&age)
			_ = c.Pool().QueryRow(watching, "SELECT count(*) FROM headroom_fleet.units").Scan(&some)
			if longest = max(longest, age); some > 0 && first == 0 {
				first = time.Since(began)
			}
		}
	})
	r.must(f.Insert(t.Context(), r.job("search"), time.Now().Add(-time.Minute)))
	all := time.Since(began)
	watched()
	watch.Wait()
	t.Logf("%d units of work: the first after %s, all after %s; the longest transaction took %.0f ms", n, first.Round(time.Millisecond), all.Round(time.Millisecond), 1000*longest)
	r.whole(c, n)
	if parts := r.number(c, "SELECT count(DISTINCT xmin::text) FROM headroom_fleet.units"); parts < n/1000 {
		t.Errorf("%d transactions for %d units of work", parts, n)
	}
	if lasts := r.number(c, "SELECT max(seq) - count(*) FROM headroom_fleet.units"); lasts != 0 {
		t.Errorf("the last unit of work is %d too late in its run", lasts)
	}
}

// TestALargeRunIsAdopted: a process ends after the first part, and another adds the rest, once.
func TestALargeRunIsAdopted(t *testing.T) {
	t.Parallel()
	const n = 2500
	r := newRig(t, 100_000, large(n))
	c := r.catalog()
	ending, end := context.WithCancel(t.Context())
	lock, err := c.Pool().Begin(t.Context())
	r.must(err)
	_, err = lock.Exec(t.Context(), "SELECT pg_advisory_xact_lock(1)")
	r.must(err)
	for _, statement := range []string{ // the second part waits for the lock
		`CREATE FUNCTION headroom_fleet.held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF (SELECT count(*) FROM headroom_fleet.units) > 1500 THEN PERFORM pg_advisory_xact_lock(1); END IF;
			RETURN NULL;
		END $$`,
		"CREATE TRIGGER held AFTER INSERT ON headroom_fleet.units EXECUTE FUNCTION headroom_fleet.held()",
	} {
		_, err = c.Pool().Exec(t.Context(), statement)
		r.must(err)
	}
	go func() {
		r.eventually("the first part is there", func() bool { return r.number(c, "SELECT count(*) FROM headroom_fleet.units") > 0 })
		end()
	}()
	if err := r.fleet(c, fleet.Options{}).Insert(ending, r.job("search"), time.Now().Add(-time.Minute)); err == nil {
		t.Fatal("the process ended before the end")
	}
	r.must(lock.Rollback(t.Context()))
	if some := r.number(c, "SELECT count(*) FROM headroom_fleet.units"); some == 0 || some == n {
		t.Fatalf("%d units of work were inserted before the process ended", some)
	}
	r.must(r.ledger.BlockFor(t.Context(), units, time.Hour, "a test"))
	for range 2 {
		r.background(r.fleet(r.catalog(), fleet.Options{Timing: fleet.Timing{Mend: 200 * time.Millisecond}}).Run)
	}
	r.eventually("another process adds the rest", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE adding_at IS NULL AND NOT deferred") == 1
	})
	if have := r.number(c, "SELECT count(*) FROM headroom_fleet.units u JOIN headroom_fleet.runs r ON r.id = u.run WHERE NOT r.deferred"); have != n {
		t.Errorf("the run has %d of %d units of work", have, n)
	}
}

// TestALargeRunIsResumedOnce: two processes that resume the same deferred work at once do not both get a part.
func TestALargeRunIsResumedOnce(t *testing.T) {
	t.Parallel()
	const n = 2500
	r := newRig(t, 100_000, large(n))
	c := r.catalog()
	_, err := c.Pool().Exec(t.Context(), `INSERT INTO headroom_catalog.cursors (job, work, pass, page, token, since, high, mark, saved_at, completed_at, resume_at, blocked_on)
		SELECT 'search', 'US/query ' || i, 0, 0, '', 0, 0, 0, 0, 0, 1, '' FROM generate_series(0, $1::integer - 1) AS i`, n)
	r.must(err)
	var both sync.WaitGroup
	for range 2 {
		f := r.fleet(r.catalog(), fleet.Options{})
		both.Go(func() {
			if err := f.Resume(t.Context(), r.job("search")); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	r.whole(c, n)
}
