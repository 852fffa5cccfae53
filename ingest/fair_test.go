package ingest_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// channelsOf are channels with more than a page of uploads.
func (r *rig) channelsOf(n int) (ids []string) {
	r.t.Helper()
	seen := map[string]bool{}
	for _, region := range ingest.DefaultRegions {
		chart, err := r.catalog.Chart(r.t.Context(), region, "")
		r.must(err)
		for _, e := range chart.Entries {
			if id := e.Video.ChannelID; !seen[id] && len(ids) < n {
				seen[id], ids = true, append(ids, id)
			}
		}
	}
	if len(ids) < n {
		r.t.Fatalf("%d channels, want %d", len(ids), n)
	}
	return ids
}

// TestLongWorkIsFair: work that takes many runs to complete has had its turn in each
// of them, and comes after work that has not.
func TestLongWorkIsFair(t *testing.T) {
	r := newRig(t, 1000, charts(func(j *ingest.Job) { j.Regions, j.Pages = ingest.DefaultRegions, 1 }))
	r.run("charts", ingest.Occasion{})
	uploads := ingest.Job{Kind: ingest.Uploads, Cron: "@daily", Channels: r.channelsOf(6), Pages: 1, MaxUnits: 4}
	r.config = &ingest.Config{Jobs: map[string]ingest.Job{"uploads": uploads}, Workers: 1}
	for _, fault := range r.config.Prepare() {
		t.Fatal(fault)
	}
	r.remake()
	turns := map[string]int{}
	for range 5 { // the first page of a channel costs two units, the others one
		r.clock.Advance(24 * time.Hour)
		for _, w := range r.run("uploads", ingest.Occasion{}).Work {
			if w.Pages > 0 {
				turns[w.Work]++
			}
		}
	}
	if len(turns) != 6 {
		t.Errorf("of six channels only %v had their turn", turns)
	}
}

// TestFreshness: a region is as stale as the stalest of its work, and work that is
// not complete is as stale as before its last page.
func TestFreshness(t *testing.T) {
	r := newRig(t, 1000, map[string]ingest.Job{"news": {
		Kind: ingest.Search, Cron: "@daily", Queries: []string{"music", "football"}, Regions: []string{"US", "DE"}, Pages: 1,
	}})
	r.run("news", ingest.Occasion{}) // first passes have one page, and are complete
	r.clock.Advance(time.Hour)
	r.run("news", ingest.Occasion{Regions: []string{"US"}, Without: []string{"US/football"}})
	r.clock.Advance(time.Hour)
	r.run("news", ingest.Occasion{Regions: []string{"DE"}})
	got, err := r.runner.Freshness(t.Context(), r.job("news"))
	r.must(err)
	want := []ingest.Freshness{{Region: "US", CompletedAt: noon}, {Region: "DE", CompletedAt: noon.Add(2 * time.Hour)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestStagger: regions begin one after the other, the stalest first, and none is waited
// for beyond the end of the run.
func TestStagger(t *testing.T) {
	r := newRig(t, 100, charts(func(j *ingest.Job) { j.Stagger, j.MaxRuntime, j.Pages = 10*time.Minute, 15*time.Minute, 1 }))
	began := map[string]time.Duration{}
	start := noon
	r.options.Progress = func(p ingest.Progress) {
		if p.Ended == nil {
			began[p.Region] = r.clock.Now().Sub(start)
		}
	}
	r.remake()
	rep := r.run("charts", ingest.Occasion{Scheduled: noon})
	if diff := cmp.Diff(map[string]time.Duration{"US": 0, "DE": 10 * time.Minute}, began); diff != "" {
		t.Error(diff)
	}
	if took := rep.Ended.Sub(noon); took != 10*time.Minute || rep.State != catalog.Deferred {
		t.Errorf("%s after %s: %v", rep.State, took, states(rep))
	}
	start = noon.Add(6 * time.Hour)
	r.clock.Set(start)
	clear(began)
	r.run("charts", ingest.Occasion{Scheduled: start})
	if diff := cmp.Diff(map[string]time.Duration{"FR": 0, "US": 10 * time.Minute}, began); diff != "" {
		t.Errorf("the next time: %s", diff)
	}
}
