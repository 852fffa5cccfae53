package ingest_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// TestAfterAClockThatWasFarAhead: what was fetched and scheduled while the clock was
// wrong is due again, grows old, and leaves.
func TestAfterAClockThatWasFarAhead(t *testing.T) {
	r := newRig(t, 1000, charts(nil))
	ahead := time.Date(2099, time.January, 1, 0, 0, 0, 0, time.UTC)
	r.clock.Set(ahead)
	r.run("charts", ingest.Occasion{Scheduled: ahead})
	r.clock.Set(noon)

	why, due, err := r.runner.Due(t.Context(), r.job("charts"))
	r.must(err)
	if want := noon.Add(-2 * time.Hour); !due || !why.Scheduled.Equal(want) {
		t.Errorf("it is due: %v, %s, want %s", due, why.Scheduled, want)
	}
	rep := r.run("charts", ingest.Occasion{Scheduled: noon.Add(-2 * time.Hour)})
	if diff := cmp.Diff([]string{"US done 2", "DE done 2", "FR done 2"}, states(rep)); diff != "" {
		t.Errorf("a run that is due: %s", diff)
	}

	r.clock.Set(ahead)
	r.run("charts", ingest.Occasion{Regions: []string{"US"}})
	r.clock.Set(noon.Add(time.Hour))
	r.run("retention", ingest.Occasion{})
	r.clock.Advance(31 * 24 * time.Hour)
	r.must(r.ledger.Block(t.Context(), unitsPool, r.clock.Now().Add(time.Hour), "shut"))
	r.run("retention", ingest.Occasion{})
	for _, kind := range []catalog.Kind{catalog.KindVideos, catalog.KindStatistics} {
		left, err := r.catalog.Ages(t.Context(), kind, ahead.Add(time.Hour), 1)
		r.must(err)
		if len(left) > 0 {
			t.Errorf("%v of the %s are kept", left, kind)
		}
	}
	if _, err := r.catalog.Chart(t.Context(), "US", ""); err == nil {
		t.Error("the chart is kept")
	}
}

// TestAfterAClockThatWasSetBack: a run did the work of its own time, which comes twice, and not that of earlier times.
func TestAfterAClockThatWasSetBack(t *testing.T) {
	r := newRig(t, 1000, charts(func(j *ingest.Job) { j.Cron = "*/10 * * * *" }))
	r.run("charts", ingest.Occasion{Scheduled: noon})
	for _, tt := range []struct {
		due  time.Duration // after noon
		want catalog.State
	}{{0, catalog.Skipped}, {-10 * time.Minute, catalog.Done}} {
		r.clock.Set(noon.Add(tt.due - time.Second))
		if rep := r.run("charts", ingest.Occasion{Scheduled: noon.Add(tt.due)}); rep.State != tt.want {
			t.Errorf("a run that was due %s after noon is %s, want %s", tt.due, rep.State, tt.want)
		}
	}
}
