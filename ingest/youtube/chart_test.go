package youtube_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

func (u *upstream) trending(region, category string) fetch {
	return func(at catalog.Cursor) (*catalog.Page, error) { return u.Trending(ctx, region, category, at) }
}

func TestTrending(t *testing.T) {
	u := newUpstream(t, youtubesim.Options{})
	t.Run("to the end it is the upstream's own list, byte for byte", func(t *testing.T) {
		for _, of := range []struct{ region, category string }{{"DE", ""}, {"US", "0"}, {"JP", "10"}, {"IN", "20"}, {"BR", "1"}} {
			before := u.calls("videos.list")
			pages := pass(t, new(catalog.Cursor), 100, u.trending(of.region, of.category))
			spent := u.calls("videos.list") - before
			got := videosOf(pages)
			want := u.raw(t, "videos", "part", "snippet,contentDetails,statistics", "chart", "mostPopular",
				"regionCode", of.region, "videoCategoryId", of.category)
			if len(want) < 100 || !slices.Equal(idsOf(got), rawIDs(want)) {
				t.Fatalf("%v: %d videos, want %d: %v, want %v", of, len(got), len(want), idsOf(got), rawIDs(want))
			}
			if int(spent) != len(pages) || len(pages) != (len(want)+49)/50 && len(pages) != 4 {
				t.Errorf("%v: %d pages for %d videos took %d calls", of, len(pages), len(want), spent)
			}
			for i := range got {
				as(t, &got[i], &want[i])
				if !slices.Equal(got[i].Tags, want[i].Snippet.Tags) || got[i].Category != want[i].Snippet.CategoryID || got[i].Brief {
					t.Errorf("%+v is not %+v", got[i], want[i])
				}
			}
			for _, p := range pages {
				if !p.Chart || p.Region != of.region || p.Category != of.category {
					t.Errorf("the page is of the chart %t %q %q", p.Chart, p.Region, p.Category)
				}
			}
		}
	})
	t.Run("in many scripts", func(t *testing.T) {
		var all strings.Builder
		for _, region := range []string{"US", "JP", "KR", "TW", "TH", "IN", "IL", "SA", "RU", "GR"} {
			for _, v := range videosOf(pass(t, new(catalog.Cursor), 100, u.trending(region, ""))) {
				all.WriteString(v.Title + v.Description + strings.Join(v.Tags, ""))
			}
		}
		scripts := map[string]*unicode.RangeTable{
			"Arabic": unicode.Arabic, "Cyrillic": unicode.Cyrillic, "Devanagari": unicode.Devanagari, "Greek": unicode.Greek,
			"Han": unicode.Han, "Hangul": unicode.Hangul, "Hebrew": unicode.Hebrew, "Katakana": unicode.Katakana,
			"Thai": unicode.Thai, "emoji": {R32: []unicode.Range32{{Lo: 0x1F300, Hi: 0x1FAFF, Stride: 1}}},
		}
		for name, script := range scripts {
			if !strings.ContainsFunc(all.String(), func(r rune) bool { return unicode.Is(script, r) }) {
				t.Errorf("nothing is in %s: it was not tried", name)
			}
		}
	})
}

func TestMissingChart(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound} {
		u := newUpstream(t, youtubesim.Options{Faults: []youtubesim.Fault{{Region: "FR", Do: youtubesim.NoChart, Status: status, Skip: 1}}})
		at := new(catalog.Cursor)
		pass(t, at, 1, u.trending("FR", ""))
		if p, err := u.Trending(ctx, "FR", "", *at); !errors.Is(err, youtube.ErrPageToken) {
			t.Errorf("%d: what there is of a chart that went away would be shown as all of it: %+v, %v", status, p, err)
		}
		p, err := u.Trending(ctx, "FR", "", catalog.Cursor{Mark: noon})
		if err != nil || !p.Done || !p.Chart || p.Region != "FR" || len(p.Videos) != 0 {
			t.Errorf("%d: not an empty chart: %+v, %v", status, p, err)
		}
		if p, err := u.Trending(ctx, "US", "", catalog.Cursor{}); err != nil || len(p.Videos) == 0 {
			t.Errorf("%d: the other region suffers too: %v", status, err)
		}
	}
	elsewhere := trip(func(r *http.Request) (*http.Response, error) {
		resp := answer(r, "<html>")
		resp.StatusCode = http.StatusNotFound
		return resp, nil
	})
	if p, err := newClient(t, &http.Client{Transport: elsewhere}, "").Trending(ctx, "DE", "", catalog.Cursor{}); err == nil {
		t.Errorf("a wrong endpoint passes for an empty chart: %+v", p)
	}
}

