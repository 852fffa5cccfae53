package youtubesim_test

import (
	"fmt"
	"html"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// walk follows page tokens to the end and returns all that it met.
func walk(t *testing.T, h http.Handler, path string, pairs ...string) (pages []list) {
	t.Helper()
	p := params(pairs...)
	for {
		l := fetch(t, h, path, p)
		pages = append(pages, l)
		if l.NextPageToken == "" {
			return pages
		}
		if len(pages) > 100 {
			t.Fatalf("%s %v does not end", path, pairs)
		}
		p.Set("pageToken", l.NextPageToken)
	}
}

func idsOf(pages []list) (ids []string) {
	for _, p := range pages {
		ids = append(ids, p.ids()...)
	}
	return ids
}

// shared is how many of a are in b.
func shared(a, b []string) (n int) {
	for _, id := range a {
		if slices.Contains(b, id) {
			n++
		}
	}
	return n
}

func mostPopular(region string) []string {
	return []string{"part", "snippet,contentDetails,statistics", "chart", "mostPopular", "regionCode", region, "maxResults", "50"}
}

func TestCharts(t *testing.T) {
	now := at(noon)
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: now.Now})
	pages := walk(t, sim, "videos", mostPopular("FR")...)
	ids := idsOf(pages)

	t.Run("about 200 in 4 pages, none twice", func(t *testing.T) {
		if len(pages) != 4 || len(ids) < 190 || len(ids) > 200 || pages[0].PageInfo.TotalResults < 190 {
			t.Errorf("%d in %d pages, %d in all", len(ids), len(pages), pages[0].PageInfo.TotalResults)
		}
		sorted := slices.Clone(ids)
		slices.Sort(sorted)
		if n := len(slices.Compact(sorted)); n != len(ids) {
			t.Errorf("%d of %d differ", n, len(ids))
		}
	})
	t.Run("the page before is the page before", func(t *testing.T) {
		p := params(mostPopular("FR")...)
		p.Set("pageToken", pages[2].PrevPageToken)
		if got := fetch(t, sim, "videos", p); !slices.Equal(got.ids(), pages[1].ids()) || pages[0].PrevPageToken != "" {
			t.Error("it is another")
		}
	})
	t.Run("every id is found again", func(t *testing.T) {
		for _, p := range pages {
			got := fetch(t, sim, "videos", params("part", "snippet", "id", strings.Join(p.ids(), ",")))
			if !slices.Equal(got.ids(), p.ids()) {
				t.Errorf("asked for %v, got %v", p.ids(), got.ids())
			}
			for i := range got.Items {
				if got.Items[i].Snippet != p.Items[i].Snippet {
					t.Errorf("%v is told differently: %v", p.Items[i], got.Items[i])
				}
			}
		}
	})
	t.Run("regions differ, and share some", func(t *testing.T) {
		if n := shared(ids, idsOf(walk(t, sim, "videos", mostPopular("JP")...))); n < 10 || n > 80 {
			t.Errorf("France and Japan share %d", n)
		}
	})
	t.Run("a token holds on to its chart", func(t *testing.T) {
		defer now.set(noon)
		p := params(mostPopular("FR")...)
		p.Set("pageToken", pages[0].NextPageToken)
		now.advance(5 * time.Hour)
		if got := fetch(t, sim, "videos", p).ids(); shared(got, pages[1].ids()) < 47 {
			t.Errorf("five hours later page 2 is another: %v, was %v", got, pages[1].ids())
		}
	})
	t.Run("it moves every hour", func(t *testing.T) {
		defer now.set(noon)
		now.advance(time.Hour)
		later := idsOf(walk(t, sim, "videos", mostPopular("FR")...))
		if slices.Equal(later, ids) || shared(later, ids) < 180 {
			t.Errorf("after an hour %d are the same", shared(later, ids))
		}
	})
	t.Run("there are new videos every day", func(t *testing.T) {
		defer now.set(noon)
		now.advance(24 * time.Hour)
		later := idsOf(walk(t, sim, "videos", mostPopular("FR")...))
		if n := shared(later, ids); n < 60 || n > 185 {
			t.Errorf("after a day %d are the same", n)
		}
	})
	t.Run("some charts are missing", func(t *testing.T) {
		p := params(mostPopular("FR")...)
		p.Set("videoCategoryId", "25")
		if r := get(sim, "videos", p); r.Code != 404 || !strings.Contains(r.Body.String(), `"notFound"`) {
			t.Errorf("news: %d %s", r.Code, r.Body)
		}
	})
}

