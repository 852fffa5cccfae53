package pages_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

var unitsPool = quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}

// lose takes the ledger away.
func (r *rig) lose() {
	gate := func(context.Context) error { return errors.New("the store is down") }
	r.Store.Before.Store(&gate)
}

// shows fails unless a page has an icon, and says all of these.
func (r *rig) shows(icon string, want ...string) {
	r.Helper()
	if source, _ := r.page("/"); !strings.Contains(source, "/static/icon-"+icon+".svg") {
		r.Errorf("the icon is not %s", icon)
	}
	r.reads("/", want...)
}

// TestTroubleWithoutJobs: a server that only decides for callers has no run to come. Its
// verdict is that of the pool that is worst off.
func TestTroubleWithoutJobs(t *testing.T) {
	r := newRig(t, "upstreams: {youtube: {pools: {searches: {quota: 10, headroom: 0}}}}", nil)
	r.src.Jobs = nil
	r.shows("warn", "Nothing to do - Headroom", "No job has a schedule, and nothing was spent")
	r.take(500, "units", "etl")
	r.shows("good", "Available - Headroom", "Calls are admitted youtube/units has 9,000 of 9,500 left in 24 h", "etl caller 500 100%")
	r.take(10, "searches", "etl")
	r.shows("bad", "Used up until 20:01 UTC tomorrow - Headroom", "Calls that need youtube/searches are refused before 20:01 UTC tomorrow (in 24 h) youtube/searches has 0 of 10 left in 24 h")
	r.Must(r.Ledger.Block(t.Context(), unitsPool, r.Clock.Now().Add(5*time.Hour), "quotaExceeded"))
	r.shows("bad", "Blocked until 01:00 UTC tomorrow - Headroom", "Calls that need youtube/units are refused before 01:00 UTC tomorrow (in 5 h) youtube/units is blocked by the upstream",
		"youtube/searches is used up in 24 h. All 10 units at 20:01 UTC tomorrow")
	r.lose()
	r.shows("bad", "Not known - Headroom", "It is not known what is left The ledger cannot be reached")
}

// TestPoolsOfCallersCount: what callers cannot get is trouble, too, although runs can start.
func TestPoolsOfCallersCount(t *testing.T) {
	r := newRig(t, "upstreams: {maps: {hosts: [m.example.com], pools: {requests: {quota: 1000, windows: [{per: 24h}]}}, methods: {find: {route: GET /x, charge: {requests: 1}}}}}", nil)
	r.Run("retention")
	r.RunOnTime("trending")
	r.shows("good")
	_, err := r.Ledger.Reserve(t.Context(), quota.Call{Upstream: "maps", Charges: quota.Units{"requests": 1000}, Job: "etl"})
	r.Must(err)
	r.shows("warn", "Available in part - Headroom", "The next run, trending at 20:15 UTC (in 15 min), can start", "Also Look at it: maps/requests is used up in 24 h. All 1,000 units at 20:01 UTC tomorrow")
	if source, _ := r.page("/runs"); !strings.Contains(source, "/static/icon-warn.svg") {
		t.Error("the icon of the other pages is another one")
	}
	r.Must(r.Ledger.Block(t.Context(), quota.Pool{Upstream: "maps", Account: "default", Name: "requests"}, r.Clock.Now().Add(5*time.Hour), "no"))
	r.shows("warn", "Available in part", "Stopped: maps/requests is blocked by the upstream until 01:00 UTC tomorrow")
	if _, text := r.page("/"); strings.Contains(text, "maps/requests is used up") {
		t.Error("a pool has two notes")
	}
}

// TestTheHistoryOfTheCard: the link beside the answers leads to the same pool.
func TestTheHistoryOfTheCard(t *testing.T) {
	r := newRig(t, "", nil)
	r.Run("trending")
	r.take(20, "searches", "etl") // of which less is left
	if source, _ := r.page("/"); !strings.Contains(source, `<p class="aside"><a href="/history?pool=youtube%2Funits">History</a>`) {
		t.Error("the link leads to another pool")
	}
}

// TestANewInstallation: that nothing has run yet is one fact. No run was missed before there
// was anything to run.
func TestANewInstallation(t *testing.T) {
	r := newRig(t, "", nil)
	_, text := r.page("/")
	for says, most := range map[string]int{"trending have not run yet": 1, "has not run": 0, "was due": 0, "missing": 0, "not running": 0} {
		if n := strings.Count(text, says); n != most {
			t.Errorf("it says %q %d times:\n%s", says, n, text)
		}
	}
}

// TestARunSaysWhyOnce: not again for each unit of its work.
func TestARunSaysWhyOnce(t *testing.T) {
	r := newRig(t, "upstreams: {youtube: {pools: {units: {quota: 3, headroom: 0}}}}", nil)
	r.take(3, "units", "etl")
	r.Run("trending")
	runs, err := r.Catalog.Runs(t.Context(), catalog.RunsQuery{})
	r.Must(err)
	_, text := r.page(fmt.Sprintf("/runs/%d", runs[0].ID))
	for _, fact := range []string{"had too few units left", "20:01 UTC tomorrow", "refused"} {
		most := 1
		if fact == "refused" {
			most = 3 // the number, the column, and what was reported
		}
		if n := strings.Count(text, fact); n > most || n == 0 {
			t.Errorf("it says %q %d times:\n%s", fact, n, text)
		}
	}
	if !strings.Contains(text, "US deferred") || !strings.Contains(text, "DE deferred") {
		t.Errorf("its work is missing:\n%s", text)
	}
}
