package youtube_test

import (
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

func (u *upstream) search(q youtube.Query) fetch {
	return func(at catalog.Cursor) (*catalog.Page, error) { return u.Search(ctx, q, at) }
}

// published are all that match from a time to another, in steps that are short
// enough for the upstream to tell all.
func (u *upstream) published(t *testing.T, q youtube.Query, from, to time.Time) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for step := 2 * 24 * time.Hour; from.Before(to); from = from.Add(step) {
		until := from.Add(step)
		if until.After(to) {
			until = to
		}
		found := u.raw(t, "search", "part", "snippet", "type", "video", "order", "date", "q", q.Text, "regionCode", q.Region,
			"publishedAfter", from.Format(time.RFC3339), "publishedBefore", until.Format(time.RFC3339))
		if len(found) > 450 {
			t.Fatal("a step is too long")
		}
		maps.Copy(all, distinct(rawIDs(found)))
	}
	return all
}

var football = youtube.Query{Text: "football highlights", Region: "DE"}

func TestSearch(t *testing.T) {
	t.Run("a first pass is the newest page", func(t *testing.T) {
		u := newUpstream(t, youtubesim.Options{})
		at := new(catalog.Cursor)
		pages := pass(t, at, 100, u.search(football))
		want := u.raw(t, "search", "part", "snippet", "type", "video", "order", "date", "q", football.Text, "regionCode", "DE")[:len(pages[0].Videos)]
		if len(pages) != 1 || len(want) < 40 || !at.Mark.Equal(pages[0].Videos[0].PublishedAt) {
			t.Fatalf("%d pages, %d videos, mark %s", len(pages), len(want), at.Mark)
		}
		for i := range want {
			as(t, &pages[0].Videos[i], &want[i])
			if !pages[0].Videos[i].Brief {
				t.Errorf("%+v passes for all there is", pages[0].Videos[i])
			}
		}
	})

	t.Run("titles are as they were written", func(t *testing.T) {
		u := newUpstream(t, youtubesim.Options{})
		marked := 0
		for _, region := range []string{"US", "DE", "JP", "IL", "TH", "IN"} {
			q := youtube.Query{Text: "music", Region: region}
			for _, p := range pass(t, new(catalog.Cursor), 100, u.search(q)) {
				full, err := u.Videos(ctx, idsOf(p.Videos))
				if err != nil {
					t.Fatal(err)
				}
				for i, v := range full.Videos {
					if b := p.Videos[i]; b.Title != v.Title || b.ChannelTitle != v.ChannelTitle {
						t.Errorf("found as %q of %q, is %q of %q", b.Title, b.ChannelTitle, v.Title, v.ChannelTitle)
					}
					if strings.ContainsAny(v.Title+v.ChannelTitle, `&<>"'`) {
						marked++
					}
				}
			}
		}
		if marked == 0 {
			t.Error("none had anything to escape")
		}
	})

	t.Run("no gap, however often it is deferred", func(t *testing.T) {
		u := newUpstream(t, youtubesim.Options{})
		at := new(catalog.Cursor)
		pages := pass(t, at, 1, u.search(football))
		begun := at.Mark
		got := distinct(idsOf(pages[0].Videos))
		passes := at.Pass + 3
		if os.Getenv("HEADROOM_SOAK") == "1" {
			passes += 20
		}
		for n := 0; at.Pass < passes; n++ {
			if n == 2000 {
				t.Fatalf("pass %d does not end", at.Pass)
			}
			if !at.Begun() {
				u.advance(4 * 24 * time.Hour)
			}
			maps.Copy(got, distinct(idsOf(videosOf(pass(t, at, 1, u.search(football))))))
			u.advance(5 * time.Hour) // deferred, after each page
		}
		want := u.published(t, football, begun, at.Mark)
		if len(want) < 300 {
			t.Fatalf("only %d videos: too few to tell", len(want))
		}
		for id := range want {
			if !got[id] {
				t.Errorf("%s is missing", id)
			}
		}
		if begun.Equal(at.Mark) {
			t.Error("the mark stands still")
		}
	})

	t.Run("each pass begins where the last one had got, to the second", func(t *testing.T) {
		u := newUpstream(t, youtubesim.Options{})
		mark := noon.Add(-24 * time.Hour)
		p, err := u.Search(ctx, football, catalog.Cursor{Mark: mark})
		if err != nil || !p.Since.Equal(mark) {
			t.Fatal(p, err)
		}
		last := p.Videos[len(p.Videos)-1].PublishedAt
		at := catalog.Cursor{Mark: last}
		if p, err = u.Search(ctx, football, at); err != nil || !slices.ContainsFunc(p.Videos, func(v catalog.Video) bool { return v.PublishedAt.Equal(last) }) {
			t.Errorf("what was published in the second of the mark is left out: %v", err)
		}
		at = catalog.Cursor{Page: 1, Since: last, Mark: mark} // under way
		if p, err = u.Search(ctx, football, at); err != nil || !p.Since.Equal(last) {
			t.Errorf("a pass under way begins at %s, not at %s: %v", p.Since, last, err)
		}
	})

	t.Run("a backfill finds all of its time, beyond what a search tells", func(t *testing.T) {
		u := newUpstream(t, youtubesim.Options{})
		q := football
		q.Since, q.Until = noon.AddDate(0, 0, -40), noon.AddDate(0, 0, -15)
		want := u.published(t, q, q.Since, q.Until)
		before := u.calls("search.list")
		at := &catalog.Cursor{Mark: noon} // it goes by its own
		pages := pass(t, at, 200, u.search(q))
		got := distinct(idsOf(videosOf(pages)))
		if len(want) < 1000 || !maps.Equal(got, want) {
			t.Errorf("%d videos, want %d", len(got), len(want))
		}
		spent := u.calls("search.list") - before
		t.Logf("%d videos in %d calls", len(got), spent)
		if spent > int64(len(want)/50*5/4+2) {
			t.Errorf("%d calls for %d videos", spent, len(want))
		}
	})
}

