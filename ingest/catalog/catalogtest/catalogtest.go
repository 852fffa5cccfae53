// Package catalogtest is the suite of tests that every home of a catalog passes.
package catalogtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest/dump"
	"github.com/headroom-quota/headroom/quota"
)

// Catalog is what every home of a catalog does.
type Catalog interface {
	NewFence(ctx context.Context, name string) (catalog.Fence, error)
	Begin(ctx context.Context, s catalog.Start) (catalog.Run, error)
	Cursor(ctx context.Context, job, work string) (catalog.Cursor, error)
	Cursors(ctx context.Context, job string) ([]catalog.Cursor, error)
	Reset(ctx context.Context, job, work string) error
	Add(ctx context.Context, job string, scheduled time.Time) (int64, error)
	Join(id int64, job string, f catalog.Fence) catalog.Run
	Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error)
	ForgetRuns(ctx context.Context, before time.Time) error
	Ages(ctx context.Context, kind catalog.Kind, before time.Time, limit int) ([]catalog.Age, error)
	Expire(ctx context.Context, l catalog.Limits) (catalog.Expired, error)
	Feeds(ctx context.Context) ([]catalog.Feed, error)
	Chart(ctx context.Context, region, category string) (catalog.Chart, error)
	Video(ctx context.Context, id string) (catalog.Video, error)
	Channel(ctx context.Context, id string) (catalog.Channel, error)
	Search(ctx context.Context, q catalog.Query) (catalog.Results, error)
	ChargeTo(ctx context.Context, address string, forget bool) (time.Time, error)
	Spent(ctx context.Context, since time.Time) (map[string]int64, error)
	SaveDays(ctx context.Context, days []catalog.PoolDay) error
	Days(ctx context.Context, pool, since string) ([]catalog.PoolDay, error)
	Refusals(ctx context.Context, since time.Time) ([]catalog.Refusal, error)
	AddRefusals(ctx context.Context, all []catalog.Refusal) error
	Note(ctx context.Context, a *catalog.Action) error
	Actions(ctx context.Context, limit int) ([]catalog.Action, error)
	Slate(ctx context.Context, name string) (text string, version int64, err error)
	SetSlate(ctx context.Context, name, text string, version int64) (written bool, err error)
	Ready(ctx context.Context) error
	Values(ctx context.Context, columns int, do func([]any) error, query string, args ...any) error
	Check(ctx context.Context) ([]string, error)
	Rebuild(ctx context.Context) error
	Path() string
}

var _ Catalog = (*catalog.Catalog)(nil)

// Harness describes a home to the suite.
type Harness struct {
	// Open opens a new catalog.
	Open func(t testing.TB, clock quota.Clock) Catalog
	// Ranked is how many matches a search looks at.
	Ranked int
	// NoNUL says that texts cannot hold the character NUL. It becomes U+FFFD.
	NoNUL bool
	// Holds fails if any byte that a catalog has stored holds a secret. It may be nil.
	Holds func(t testing.TB, c Catalog, secret string)
}

// Run runs the suite.
func Run(t *testing.T, h *Harness) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"save", h.testSave},
		{"texts_that_no_database_holds", h.testTexts},
		{"joined_run", h.testJoinedRun},
		{"incremental_has_no_gap", h.testIncrementalHasNoGap},
		{"cursor", h.testCursor},
		{"a_mark_is_never_ahead", h.testAMarkIsNeverAhead},
		{"cursors_are_stalest_first", h.testCursorsAreStalestFirst},
		{"chart", h.testChart},
		{"chart_of_an_interrupted_pass", h.testChartOfAnInterruptedPass},
		{"chart_without_its_beginning", h.testChartWithoutItsBeginning},
		{"feeds", h.testFeeds},
		{"runs", h.testRuns},
		{"days", h.testDays},
		{"refusals", h.testRefusals},
		{"actions", h.testActions},
		{"slate", h.testSlate},
		{"fence", h.testFence},
		{"aging", h.testAging},
		{"statistics_can_be_kept_longer", h.testStatisticsCanBeKeptLonger},
		{"expire", h.testExpire},
		{"aging_of_numbers_that_nobody_knows", h.testAgingOfNumbersThatNobodyKnows},
		{"search", h.testSearch},
		{"search_for_a_whole_title", h.testSearchForAWholeTitle},
		{"search_ranks", h.testSearchRanks},
		{"search_filters", h.testSearchFilters},
		{"search_pages", h.testSearchPages},
		{"search_ends", h.testSearchEnds},
		{"search_for_common_words_is_cut", h.testSearchIsCut},
		{"search_refuses_a_bad_cursor", h.testSearchRefusesABadCursor},
	} {
		t.Run(test.name, test.run)
	}
}

var (
	ctx  = context.Background()
	noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

// scaled returns the reduced count, or the full count in a soak test.
func scaled(reduced, full int) int {
	if os.Getenv("HEADROOM_SOAK") == "1" {
		return full
	}
	return reduced
}

// fresh opens a new catalog. Its clock stands at noon.
func (h *Harness) fresh(t testing.TB) (Catalog, *quota.SimClock) {
	t.Helper()
	clock := quota.NewSimClock(noon)
	return h.Open(t, clock), clock
}

// run is a run of the job trending.
type run struct {
	catalog.Run
	c Catalog
}

// begin begins a run of the job trending.
func begin(t testing.TB, c Catalog) *run {
	t.Helper()
	return start(t, c, catalog.Start{Job: "trending"})
}

func start(t testing.TB, c Catalog, s catalog.Start) *run {
	t.Helper()
	r, err := c.Begin(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	return &run{r, c}
}

// save saves the next page of its work.
func save(t testing.TB, r *run, work string, p catalog.Page) catalog.Saved {
	t.Helper()
	var err error
	if p.Cursor, err = r.c.Cursor(ctx, "trending", work); err != nil {
		t.Fatal(err)
	}
	if p.Next == "" {
		p.Done = true
	}
	s, err := r.Save(ctx, &p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// dumped returns the contents of a catalog.
func dumped(t testing.TB, c Catalog, times bool) string {
	t.Helper()
	text, err := dump.Text(ctx, c, times)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// healthy checks a catalog for damage.
func healthy(t testing.TB, c Catalog) {
	t.Helper()
	problems, err := c.Check(ctx)
	if err != nil || problems != nil {
		t.Errorf("the catalog is damaged: %q, %v", problems, err)
	}
}

// says checks that an error contains some words.
func says(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error says %q, want it to say %q", err, w)
		}
	}
}

// named returns videos with these ids.
func named(ids ...string) (all []catalog.Video) {
	for _, id := range ids {
		all = append(all, catalog.Video{ID: id, Title: "Video " + id, ChannelTitle: "Channel", PublishedAt: noon})
	}
	return all
}

// ids returns the ids of hits.
func ids(hits []catalog.Hit) (all []string) {
	for _, h := range hits {
		all = append(all, h.Video.ID)
	}
	return all
}

func count(n int64) *int64 { return &n }

// show returns statistics as text.
func show(s *catalog.Statistics) string {
	if s == nil {
		return "none"
	}
	one := func(n *int64) string {
		if n == nil {
			return "hidden"
		}
		return fmt.Sprint(*n)
	}
	return one(s.Views) + " " + one(s.Likes) + " " + one(s.Comments)
}
