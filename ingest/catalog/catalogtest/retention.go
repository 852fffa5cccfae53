package catalogtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

const month = 30 * 24 * time.Hour

// aging returns the ids of what was last fetched before a time.
func aging(c Catalog, kind catalog.Kind, before time.Time, limit int) (ids []string, err error) {
	all, err := c.Ages(ctx, kind, before, limit)
	for _, a := range all {
		ids = append(ids, a.ID)
	}
	return ids, err
}

func (h *Harness) testAging(t *testing.T) {
	c, clock := h.fresh(t)
	r := begin(t, c)
	var videos []catalog.Video
	for i := range 120 {
		videos = append(videos, catalog.Video{ID: fmt.Sprintf("v%03d", i), Title: "old", Statistics: &catalog.Statistics{Views: count(1)}})
	}
	save(t, r, "DE", catalog.Page{Videos: videos, Channels: []catalog.Channel{{ID: "UC1"}}})
	clock.Advance(month - time.Hour)
	save(t, r, "DE", catalog.Page{Videos: named("young")})
	clock.Advance(2 * time.Hour)
	limit := clock.Now().Add(-month)
	refreshed := 0
	for {
		ids, err := aging(c, catalog.KindVideos, limit, 50)
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) == 0 {
			break
		}
		if len(ids) > 50 || slices.Contains(ids, "young") {
			t.Fatalf("to refresh: %q", ids)
		}
		save(t, r, "retention", catalog.Page{Videos: named(ids[1:]...), Gone: ids[:1]}) // one video of each page is gone
		refreshed += len(ids)
	}
	if refreshed != 120 {
		t.Errorf("%d were refreshed, want 120", refreshed)
	}
	if ids, err := aging(c, catalog.KindStatistics, limit, 500); err != nil || len(ids) != 118 {
		t.Errorf("%d statistics to refresh, %v, want 118: those of 117 videos grow old by themselves, and one has none", len(ids), err)
	}
	if ids, err := aging(c, catalog.KindChannels, limit, 50); err != nil || !slices.Equal(ids, []string{"UC1"}) {
		t.Errorf("channels to refresh: %q, %v", ids, err)
	}
	if s := save(t, r, "retention", catalog.Page{Gone: []string{"UC1", "UC2"}}); s.Gone != 1 {
		t.Errorf("%d channels are gone, want the one that was there", s.Gone)
	}
	if ids, err := aging(c, catalog.KindChannels, limit, 50); err != nil || len(ids) > 0 {
		t.Errorf("channels to refresh: %q, %v; what is gone must not be asked for again", ids, err)
	}
	if _, err := aging(c, "playlists", limit, 50); err == nil {
		t.Error("an unknown kind has an age")
	}
}

// olderThan returns the same limit for all data.
func olderThan(before time.Time) catalog.Limits {
	return catalog.Limits{Before: before, StatisticsBefore: before}
}

// testStatisticsCanBeKeptLonger: but not longer than their video.
func (h *Harness) testStatisticsCanBeKeptLonger(t *testing.T) {
	c, clock := h.fresh(t)
	r := begin(t, c)
	counted := named("a", "b")
	for i := range counted {
		counted[i].Statistics = &catalog.Statistics{Views: count(1)}
	}
	save(t, r, "US", catalog.Page{Videos: counted, Region: "US"})
	clock.Advance(month)
	save(t, r, "more", catalog.Page{Videos: named("a"), Region: "US"}) // b is not fetched again
	clock.Advance(time.Hour)
	e, err := c.Expire(ctx, catalog.Limits{Before: clock.Now().Add(-month), StatisticsBefore: clock.Now().Add(-2 * month)})
	if err != nil || e.Videos != 1 || e.Statistics != 0 {
		t.Errorf("expired %+v, %v, want the video b alone", e, err)
	}
	if v, err := c.Video(ctx, "a"); err != nil || show(v.Statistics) != "1 hidden hidden" {
		t.Errorf("the statistics of a are %v, %v", show(v.Statistics), err)
	}
	if e, err = c.Expire(ctx, olderThan(clock.Now().Add(-month))); err != nil || e.Statistics != 1 {
		t.Errorf("expired %+v, %v, want the statistics of a", e, err)
	}
}

