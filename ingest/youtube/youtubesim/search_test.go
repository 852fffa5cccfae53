package youtubesim_test

import (
	"html"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

func TestSearch(t *testing.T) {
	now := at(noon)
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: now.Now, Quota: youtubesim.Quota{youtubesim.SearchList: 1000}})
	football := []string{"part", "snippet", "type", "video", "q", "football highlights", "regionCode", "DE", "order", "date", "maxResults", "50"}
	pages := walk(t, sim, "search", football...)

	t.Run("500 results at most, whatever the total says", func(t *testing.T) {
		if n := len(idsOf(pages)); len(pages) != 10 || n < 480 || n > 500 || pages[0].PageInfo.TotalResults <= 500 {
			t.Errorf("%d results in %d pages, %d in all", n, len(pages), pages[0].PageInfo.TotalResults)
		}
	})
	t.Run("titles are escaped here and only here", func(t *testing.T) {
		escaped := 0
		for _, p := range pages {
			raw := fetch(t, sim, "videos", params("part", "snippet", "id", strings.Join(p.ids(), ",")))
			if !slices.Equal(raw.ids(), p.ids()) {
				t.Fatalf("asked for %v, got %v", p.ids(), raw.ids())
			}
			for i, v := range raw.Items {
				found := p.Items[i].Snippet.Title
				if html.UnescapeString(found) != v.Snippet.Title {
					t.Errorf("%q is not %q", found, v.Snippet.Title)
				}
				if strings.ContainsAny(found, `<>"'`) {
					t.Errorf("%q is not escaped", found)
				}
				if found != v.Snippet.Title {
					escaped++
				}
			}
		}
		if escaped == 0 {
			t.Error("none had anything to escape")
		}
	})
	t.Run("what it finds is about the query, in any language", func(t *testing.T) {
		for q, word := range map[string]string{"Fußball heute": "Fußball", "サッカー": "Fußball", "أخبار": "Nachrichten"} {
			l := fetch(t, sim, "search", with(params(football...), "q", q))
			about := 0
			for _, v := range l.Items {
				if strings.Contains(v.Snippet.Title, word) {
					about++
				}
			}
			if about < 25 {
				t.Errorf("%q: %d of %d titles say %q", q, about, len(l.Items), word)
			}
		}
	})
	t.Run("by date, the newest first", func(t *testing.T) {
		last := "9"
		for _, p := range pages {
			for _, v := range p.Items {
				if v.Snippet.PublishedAt > last {
					t.Fatalf("%s after %s", v.Snippet.PublishedAt, last)
				}
				last = v.Snippet.PublishedAt
			}
		}
	})
	t.Run("every order has the same results", func(t *testing.T) {
		want := idsOf(pages)
		for _, order := range []string{"relevance", "viewCount", "rating", "title"} {
			l := idsOf(walk(t, sim, "search", replaced(football, "order", order)...))
			if slices.Equal(l, want) {
				t.Errorf("%s is the order of date", order)
			}
			if n := shared(l, want); n != len(want) {
				t.Errorf("%s has %d of %d", order, n, len(want))
			}
		}
	})
	t.Run("day by day nothing is missed", func(t *testing.T) {
		begin := noon.Add(-72 * time.Hour)
		between := func(after, before time.Time) []string {
			return idsOf(walk(t, sim, "search", append(slices.Clone(football), "publishedAfter", after.Format(time.RFC3339), "publishedBefore", before.Format(time.RFC3339))...))
		}
		whole := between(begin, noon)
		var parts []string
		for day := begin; day.Before(noon); day = day.Add(24 * time.Hour) {
			parts = append(parts, between(day, day.Add(24*time.Hour-time.Second))...)
		}
		slices.Sort(whole)
		slices.Sort(parts)
		if len(whole) < 50 || !slices.Equal(whole, parts) {
			t.Errorf("%d at once, %d day by day", len(whole), len(parts))
		}
	})
	t.Run("both ends are included", func(t *testing.T) {
		v := pages[0].Items[7]
		l := fetch(t, sim, "search", with(params(football...), "publishedAfter", v.Snippet.PublishedAt, "publishedBefore", v.Snippet.PublishedAt))
		if len(l.Items) != 1 || l.Items[0].Snippet != v.Snippet {
			t.Errorf("%+v, want %+v", l.Items, v)
		}
	})
	t.Run("a walk does not see what came after it began", func(t *testing.T) {
		defer now.set(noon)
		p := params(football...)
		first := fetch(t, sim, "search", p)
		now.advance(6 * time.Hour)
		p.Set("pageToken", first.NextPageToken)
		if second := fetch(t, sim, "search", p); shared(second.ids(), pages[1].ids()) < 47 {
			t.Error("page 2 has moved")
		}
		if fresh := fetch(t, sim, "search", params(football...)); slices.Equal(fresh.ids(), first.ids()) {
			t.Error("six hours have brought nothing")
		}
	})
	t.Run("of one channel", func(t *testing.T) {
		channel := pages[0].Items[0].Snippet.ChannelID
		for _, v := range fetch(t, sim, "search", params("part", "snippet", "type", "video", "channelId", channel, "maxResults", "50")).Items {
			if v.Snippet.ChannelID != channel {
				t.Errorf("%v is of another", v)
			}
		}
	})
	t.Run("without a type channels are among them", func(t *testing.T) {
		kinds := map[string]int{}
		for _, v := range fetch(t, sim, "search", params("part", "snippet", "q", "film", "maxResults", "50")).Items {
			kinds[v.ID.(map[string]any)["kind"].(string)]++
		}
		if kinds["youtube#video"] == 0 || kinds["youtube#channel"] == 0 {
			t.Errorf("%v", kinds)
		}
	})
}

