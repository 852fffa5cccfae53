package ingest_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// TestAPassThatIsGone from under its token is begun anew, and the pages of before do not stay.
func TestAPassThatIsGone(t *testing.T) {
	r := newRig(t, 3, charts(nil))
	rep := r.run("charts", ingest.Occasion{}) // DE has a page of two
	r.clock.Set(rep.ResumeAt)
	r.sim.Inject(youtubesim.Fault{Method: "videos.list", Region: "DE", Do: youtubesim.NoChart, Times: 1})
	rep = r.run("charts", ingest.Occasion{Deferred: true, Regions: []string{"DE"}})
	if diff := cmp.Diff([]string{"DE done 2"}, states(rep)); diff != "" || rep.Units != 3 {
		t.Errorf("%d units: %s%v", rep.Units, diff, rep.Err)
	}
	chart, err := r.catalog.Chart(t.Context(), "DE", "")
	r.must(err)
	if len(chart.Entries) != 100 {
		t.Errorf("the chart has %d entries, want two pages", len(chart.Entries))
	}
}

// TestAPassThatIsAMonthOld: what it had fetched has expired, and it is begun anew.
func TestAPassThatIsAMonthOld(t *testing.T) {
	r := newRig(t, 3, charts(nil))
	r.run("charts", ingest.Occasion{}) // DE has a page of two
	r.clock.Advance(32 * 24 * time.Hour)
	r.must(r.ledger.BlockFor(t.Context(), unitsPool, time.Hour, "shut")) // so that nothing is fetched again
	r.run("retention", ingest.Occasion{})
	r.clock.Advance(2 * time.Hour)
	rep := r.run("charts", ingest.Occasion{Regions: []string{"DE"}})
	if rep.State != catalog.Done {
		t.Fatalf("%v: %v", states(rep), rep.Err)
	}
	chart, err := r.catalog.Chart(t.Context(), "DE", "")
	r.must(err)
	if len(chart.Entries) != 100 || !chart.FetchedAt.Equal(r.clock.Now()) {
		t.Errorf("the chart of %s has %d entries, want two pages", chart.FetchedAt, len(chart.Entries))
	}
}
