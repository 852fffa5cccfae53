package view_test

import (
	"slices"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// jobs fetch the charts of US and DE, of all categories and of 10, and search in FR.
func jobs() []*ingest.Job {
	return []*ingest.Job{
		{Name: "charts", Kind: ingest.Trending, Regions: []string{"US", "DE"}, Categories: []string{"0", "10"}},
		{Name: "again", Kind: ingest.Trending, Regions: []string{"US"}, Categories: []string{"0"}},
		{Name: "news", Kind: ingest.Search, Regions: []string{"FR", "US"}},
	}
}

// fetched are four charts: one that is fresh, one as old as may be, one older, and one
// that no job fetches.
func fetched() []view.Feed {
	return view.Feeds([]catalog.Feed{
		{Region: "US", FetchedAt: now.Add(-2 * time.Hour), Entries: 200, Pending: 50},
		{Region: "US", Category: "10", FetchedAt: now.Add(-26 * time.Hour), Entries: 100},
		{Region: "DE", FetchedAt: now.Add(-26*time.Hour - time.Second), Entries: 1000},
		{Region: "GB", FetchedAt: now.Add(-72 * time.Hour), Entries: 1},
	}, jobs(), now, 26*time.Hour)
}

func TestFeedTable(t *testing.T) {
	shows(t, view.FeedTable(fetched()),
		"region | fetched | (age#) | videos# | pending# | state",
		"DE | 17:59 | 26h0m1s | 1000 |  | warn:stale",
		"DE/10 | never |  |  |  | bad:missing",
		"GB | 20:00 | 72h0m0s | 1 |  | good:stale no job fetches it",
		"US | 18:00 | 2h0m0s | 200 | 50 | good:fresh",
		"US/10 | 18:00 | 26h0m0s | 100 |  | good:fresh",
	)
}

func TestATableLeavesEmptyColumnsOut(t *testing.T) {
	shows(t, view.FeedTable(view.Feeds(nil, jobs()[1:2], now, time.Hour)), "region | fetched | state", "US | never | bad:missing")
	shows(t, view.FeedTable(nil), "")
}

func TestLateNamesFeedsOfJobsThatAreStaleOrMissing(t *testing.T) {
	if got := view.Late(fetched()); !slices.Equal(got, []string{"DE", "DE/10"}) {
		t.Errorf("late are %v", got)
	}
}

func TestCompleteLeavesOutWhatWasNeverFetched(t *testing.T) {
	if got := view.Complete(fetched()); !slices.Equal(got, []string{"DE", "GB", "US", "US/10"}) {
		t.Errorf("complete are %v", got)
	}
}

func TestRegionsAreThoseOfFeedsAndJobsEachOnce(t *testing.T) {
	if got := view.Regions(fetched(), jobs()); !slices.Equal(got, []string{"DE", "FR", "GB", "US"}) {
		t.Errorf("the regions are %v", got)
	}
	if got := view.JobNames(jobs()); !slices.Equal(got, []string{"charts", "again", "news"}) {
		t.Errorf("the jobs are %v", got)
	}
}

func TestSearchesAgeAsChartsDo(t *testing.T) {
	for want, completed := range map[string]time.Time{view.Fresh: now.Add(-time.Hour), view.Stale: now.Add(-time.Hour - 1), view.Missing: {}} {
		if f := view.SearchFeed(ingest.Freshness{Region: "FR", CompletedAt: completed}, now, time.Hour); f.State != want || !f.Wanted || f.Name() != "FR" {
			t.Errorf("completed at %s it is %+v, not %s", completed, f, want)
		}
	}
}

func TestAChartIsStaleWhenItIsOlderThanItMayBe(t *testing.T) {
	for age, want := range map[time.Duration]bool{time.Hour: false, time.Hour + 1: true} {
		if got := view.OneChart(catalog.Chart{FetchedAt: now.Add(-age)}, now, time.Hour); got.Stale != want {
			t.Errorf("%s old: stale is %t", age, got.Stale)
		}
	}
}
