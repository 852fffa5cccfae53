package catalogtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// places returns the ranks and videos of the chart of Germany, or why it cannot be read.
func places(c Catalog, category string) string {
	ch, err := c.Chart(ctx, "DE", category)
	if err != nil {
		return "none"
	}
	s := ""
	for _, e := range ch.Entries {
		s += fmt.Sprintf("%d%s ", e.Rank, e.Video.ID)
	}
	return s + ch.FetchedAt.Format("15:04")
}

func (h *Harness) testChart(t *testing.T) {
	page := func(next string, ids ...string) catalog.Page {
		return catalog.Page{Next: next, Region: "DE", Chart: true, Category: "10", Videos: named(ids...)}
	}
	steps := []struct {
		what string
		page catalog.Page
		want string
	}{
		{"the first page is not shown", page("2", "a", "b"), "none"},
		{"nor the second", page("3", "c"), "none"},
		{"with the last one all are", page("", "d"), "1a 2b 3c 4d 12:00"},
		{"a new one does not replace it in part", page("2", "d", "c", "e"), "1a 2b 3c 4d 12:00"},
		{"one that moved down between two pages keeps its first place", page("", "c", "e", "f"), "1d 2c 3e 4f 15:00"},
		{"an empty one is empty", page(""), "17:00"},
	}
	c, clock := h.fresh(t)
	r := begin(t, c)
	for _, s := range steps {
		save(t, r, "DE/10", s.page)
		if got := places(c, "10"); got != s.want {
			t.Errorf("%s: got %s, want %s", s.what, got, s.want)
		}
		clock.Advance(time.Hour)
	}
	healthy(t, c)
}

func (h *Harness) testChartOfAnInterruptedPass(t *testing.T) {
	c, clock := h.fresh(t)
	r := begin(t, c)
	page := catalog.Page{Region: "DE", Chart: true, Videos: named("a", "b")}
	save(t, r, "DE", page)
	page.Next = "2"
	save(t, r, "DE", page)
	clock.Advance(time.Hour)

	cur, err := r.Restart(ctx, "DE")
	if err != nil || cur.Begun() || cur.Token != "" {
		t.Fatal(cur, err)
	}
	save(t, r, "DE", catalog.Page{Next: "2", Region: "DE", Chart: true, Videos: named("c")})
	save(t, r, "DE", catalog.Page{Region: "DE", Chart: true, Videos: named("d")})
	if got, want := places(c, ""), "1c 2d 13:00"; got != want {
		t.Errorf("got %s, want %s: the pages of the pass before must not stay", got, want)
	}
}

func (h *Harness) testChartWithoutItsBeginning(t *testing.T) {
	c, clock := h.fresh(t)
	r := begin(t, c)
	save(t, r, "DE", catalog.Page{Next: "2", Region: "DE", Chart: true, Videos: named("a")})
	clock.Advance(31 * 24 * time.Hour)
	if _, err := c.Expire(ctx, olderThan(clock.Now().Add(-30*24*time.Hour))); err != nil {
		t.Fatal(err)
	}
	cur, _ := c.Cursor(ctx, "trending", "DE")
	_, err := r.Save(ctx, &catalog.Page{Cursor: cur, Done: true, Region: "DE", Chart: true, Videos: named("b")})
	if !errors.Is(err, catalog.ErrOutOfStep) {
		t.Errorf("%v, want %v", err, catalog.ErrOutOfStep)
	}
	if got := places(c, ""); got != "none" {
		t.Errorf("half a chart is shown: %s", got)
	}
}

func (h *Harness) testFeeds(t *testing.T) {
	c, clock := h.fresh(t)
	r := begin(t, c)
	save(t, r, "US", catalog.Page{Region: "US", Chart: true, Videos: named("a", "b")})
	save(t, r, "DE/10", catalog.Page{Region: "DE", Category: "10", Chart: true, Videos: named("a"), Next: "2"})
	clock.Advance(time.Hour)
	save(t, r, "US", catalog.Page{Region: "US", Chart: true, Videos: named("a", "b", "c"), Next: "2"})
	got, err := c.Feeds(ctx)
	want := []catalog.Feed{
		{Region: "DE", Category: "10", Pending: 1, PendingSince: noon},
		{Region: "US", FetchedAt: noon, Entries: 2, Pending: 3, PendingSince: noon.Add(time.Hour)},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
