package youtube_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func TestRefresh(t *testing.T) {
	u := newUpstream(t, youtubesim.Options{})
	all := videosOf(pass(t, new(catalog.Cursor), 1, u.trending("US", "")))
	ids := idsOf(all)
	gone := []string{ids[3], ids[17]}
	u.sim.Inject(youtubesim.Fault{Do: youtubesim.Vanish, IDs: gone}, youtubesim.Fault{Do: youtubesim.HideLikes, IDs: ids[5:6]})
	stay := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(gone, id) })

	t.Run("videos", func(t *testing.T) {
		p, err := u.Videos(ctx, ids)
		if err != nil || !p.Done || !slices.Equal(p.Gone, gone) || !slices.Equal(idsOf(p.Videos), stay) {
			t.Fatalf("gone %v, want %v: %v", p.Gone, gone, err)
		}
		for _, v := range p.Videos {
			if v.ID == ids[5] && (v.Statistics.Likes != nil || v.Statistics.Views == nil) {
				t.Errorf("hidden likes: %+v", v.Statistics)
			}
		}
	})
	t.Run("statistics", func(t *testing.T) {
		p, err := u.Statistics(ctx, ids)
		if err != nil || !p.Done || !slices.Equal(p.Gone, gone) || len(p.Statistics) != len(stay) {
			t.Fatalf("gone %v, want %v: %v", p.Gone, gone, err)
		}
		want := u.raw(t, "videos:batchGetStats", "part", "statistics", "id", strings.Join(stay, ","))
		for i, s := range p.Statistics {
			if s.VideoID != stay[i] {
				t.Fatalf("of %s, want %s", s.VideoID, stay[i])
			}
			count(t, s.VideoID, "viewCount", s.Views, want[i].Statistics)
			count(t, s.VideoID, "likeCount", s.Likes, want[i].Statistics)
			count(t, s.VideoID, "commentCount", s.Comments, want[i].Statistics)
			if s.VideoID == ids[5] && s.Likes != nil {
				t.Errorf("hidden likes: %d", *s.Likes)
			}
		}
		pool := u.sim.Counts().Where(youtubesim.Count{Pool: youtubesim.VideoBatchGetStats}).Total()
		if pool.Calls != 2 { // one is ours
			t.Errorf("%d calls", pool.Calls)
		}
	})
	t.Run("channels", func(t *testing.T) {
		asked := []string{all[0].ChannelID, "UCnobodynobodynobodynobody", all[1].ChannelID}
		p, err := u.Channels(ctx, asked)
		if err != nil || !p.Done || !slices.Equal(p.Gone, asked[1:2]) || len(p.Channels) != 2 {
			t.Fatalf("%+v, %v", p, err)
		}
		if ch := p.Channels[0]; ch.ID != asked[0] || ch.Title != all[0].ChannelTitle || !strings.HasPrefix(ch.Uploads, "UU") || ch.PublishedAt.IsZero() {
			t.Errorf("%+v", ch)
		}
	})
	t.Run("nothing costs nothing, and too many too", func(t *testing.T) {
		before := u.sim.Counts().Total()
		for name, f := range map[string]func([]string) (*catalog.Page, error){
			"videos":     func(ids []string) (*catalog.Page, error) { return u.Videos(ctx, ids) },
			"statistics": func(ids []string) (*catalog.Page, error) { return u.Statistics(ctx, ids) },
			"channels":   func(ids []string) (*catalog.Page, error) { return u.Channels(ctx, ids) },
		} {
			if p, err := f(nil); err != nil || !p.Done {
				t.Errorf("%s: %+v, %v", name, p, err)
			}
			if _, err := f(slices.Concat(ids, ids)); err == nil {
				t.Errorf("%s: %d ids", name, 2*len(ids))
			}
		}
		if after := u.sim.Counts().Total(); after != before {
			t.Errorf("it cost %d", after.Units-before.Units)
		}
	})
}
