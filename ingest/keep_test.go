package ingest_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
)

// limited is a catalog that remembers how old data may be.
type limited struct {
	*catalog.Catalog
	last catalog.Limits
}

func (l *limited) Expire(ctx context.Context, by catalog.Limits) (catalog.Expired, error) {
	l.last = by
	return l.Catalog.Expire(ctx, by)
}

// TestOnlyStatisticsAreKeptLongerThan30Days, and only where the configuration says so.
func TestOnlyStatisticsAreKeptLongerThan30Days(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct{ set, want int }{{0, 30}, {30, 30}, {90, 90}} {
		r := newRig(t, 1000, charts(nil))
		r.config.KeepStatisticsDays = tt.set
		client, err := youtube.New(&http.Client{}, nil)
		r.must(err)
		kept := &limited{Catalog: r.catalog}
		r.runner = ingest.NewRunner(r.config, r.ledger, kept, client, r.locks, &r.options)
		r.run("retention", ingest.Occasion{})
		// a retention job is due once in a day of 25 hours at least, and takes an hour
		if most := r.clock.Now().Add(26 * time.Hour); kept.last.Before != most.Add(-30*day) || kept.last.StatisticsBefore != most.Add(-time.Duration(tt.want)*day) {
			t.Errorf("with %d days set, data is deleted before %s and statistics before %s", tt.set, kept.last.Before, kept.last.StatisticsBefore)
		}
	}
}

// TestUploadsAreDoneWhenTheirPassIs, and deferred while there are more pages.
func TestUploadsAreDoneWhenTheirPassIs(t *testing.T) {
	r := newRig(t, 1000, charts(func(j *ingest.Job) { j.Regions, j.Pages = ingest.DefaultRegions, 1 }))
	r.run("charts", ingest.Occasion{})
	uploads := ingest.Job{Kind: ingest.Uploads, Cron: "@daily", Channels: r.channelsOf(1), Pages: 1}
	r.config = &ingest.Config{Jobs: map[string]ingest.Job{"uploads": uploads}, Workers: 1}
	for _, fault := range r.config.Prepare() {
		t.Fatal(fault)
	}
	r.remake()
	deferred := 0
	for range 100 {
		rep := r.run("uploads", ingest.Occasion{})
		cursors, err := r.catalog.Cursors(t.Context(), "uploads")
		r.must(err)
		passed := !cursors[0].CompletedAt.IsZero()
		if done := rep.State == catalog.Done && rep.Work[0].State == catalog.Done; done != passed {
			t.Fatalf("%s, %v, and the pass is complete: %t", rep.State, states(rep), passed)
		}
		if passed {
			break
		}
		if !rep.ResumeAt.IsZero() || rep.Err != nil {
			t.Fatalf("it goes on at %s, %v: want when it is due again", rep.ResumeAt, rep.Err)
		}
		deferred++
	}
	if deferred == 0 {
		t.Error("the channel has one page, so nothing was shown")
	}
}
