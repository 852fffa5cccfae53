package youtube_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

func (u *upstream) uploads(channel string) fetch {
	return func(at catalog.Cursor) (*catalog.Page, error) { return u.Uploads(ctx, channel, at) }
}

// busy is a channel with many uploads.
func (u *upstream) busy(t *testing.T) catalog.Channel {
	t.Helper()
	var ids []string
	for _, v := range videosOf(pass(t, new(catalog.Cursor), 1, u.trending("US", ""))) {
		ids = append(ids, v.ChannelID)
	}
	p, err := u.Channels(ctx, ids)
	if err != nil {
		t.Fatal(err)
	}
	return slices.MinFunc(p.Channels, func(a, b catalog.Channel) int { return a.PublishedAt.Compare(b.PublishedAt) })
}

func TestUploads(t *testing.T) {
	u := newUpstream(t, youtubesim.Options{})
	ch := u.busy(t)
	at := new(catalog.Cursor)

	t.Run("to the end it is the upstream's own list, byte for byte", func(t *testing.T) {
		asked, listed := u.calls("channels.list"), u.calls("playlistItems.list")
		pages := pass(t, at, 1000, u.uploads(ch.ID))
		asked, listed = u.calls("channels.list")-asked, u.calls("playlistItems.list")-listed
		got := videosOf(pages)
		want := u.raw(t, "playlistItems", "part", "snippet,contentDetails", "playlistId", ch.Uploads)
		if len(want) < 120 || !slices.Equal(idsOf(got), rawIDs(want)) {
			t.Fatalf("%d videos, want %d", len(got), len(want))
		}
		for i := range want {
			as(t, &got[i], &want[i])
			if !got[i].Brief || got[i].ChannelID != ch.ID {
				t.Errorf("%+v", got[i])
			}
		}
		if asked != 1 || int(listed) != len(pages) {
			t.Errorf("%d pages took %d and %d calls", len(pages), asked, listed)
		}
		if first := pages[0].Channels; len(first) != 1 || first[0] != ch || len(pages[1].Channels) != 0 {
			t.Errorf("the channel is %+v, want %+v", first, ch)
		}
		if !at.Mark.Equal(got[0].PublishedAt) {
			t.Errorf("the mark is at %s", at.Mark)
		}
	})
	t.Run("after that what is new", func(t *testing.T) {
		u.advance(40 * 24 * time.Hour)
		mark := at.Mark
		pages := pass(t, at, 1000, u.uploads(ch.ID))
		got := distinct(idsOf(videosOf(pages)))
		fresh := 0
		for _, i := range u.raw(t, "playlistItems", "part", "snippet,contentDetails", "playlistId", ch.Uploads) {
			if i.ContentDetails.VideoPublishedAt > mark.Format(time.RFC3339) {
				if fresh++; !got[i.id()] {
					t.Errorf("%s is missing", i.id())
				}
			}
		}
		if fresh == 0 || len(pages) > 1+fresh/50 || !at.Mark.After(mark) {
			t.Errorf("%d new videos in %d pages, mark %s", fresh, len(pages), at.Mark)
		}
	})
	t.Run("more than a page of them", func(t *testing.T) {
		old := *at
		old.Mark = noon.AddDate(-1, 0, 0)
		got := distinct(idsOf(videosOf(pass(t, &old, 1000, u.uploads(ch.ID)))))
		for _, i := range u.raw(t, "playlistItems", "part", "snippet,contentDetails", "playlistId", ch.Uploads) {
			if i.ContentDetails.VideoPublishedAt > noon.AddDate(-1, 0, 0).Format(time.RFC3339) && !got[i.id()] {
				t.Errorf("%s is missing", i.id())
			}
		}
		if len(got) < 60 {
			t.Errorf("only %d: too few to tell", len(got))
		}
	})
	t.Run("by handle", func(t *testing.T) {
		if ch.Handle == "" {
			t.Fatal("it has none")
		}
		p, err := u.Uploads(ctx, ch.Handle, catalog.Cursor{})
		if err != nil || p.Channels[0].ID != ch.ID {
			t.Errorf("%+v, %v", p, err)
		}
	})
	t.Run("of nobody", func(t *testing.T) {
		p, err := u.Uploads(ctx, "UCnobodynobodynobodynobody", catalog.Cursor{})
		if err == nil || !strings.Contains(err.Error(), "UCnobody") {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

func TestUploadsEndAtTheMarkThoughThePageTokensDoNot(t *testing.T) {
	u := newUpstream(t, youtubesim.Options{Faults: []youtubesim.Fault{{Do: youtubesim.Endless}}})
	ch := u.busy(t)
	pages := pass(t, &catalog.Cursor{Mark: noon.AddDate(0, 0, -10)}, 50, u.uploads(ch.ID))
	if len(pages) > 2 || !pages[len(pages)-1].Done {
		t.Errorf("%d pages", len(pages))
	}
	if pages := pass(t, new(catalog.Cursor), 30, u.uploads(ch.ID)); len(pages) != 30 {
		t.Errorf("%d pages without a mark", len(pages))
	}
}

func TestUploadsOfAChannelThatHasNone(t *testing.T) {
	const channel = `{"kind":"youtube#listed","items":[{"id":"UC1","snippet":{"title":"quiet"},"contentDetails":{"relatedPlaylists":{"uploads":"UU1"}}}]}`
	for name, responses := range map[string]paths{
		"it was never made":  {"channels": channel, "playlistItems": `{"error":{"code":404,"message":"cannot be found","errors":[{"reason":"playlistNotFound"}]}}`},
		"it is empty":        {"channels": channel, "playlistItems": `{"kind":"youtube#listed"}`},
		"no list is named":   {"channels": `{"kind":"youtube#listed","items":[{"id":"UC1","snippet":{"title":"quiet"}}]}`},
		"all are deleted":    {"channels": channel, "playlistItems": `{"kind":"youtube#listed","items":[{"snippet":{"title":"Deleted video"},"contentDetails":{"videoId":"abc"}}]}`},
		"there is no detail": {"channels": channel, "playlistItems": `{"kind":"youtube#listed","items":[{"snippet":{"title":"?"}},null,{}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := newClient(t, &http.Client{Transport: responses}, "").Uploads(ctx, "UC1", catalog.Cursor{})
			if err != nil || !p.Done || len(p.Videos) != 0 || len(p.Channels) != 1 {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}