// testExpire: no table, no index and no byte of the files holds expired data.
func (h *Harness) testExpire(t *testing.T) {
	c, clock := h.fresh(t)
	r := begin(t, c)
	const secret = "zyxwvut" // in lower case, like the words of the index
	old := catalog.Video{ID: secret + "id", Title: secret + "title", Description: secret + "description 東京" + secret, ChannelTitle: secret + "channel", Tags: []string{secret + "tag"}, Statistics: &catalog.Statistics{Views: count(7)}}
	save(t, r, "DE", catalog.Page{Region: "DE", Chart: true, Videos: append([]catalog.Video{old, {ID: "b", Title: secret + "before"}}, named("c")...), Channels: []catalog.Channel{{ID: secret, Title: secret}}})
	save(t, r, "FR", catalog.Page{Region: "FR", Chart: true, Next: "2", Videos: []catalog.Video{old}})
	for i := range 40 { // the index gets several segments
		save(t, r, "US", catalog.Page{Videos: []catalog.Video{{ID: fmt.Sprint(secret, i), Title: fmt.Sprint(secret, "title", i)}}})
	}
	clock.Advance(month)
	refreshed := named("b")
	refreshed[0].Statistics = &catalog.Statistics{Views: count(1)}
	save(t, r, "stats", catalog.Page{Videos: refreshed, Region: "GB"})
	clock.Advance(time.Hour)
	e, err := c.Expire(ctx, olderThan(clock.Now().Add(-month)))
	if want := (catalog.Expired{Videos: 42, Channels: 1, Sightings: 4, Statistics: 1, Charts: 2}); err != nil || e != want {
		t.Errorf("expired %+v, %v, want %+v", e, err, want)
	}
	if v, err := c.Video(ctx, "b"); err != nil || show(v.Statistics) != "1 hidden hidden" {
		t.Errorf("what was refreshed: %+v, %v", v, err)
	}
	if r, err := c.Search(ctx, catalog.Query{Text: secret + "title"}); err != nil || len(r.Hits) > 0 {
		t.Errorf("%d are found, %v", len(r.Hits), err)
	}
	if r, err := c.Search(ctx, catalog.Query{Text: "video", Region: "DE"}); err != nil || len(r.Hits) > 0 {
		t.Errorf("%d are found for a region that they were last seen in a month ago, %v", len(r.Hits), err)
	}
	if got := places(c, ""); got != "none" {
		t.Errorf("the chart of a month ago is shown: %s", got)
	}
	healthy(t, c)
	if h.Holds != nil {
		h.Holds(t, c, secret)
	}
}

// testAgingOfNumbersThatNobodyKnows: videos from a search have no statistics. They come
// first.
func (h *Harness) testAgingOfNumbersThatNobodyKnows(t *testing.T) {
	c, clock := h.fresh(t)
	r := begin(t, c)
	with := named("a", "b")
	with[0].Statistics, with[1].Statistics = &catalog.Statistics{Views: count(1)}, &catalog.Statistics{}
	save(t, r, "charts", catalog.Page{Videos: with})
	clock.Advance(time.Hour)
	save(t, r, "search", catalog.Page{Videos: named("x", "y")})
	clock.Advance(time.Hour)
	for _, want := range []string{"xyab", "yabx", "abxy", "bxya"} {
		ids, err := aging(c, catalog.KindStatistics, clock.Now(), 50)
		if got := strings.Join(ids, ""); err != nil || got != want {
			t.Errorf("to refresh: %s, %v, want %s", got, err, want)
		}
		save(t, r, "stats", catalog.Page{Statistics: []catalog.Statistics{{VideoID: want[:1]}}})
		clock.Advance(time.Minute)
	}
	if ids, err := aging(c, catalog.KindStatistics, noon, 1); err != nil || len(ids) > 0 {
		t.Errorf("to refresh: %q, %v, want none", ids, err)
	}
}