func TestSearchGoesOnForAsLongAsTheUpstreamDoes(t *testing.T) {
	u := newUpstream(t, youtubesim.Options{Faults: []youtubesim.Fault{{Do: youtubesim.Endless}}})
	at := &catalog.Cursor{Mark: noon.AddDate(0, 0, -2)}
	if pages := pass(t, at, 30, u.search(football)); len(pages) != 30 {
		t.Errorf("%d pages", len(pages))
	}
	if calls := u.calls("search.list"); calls != 30 {
		t.Errorf("%d calls", calls)
	}
}

func TestSearchGoesOnWithWhatIsOlder(t *testing.T) {
	const first, second = "2026-11-20T10:00:00Z", "2026-11-19T10:00:00Z"
	for name, c := range map[string]struct{ oldest, token, before string }{
		"the second of the oldest is asked for again": {second, "", "2026-11-19T10:00:01Z"},
		"all are of one second":                       {first, "t9", "2026-11-20T10:00:01Z"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked url.Values
			client := newClient(t, &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
				asked = r.URL.Query()
				return answer(r, `{"kind":"youtube#listed","nextPageToken":"t9","items":[{"id":{"videoId":"a"},"snippet":{"publishedAt":"`+first+`"}},
					{"id":{"videoId":"b"},"snippet":{"publishedAt":"`+c.oldest+`"}}]}`), nil
			})}, "")
			p, err := client.Search(ctx, football, catalog.Cursor{Page: 8, Since: noon.AddDate(0, -1, 0), Token: "page=8&token=t8&before=2026-11-20T10:00:01Z"})
			if err != nil || asked.Get("pageToken") != "t8" {
				t.Fatal(asked, err)
			}
			if _, err := client.Search(ctx, football, catalog.Cursor{Page: 9, Since: noon.AddDate(0, -1, 0), Token: p.Next}); err != nil {
				t.Fatal(err)
			}
			if asked.Get("pageToken") != c.token || asked.Get("publishedBefore") != c.before || asked.Get("publishedAfter") != "2026-10-20T12:00:00Z" {
				t.Errorf("asked for %v", asked)
			}
		})
	}
}

func TestSearchSkipsWhatIsNoVideo(t *testing.T) {
	c := newClient(t, &http.Client{Transport: answers(`{"kind":"youtube#listed","items":[
		{"id":{"kind":"youtube#channel","channelId":"UC1"},"snippet":{"title":"a channel"}}, {"snippet":{}}, {"id":{"videoId":"x"}}, null,
		{"id":{"videoId":"abc"},"snippet":{"title":"Tom &amp;amp; Jerry &lt;3 &#39;&quot;","description":"5 &lt; 6","publishedAt":"2026-11-20T10:00:00Z"}}]}`)}, "")
	p, err := c.Search(ctx, football, catalog.Cursor{})
	if err != nil || len(p.Videos) != 1 {
		t.Fatal(p, err)
	}
	if v := p.Videos[0]; v.Title != `Tom &amp; Jerry <3 '"` || v.Description != "5 &lt; 6" || !p.High.Equal(v.PublishedAt) {
		t.Errorf("%+v", v)
	}
}
