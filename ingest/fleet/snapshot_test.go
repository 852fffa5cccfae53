package fleet_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// blocks returns how many blocks of the database the statements look at that find a worker its work.
func (r *rig) blocks(c *pgcatalog.Catalog) (n int) {
	r.t.Helper()
	for _, query := range []string{
		fleet.Statement("unit_next"),
		fleet.Statement("run_over") + " OFFSET length($3::text) * 0",
		"SELECT id FROM headroom_fleet.river_job WHERE state = 'available' AND queue = $2::text AND scheduled_at <= now() AND $1::text <> $3::text ORDER BY priority, scheduled_at, id LIMIT 8 FOR UPDATE SKIP LOCKED",
	} {
		var plans []struct {
			Plan struct {
				Blocks int `json:"Shared Hit Blocks"`
			}
		}
		r.must(c.Pool().QueryRow(r.t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+query, "default", "charts", "US/10").Scan(&plans))
		n += plans[0].Plan.Blocks
	}
	return n
}

// TestAnOldTransactionSlowsNoTick: somebody holds a transaction open while a job is due ten times. The
// database keeps each version of a row that the work leaves behind, and statements walk past them. A worker may
// look at one more block for each two units of work that have ended since.
func TestAnOldTransactionSlowsNoTick(t *testing.T) {
	t.Parallel()
	categories := []string{"0", "1", "2", "10", "15", "17", "20", "22", "23", "24", "25", "26", "27", "28"}
	if !soak() {
		categories = categories[:5]
	}
	job := ingest.Job{Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: ingest.DefaultRegions, Categories: categories, Pages: 1}
	n := len(job.Regions) * len(categories)
	r := newRig(t, 1_000_000, map[string]ingest.Job{"charts": job})
	c := r.catalog()
	old, err := r.catalog().Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	r.must(err)
	defer func() { _ = old.Rollback(t.Context()) }()
	r.must(old.QueryRow(t.Context(), "SELECT count(*) FROM headroom_fleet.runs").Scan(new(int)))
	f := r.fleet(r.catalog(), fleet.Options{Workers: 8})
	r.background(f.Run)
	r.background(r.fleet(r.catalog(), fleet.Options{Workers: 8}).Run)
	tick := func() (insert, all time.Duration) {
		began := time.Now()
		r.must(f.Insert(t.Context(), r.job("charts"), began.Truncate(time.Microsecond)))
		insert = time.Since(began)
		r.eventually("the run ends", func() bool {
			return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NULL") == 0
		})
		return insert, time.Since(began)
	}
	tick()
	first := r.blocks(c)
	for range 9 {
		insert, all := tick()
		t.Logf("a run of %d units of work: inserted in %s, done in %s; a worker looks at %d blocks", n, insert.Round(time.Millisecond), all.Round(time.Millisecond), r.blocks(c))
	}
	if done := r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE report->>'state' = 'done'"); done != 10 {
		t.Errorf("%d of 10 runs did their work", done)
	}
	if last := r.blocks(c); last-first > 9*n/2 {
		t.Errorf("a worker looked at %d blocks, and after %d more units of work at %d", first, 9*n, last)
	}
	if kept := r.number(c, "SELECT count(*) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND state = 'idle in transaction' AND datname = current_database()"); kept == 0 {
		t.Error("the old transaction has ended")
	}
}
