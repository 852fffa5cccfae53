package catalogtest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

func (h *Harness) testSave(t *testing.T) {
	t.Run("what_comes_out_is_what_went_in", func(t *testing.T) {
		c, _ := h.fresh(t)
		want := catalog.Video{
			ID: "a", ChannelID: "UC1", ChannelTitle: "Küche", Title: "Crème", Description: "How to", Tags: []string{`a "b"`, "c<d>\\n&", "x,y"},
			Category: "10", Live: "none", Language: "fr", Thumbnail: "https://i.ytimg.com/a.jpg", Duration: 4*time.Minute + 13*time.Second,
			PublishedAt: noon.Add(-time.Hour), FetchedAt: noon,
			Statistics: &catalog.Statistics{VideoID: "a", Views: count(7), Comments: count(0), FetchedAt: noon},
		}
		channel := catalog.Channel{ID: "UC1", Title: "Küche", Description: "d", Handle: "@k", Country: "FR", Uploads: "UU1", PublishedAt: noon, FetchedAt: noon}
		s := save(t, begin(t, c), "FR", catalog.Page{Videos: []catalog.Video{want}, Channels: []catalog.Channel{channel}})
		if s.New != 1 || s.Statistics != 1 {
			t.Errorf("saved %+v", s)
		}
		got, err := c.Video(ctx, "a")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		gotChannel, err := c.Channel(ctx, "UC1")
		if diff := cmp.Diff(channel, gotChannel); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("what_is_not_there_is_not_found", func(t *testing.T) {
		c, _ := h.fresh(t)
		_, video := c.Video(ctx, "a")
		_, channel := c.Channel(ctx, "a")
		_, chart := c.Chart(ctx, "DE", "10")
		for _, err := range []error{video, channel, chart} {
			if !errors.Is(err, catalog.ErrNotFound) {
				t.Errorf("%v, want %v", err, catalog.ErrNotFound)
			}
		}
	})
	t.Run("hidden_numbers_are_not_zero", func(t *testing.T) {
		c, _ := h.fresh(t)
		r := begin(t, c)
		save(t, r, "DE", catalog.Page{Videos: named("a", "b")})
		s := save(t, r, "stats", catalog.Page{Statistics: []catalog.Statistics{{VideoID: "a", Views: count(0)}, {VideoID: "unknown", Views: count(1)}}})
		if s.Statistics != 1 {
			t.Errorf("saved the statistics of %d videos, want 1", s.Statistics)
		}
		save(t, r, "DE", catalog.Page{Videos: named("a")}) // has no statistics
		a, _ := c.Video(ctx, "a")
		b, _ := c.Video(ctx, "b")
		if show(a.Statistics) != "0 hidden hidden" || b.Statistics != nil {
			t.Errorf("a: %s, b: %s", show(a.Statistics), show(b.Statistics))
		}
	})
	t.Run("new_updated_and_unchanged_are_told_apart", func(t *testing.T) {
		c, clock := h.fresh(t)
		r := begin(t, c)
		save(t, r, "DE", catalog.Page{Videos: named("a", "b")})
		clock.Advance(time.Hour)
		videos := named("a", "b", "c")
		videos[1].Title = "another"
		s := save(t, r, "DE", catalog.Page{Videos: videos})
		if s.New != 1 || s.Updated != 1 || s.Unchanged != 1 {
			t.Errorf("saved %+v", s)
		}
		for _, id := range []string{"a", "b", "c"} {
			if v, _ := c.Video(ctx, id); !v.FetchedAt.Equal(clock.Now()) {
				t.Errorf("%s was fetched at %s, want %s", id, v.FetchedAt, clock.Now())
			}
		}
		healthy(t, c)
	})
	t.Run("whatever_has_changed_is_updated_and_found", func(t *testing.T) {
		c, _ := h.fresh(t)
		r := begin(t, c)
		for name, change := range map[string]func(*catalog.Video){
			"title":         func(v *catalog.Video) { v.Title = "fresh" },
			"description":   func(v *catalog.Video) { v.Description = "fresh" },
			"channel_title": func(v *catalog.Video) { v.ChannelTitle = "fresh" },
			"tags":          func(v *catalog.Video) { v.Tags = []string{"fresh"} },
			"channel":       func(v *catalog.Video) { v.ChannelID = "fresh" },
			"category":      func(v *catalog.Video) { v.Category = "fresh" },
			"live":          func(v *catalog.Video) { v.Live = "fresh" },
			"language":      func(v *catalog.Video) { v.Language = "fresh" },
			"thumbnail":     func(v *catalog.Video) { v.Thumbnail = "fresh" },
			"duration":      func(v *catalog.Video) { v.Duration = time.Minute },
			"published_at":  func(v *catalog.Video) { v.PublishedAt = noon.Add(-time.Minute) },
		} {
			old := catalog.Video{ID: name, Title: "stale1", Description: "stale2", ChannelTitle: "stale3", Tags: []string{"stale4"}, PublishedAt: noon}
			save(t, r, "DE", catalog.Page{Videos: []catalog.Video{old}})
			change(&old)
			if s := save(t, r, "DE", catalog.Page{Videos: []catalog.Video{old}}); s.Updated != 1 {
				t.Errorf("%s: %+v", name, s)
			}
			got, err := c.Video(ctx, name)
			old.FetchedAt = noon
			if diff := cmp.Diff(old, got); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
			}
		}
		for text, want := range map[string]int{"fresh": 4, "stale1": 10, "stale2": 10, "stale3": 10, "stale4": 10} {
			if r, err := c.Search(ctx, catalog.Query{Text: text}); err != nil || len(r.Hits) != want {
				t.Errorf("%s: %d are found, %v, want %d", text, len(r.Hits), err, want)
			}
		}
		healthy(t, c)
	})
	t.Run("a_video_twice_on_a_page_is_one", func(t *testing.T) {
		c, _ := h.fresh(t)
		r := begin(t, c)
		for range 2 { // first new, then known
			videos := named("a", "b", "a")
			videos[2].Title = "moved down meanwhile"
			s := save(t, r, "DE", catalog.Page{Videos: videos, Region: "DE", Chart: true})
			if s.New+s.Unchanged != 2 || s.Updated != 0 {
				t.Errorf("saved %+v", s)
			}
			if got, want := places(c, ""), "1a 2b 12:00"; got != want {
				t.Errorf("the chart is %s, want %s", got, want)
			}
		}
		healthy(t, c)
	})
	t.Run("a_page_twice_changes_nothing", func(t *testing.T) {
		c, clock := h.fresh(t)
		r := begin(t, c)
		pages := []catalog.Page{
			{Next: "2", Region: "DE", Chart: true, Videos: named("a", "b"), Units: 1},
			{Done: true, Region: "DE", Chart: true, Videos: named("c"), Gone: []string{"x"}, Units: 1},
		}
		cur := catalog.Cursor{Job: "trending", Work: "DE"}
		for i := range pages {
			pages[i].Cursor = cur
			s, err := r.Save(ctx, &pages[i])
			if err != nil || s.Repeated {
				t.Fatal(s, err)
			}
			before, runs := dumped(t, c, true), recorded(t, c)
			clock.Advance(time.Hour)
			for n := range pages[:i+1] { // all earlier pages
				again, err := r.Save(ctx, &pages[n])
				if err != nil || !again.Repeated || again.New+again.Unchanged+again.Updated != 0 {
					t.Errorf("page %d again: %+v, %v", n, again, err)
				}
				if again.Cursor != s.Cursor {
					t.Errorf("page %d again goes on at %+v, want %+v", n, again.Cursor, s.Cursor)
				}
			}
			if diff := cmp.Diff(before, dumped(t, c, true)); diff != "" {
				t.Errorf("page %d again (-before +after):\n%s", i, diff)
			}
			if diff := cmp.Diff(runs, recorded(t, c)); diff != "" {
				t.Errorf("page %d again (-before +after):\n%s", i, diff)
			}
			cur = s.Cursor
		}
	})
	t.Run("a_page_that_is_not_the_next_is_refused", func(t *testing.T) {
		c, _ := h.fresh(t)
		r := begin(t, c)
		_, err := r.Save(ctx, &catalog.Page{Cursor: catalog.Cursor{Job: "trending", Work: "DE", Page: 1}, Done: true, Videos: named("a")})
		if !errors.Is(err, catalog.ErrOutOfStep) {
			t.Errorf("%v, want %v", err, catalog.ErrOutOfStep)
		}
		if got := dumped(t, c, false); got != "" {
			t.Errorf("it left:\n%s", got)
		}
	})
	t.Run("a_page_without_a_place_is_refused", func(t *testing.T) {
		c, _ := h.fresh(t)
		r := begin(t, c)
		at := catalog.Cursor{Job: "trending", Work: "DE"}
		for _, tt := range []struct {
			page catalog.Page
			word string
		}{
			{catalog.Page{Cursor: catalog.Cursor{Job: "search", Work: "DE"}, Done: true}, `job "search"`},
			{catalog.Page{Cursor: catalog.Cursor{Job: "trending"}, Done: true}, "no unit of work"},
			{catalog.Page{Cursor: at}, "names no next one"},
			{catalog.Page{Cursor: at, Done: true, Next: "2"}, "names a next one"},
			{catalog.Page{Cursor: at, Done: true, Chart: true}, "no region"},
		} {
			_, err := r.Save(ctx, &tt.page)
			says(t, err, tt.word, c.Path())
		}
	})
	t.Run("what_is_brief_does_not_replace_what_is_whole", func(t *testing.T) {
		c, clock := h.fresh(t)
		r := begin(t, c)
		brief := []catalog.Video{{ID: "a", Title: "t", Description: "cut ...", Brief: true, PublishedAt: noon}}
		whole := []catalog.Video{{ID: "a", Title: "t", Description: "cut no more", Tags: []string{"x"}, Duration: time.Minute, PublishedAt: noon}}
		if s := save(t, r, "search", catalog.Page{Videos: brief}); s.New != 1 {
			t.Errorf("%+v", s)
		}
		if s := save(t, r, "DE", catalog.Page{Videos: whole}); s.Updated != 1 {
			t.Errorf("%+v", s)
		}
		clock.Advance(time.Hour)
		if s := save(t, r, "search", catalog.Page{Videos: brief, Region: "FR"}); s.Unchanged != 1 {
			t.Errorf("%+v", s)
		}
		v, _ := c.Video(ctx, "a")
		if v.Description != "cut no more" || v.Brief || !v.FetchedAt.Equal(noon) {
			t.Errorf("got %+v", v)
		}
		if r, _ := c.Search(ctx, catalog.Query{Text: "cut", Region: "FR"}); len(r.Hits) != 1 {
			t.Error("it was not seen in the other region")
		}
	})
	t.Run("what_is_gone_is_deleted", func(t *testing.T) {
		c, _ := h.fresh(t)
		r := begin(t, c)
		videos := named("a", "b", "c")
		videos[1].Statistics = &catalog.Statistics{Views: count(1)}
		save(t, r, "DE", catalog.Page{Videos: videos, Region: "DE", Chart: true})
		if s := save(t, r, "retention", catalog.Page{Gone: []string{"b", "unknown"}}); s.Gone != 1 {
			t.Errorf("%+v", s)
		}
		chart, err := c.Chart(ctx, "DE", "")
		if err != nil || len(chart.Entries) != 2 || chart.Entries[1].Rank != 3 {
			t.Errorf("the chart has %+v, %v", chart.Entries, err)
		}
		if got := dumped(t, c, false); strings.Contains(got, `"b"`) {
			t.Errorf("something of it is left:\n%s", got)
		}
		healthy(t, c)
	})
	t.Run("hostile_text_stays_as_it_is", func(t *testing.T) {
		c, _ := h.fresh(t)
		texts := []string{
			"<script>alert(1)</script>", `"; DROP TABLE videos; --`, "nul \x00 byte", "\x01\x02\x1b[31m", "\u202Eright to left", "a\u0000",
			"'' \" ` \\ %s {{.}}", strings.Repeat("x", 100_000), "\uFFFE\uFFFF", "🏴‍☠️👩‍👩‍👧‍👦", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢", "\n\r\t",
		}
		var videos []catalog.Video
		for i, text := range texts {
			videos = append(videos, catalog.Video{ID: string(rune('a' + i)), Title: text, Description: text, ChannelTitle: text, Tags: []string{text, text}, PublishedAt: noon})
		}
		save(t, begin(t, c), texts[1], catalog.Page{Videos: videos, Region: texts[1], Chart: true, Category: texts[2]})
		chart, err := c.Chart(ctx, texts[1], texts[2])
		if err != nil || len(chart.Entries) != len(texts) {
			t.Fatal(len(chart.Entries), err)
		}
		for i, e := range chart.Entries {
			videos[i].FetchedAt = noon
			if h.NoNUL {
				withoutNUL(&videos[i])
			}
			if diff := cmp.Diff(videos[i], e.Video); diff != "" {
				t.Errorf("%q (-want +got):\n%s", texts[i], diff)
			}
			for _, q := range []string{texts[i], e.Video.ID} {
				if _, err := c.Search(ctx, catalog.Query{Text: q}); err != nil {
					t.Errorf("search %q: %v", q, err)
				}
			}
		}
		healthy(t, c)
	})
	t.Run("what_is_no_text_is_marked", func(t *testing.T) {
		c, _ := h.fresh(t)
		save(t, begin(t, c), "DE", catalog.Page{Videos: []catalog.Video{{ID: "a", Title: "a\xffb"}}})
		if v, err := c.Video(ctx, "a"); err != nil || v.Title != "a\uFFFDb" {
			t.Errorf("%q, %v", v.Title, err)
		}
	})
}

// recorded returns the history of runs.
func recorded(t testing.TB, c Catalog) []catalog.RunRecord {
	t.Helper()
	all, err := c.Runs(ctx, catalog.RunsQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// withoutNUL replaces the character NUL in the texts of a video.
func withoutNUL(v *catalog.Video) {
	replace := func(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }
	v.Title, v.Description, v.ChannelTitle = replace(v.Title), replace(v.Description), replace(v.ChannelTitle)
}

// testTexts: a text that is no valid UTF-8 is saved with a sign in place of its bytes, wherever it
// stands, and a page with it can be saved again.
func (h *Harness) testTexts(t *testing.T) {
	c, _ := h.fresh(t)
	r := begin(t, c)
	const bad, good = "a\xffz", "a\uFFFDz"
	for range 2 {
		save(t, r, "work", catalog.Page{
			Region: "US", Category: bad, Chart: true,
			Videos:   []catalog.Video{{ID: bad, Title: bad, Description: bad, ChannelID: bad, ChannelTitle: bad, Tags: []string{bad}, Language: bad}},
			Channels: []catalog.Channel{{ID: bad, Title: bad, Handle: bad}},
		})
	}
	v, err := c.Video(ctx, good)
	if err != nil || v.Title != good || v.Description != good || v.ChannelID != good || v.Language != good || v.Tags[0] != good {
		t.Errorf("%+v, %v", v, err)
	}
	if ch, err := c.Channel(ctx, bad); err != nil || ch.ID != good || ch.Handle != good {
		t.Errorf("%+v, %v", ch, err)
	}
	if chart, err := c.Chart(ctx, "US", bad); err != nil || len(chart.Entries) != 1 {
		t.Errorf("%+v, %v", chart, err)
	}
	runs, err := c.Runs(ctx, catalog.RunsQuery{})
	if err != nil || runs[0].Work[0].New != 1 || runs[0].Work[0].Unchanged != 1 {
		t.Errorf("%+v, %v", runs, err)
	}
	err = r.EndWork(ctx, "work", "US", catalog.Outcome{State: catalog.Failed, Error: bad})
	if runs, failed := c.Runs(ctx, catalog.RunsQuery{}); err != nil || failed != nil || runs[0].Work[0].Error != good {
		t.Errorf("%+v, %v, %v", runs, err, failed)
	}
	healthy(t, c)
}