// Data that breaks careless programs is there, and not rare.
func TestOddities(t *testing.T) {
	now := at(noon)
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: now.Now})
	met := map[string]int{}
	for _, region := range []string{"US", "DE", "IN", "JP", "KR", "TW", "TH", "EG", "IL", "UA", "GR"} {
		for _, p := range walk(t, sim, "videos", mostPopular(region)...) {
			met["pages that are short of a video"] += 50 - len(p.Items)
			for _, v := range p.Items {
				for script, table := range map[string]*unicode.RangeTable{
					"Han": unicode.Han, "Hiragana": unicode.Hiragana, "Hangul": unicode.Hangul, "Thai": unicode.Thai, "Devanagari": unicode.Devanagari,
					"Arabic": unicode.Arabic, "Hebrew": unicode.Hebrew, "Cyrillic": unicode.Cyrillic, "Greek": unicode.Greek,
				} {
					if strings.ContainsFunc(v.Snippet.Title, func(r rune) bool { return unicode.Is(table, r) }) {
						met[script]++
					}
				}
				for _, odd := range []string{"👨‍👩‍👧‍👦", `"`, "'", "&", "<", "é"} {
					if strings.Contains(v.Snippet.Title, odd) {
						met[odd]++
					}
				}
				if html.UnescapeString(v.Snippet.Title) != v.Snippet.Title {
					t.Errorf("%q is escaped", v.Snippet.Title)
				}
				duration, _ := v.ContentDetails["duration"].(string)
				switch state := v.Snippet.LiveBroadcastContent; {
				case state == "none" && (duration == "" || duration == "P0D"):
					t.Errorf("%v has no duration", v)
				case duration == "":
					met["premieres without a duration"]++
				case duration == "P0D":
					met["P0D, "+state]++
				}
				if v.Statistics["likeCount"] == nil {
					met["hidden likes"]++
				}
				if v.Statistics["commentCount"] == nil {
					met["no comments"]++
				}
				if v.ContentDetails["regionRestriction"] != nil {
					met["restricted to regions"]++
				}
			}
		}
	}
	for _, odd := range []string{
		"Han", "Hiragana", "Hangul", "Thai", "Devanagari", "Arabic", "Hebrew", "Cyrillic", "Greek", "👨‍👩‍👧‍👦", `"`, "'", "&", "<", "é",
		"premieres without a duration", "P0D, upcoming", "P0D, live", "hidden likes", "no comments", "restricted to regions",
	} {
		if met[odd] == 0 {
			t.Errorf("%s: none in 2,200 videos", odd)
		}
	}
}

// As time goes on counts only grow, videos vanish, and premieres get a duration.
func TestVideosInTime(t *testing.T) {
	now := at(noon)
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: now.Now})
	var ids []string
	for _, region := range []string{"US", "DE", "JP", "BR"} {
		ids = append(ids, idsOf(walk(t, sim, "videos", mostPopular(region)...))...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	views, upcoming := map[string]int{}, map[string]bool{}
	there := len(ids)
	for range 10 {
		seen := 0
		for batch := range slices.Chunk(ids, 50) {
			l := fetch(t, sim, "videos", params("part", "snippet,contentDetails,statistics", "id", strings.Join(batch, ",")))
			seen += len(l.Items)
			for i, id := range l.ids() {
				var count int
				if _, err := fmt.Sscan(l.Items[i].Statistics["viewCount"].(string), &count); err != nil || count < views[id] {
					t.Errorf("%s had %d views and has %d (%v)", id, views[id], count, err)
				}
				views[id] = count
				if l.Items[i].Snippet.LiveBroadcastContent == "upcoming" {
					upcoming[id] = true
				} else if upcoming[id] && l.Items[i].Snippet.LiveBroadcastContent == "none" && l.Items[i].ContentDetails["duration"] != "P0D" && l.Items[i].ContentDetails["duration"] != nil {
					delete(upcoming, id)
				}
			}
		}
		if seen > there {
			t.Errorf("%d are there again", seen-there)
		}
		there = seen
		now.advance(3 * 24 * time.Hour)
	}
	if there == len(ids) || there < len(ids)*9/10 {
		t.Errorf("of %d videos %d are left after a month", len(ids), there)
	}
	if len(upcoming) > 3 {
		t.Errorf("%d premieres were never shown", len(upcoming)) // a few vanished before
	}
}
