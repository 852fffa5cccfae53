package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// TestIdleLoad: six daemons with twenty jobs that have nothing to do ask the database little. River asks for each
// queue again and again, so it must do that seldom.
func TestIdleLoad(t *testing.T) {
	t.Parallel()
	jobs := map[string]ingest.Job{}
	for i := range 20 {
		jobs[fmt.Sprint("charts_", i)] = ingest.Job{Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: 1}
	}
	r := newRig(t, 100, jobs)
	c := r.catalog()
	for range 6 {
		r.background(r.fleet(r.catalog(), fleet.Options{}).Run)
	}
	r.eventually("all daemons work", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.daemons WHERE state = 'running'") == 6 && r.number(c, "SELECT count(*) FROM headroom_fleet.river_leader") == 1
	})
	count := func() int {
		return r.number(c, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
	}
	// Their beginning, and other tests beside this one, make more of it for a while.
	for end := time.Now().Add(4 * time.Minute); ; {
		begin, first := time.Now(), count()
		time.Sleep(20 * time.Second)
		rate := float64(count()-first) / time.Since(begin).Seconds()
		t.Logf("%.1f transactions a second", rate)
		if rate <= 15 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("six idle daemons make more than 15 transactions a second")
		}
	}
}