func TestTrendingGoesOnForAsLongAsTheUpstreamDoes(t *testing.T) {
	u := newUpstream(t, youtubesim.Options{Faults: []youtubesim.Fault{{Do: youtubesim.Endless}}})
	if pages := pass(t, new(catalog.Cursor), 12, u.trending("DE", "")); len(pages) != 12 {
		t.Errorf("%d pages", len(pages))
	}
	if calls := u.calls("videos.list"); calls != 12 {
		t.Errorf("%d calls", calls)
	}
}

func TestStatisticsOfVideos(t *testing.T) {
	u := newUpstream(t, youtubesim.Options{})
	var hidden, zero, without int
	for _, region := range []string{"US", "DE", "JP"} {
		got := videosOf(pass(t, new(catalog.Cursor), 100, u.trending(region, "")))
		want := u.raw(t, "videos", "part", "statistics", "chart", "mostPopular", "regionCode", region)
		for i := range got {
			s := got[i].Statistics
			if s == nil {
				t.Fatalf("%s has none", got[i].ID)
			}
			count(t, got[i].ID, "viewCount", s.Views, want[i].Statistics)
			count(t, got[i].ID, "likeCount", s.Likes, want[i].Statistics)
			count(t, got[i].ID, "commentCount", s.Comments, want[i].Statistics)
			switch {
			case s.Likes == nil:
				hidden++
			case *s.Likes == 0:
				zero++
			}
			if s.Comments == nil {
				without++
			}
		}
	}
	if hidden == 0 || without == 0 {
		t.Errorf("%d hidden likes, %d without comments, %d with 0: not tried", hidden, without, zero)
	}
}

func TestStatisticsBehindARedirect(t *testing.T) {
	c := newClient(t, &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/there" {
			return answer(r, `{"kind":"youtube#listed","items":[{"id":"a","snippet":{},"statistics":{"viewCount":"5"}}]}`), nil
		}
		resp := answer(r, `{"kind":"youtube#listed","items":[]}`)
		resp.StatusCode, resp.Header = http.StatusFound, http.Header{"Location": {"/there"}}
		return resp, nil
	})}, "")
	p, err := c.Videos(ctx, []string{"a"})
	if err != nil || *p.Videos[0].Statistics.Views != 5 {
		t.Errorf("%+v, %v", p, err)
	}
}

// count compares a number with what the simulator says, or does not.
func count(t *testing.T, id, name string, got *int64, want map[string]string) {
	t.Helper()
	text, there := want[name]
	switch {
	case there != (got != nil):
		t.Errorf("%s: %s is there: %t, known: %t", id, name, there, got != nil)
	case there && text != decimal(*got):
		t.Errorf("%s: %s is %d, not %s", id, name, *got, text)
	}
}

func TestPremieresAndStreams(t *testing.T) {
	u := newUpstream(t, youtubesim.Options{Faults: []youtubesim.Fault{{Region: "GB", Do: youtubesim.Premiere}}})
	for _, v := range videosOf(pass(t, new(catalog.Cursor), 100, u.trending("GB", ""))) {
		if v.Duration != 0 || v.Live != "upcoming" {
			t.Fatalf("a premiere to come: %+v", v)
		}
	}
	var live, long int
	for _, region := range []string{"US", "DE", "FR", "IN"} {
		for _, v := range videosOf(pass(t, new(catalog.Cursor), 100, u.trending(region, ""))) {
			switch {
			case v.Live == "none" && v.Duration > time.Second:
				long++
			case v.Live != "none" && v.Duration == 0:
				live++
			}
		}
	}
	if live == 0 || long < 500 {
		t.Errorf("%d live or upcoming, %d with a duration", live, long)
	}
}