// replaced are pairs with another value of one name.
func replaced(pairs []string, name, value string) []string {
	pairs = slices.Clone(pairs)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] == name {
			pairs[i+1] = value
		}
	}
	return pairs
}

// Uploads of a channel: its playlist, walked as an ingestor does.
func TestUploads(t *testing.T) {
	now := at(noon)
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: now.Now})
	channel := fetch(t, sim, "videos", chart).Items[0].Snippet.ChannelID
	l := fetch(t, sim, "channels", params("part", "contentDetails,snippet,statistics", "id", channel+",UCnosuchchannelxxxxxxxxxx"))
	if len(l.Items) != 1 {
		t.Fatalf("channels: %+v", l)
	}
	uploads := l.Items[0].ContentDetails["relatedPlaylists"].(map[string]any)["uploads"].(string)
	walkIt := []string{"part", "snippet,contentDetails", "playlistId", uploads, "maxResults", "50"}
	pages := walk(t, sim, "playlistItems", walkIt...)

	var videos []string
	last := "9"
	for _, p := range pages {
		for _, i := range p.Items {
			videos = append(videos, i.ContentDetails["videoId"].(string))
			if i.Snippet.PublishedAt > last {
				t.Fatalf("%s after %s", i.Snippet.PublishedAt, last)
			}
			last = i.Snippet.PublishedAt
		}
	}
	if total := pages[0].PageInfo.TotalResults; len(videos) < total*9/10 || len(videos) > total {
		t.Errorf("%d of %d", len(videos), total)
	}
	for batch := range slices.Chunk(videos, 50) {
		if n := len(fetch(t, sim, "videos", params("part", "id", "id", strings.Join(batch, ","))).Items); n != len(batch) {
			t.Errorf("%d of %d are found by id", n, len(batch))
		}
	}
	t.Run("the newest are those that a search of the channel finds", func(t *testing.T) {
		l := fetch(t, sim, "search", params("part", "id", "type", "video", "order", "date", "channelId", channel, "maxResults", "50"))
		if !slices.Equal(l.ids(), videos[:50]) {
			t.Errorf("%v, searched for %v", videos[:50], l.ids())
		}
	})
	t.Run("back and forth", func(t *testing.T) {
		p := params(walkIt...)
		p.Set("pageToken", pages[2].PrevPageToken)
		if back := fetch(t, sim, "playlistItems", p); !slices.Equal(back.ids(), pages[1].ids()) {
			t.Error("the page before is another")
		}
	})
	t.Run("an item by its id", func(t *testing.T) {
		id := pages[0].ids()[3]
		if one := fetch(t, sim, "playlistItems", params("part", "snippet", "id", id)); len(one.Items) != 1 || one.ids()[0] != id {
			t.Errorf("%+v", one)
		}
	})
	t.Run("a new one comes first", func(t *testing.T) {
		now.advance(6 * 24 * time.Hour)
		if first := fetch(t, sim, "playlistItems", params(walkIt...)); first.ids()[0] == pages[0].ids()[0] {
			t.Error("nothing was uploaded in six days")
		}
	})
	t.Run("by its handle", func(t *testing.T) {
		var raw struct {
			Items []struct{ Snippet struct{ CustomURL string } }
		}
		decode(t, get(sim, "channels", params("part", "snippet", "id", channel)), &raw)
		l := fetch(t, sim, "channels", params("part", "id", "forHandle", raw.Items[0].Snippet.CustomURL))
		if len(l.Items) != 1 || l.ids()[0] != channel {
			t.Errorf("%s: %+v", raw.Items[0].Snippet.CustomURL, l)
		}
	})
}
