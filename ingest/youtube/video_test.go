package youtube_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

func TestVideo(t *testing.T) {
	c := newClient(t, &http.Client{Transport: answers(`{"kind": "youtube#videoListResponse", "items": [
		{"kind": "youtube#video", "etag": "x", "id": "dQw4w9WgXcQ",
			"snippet": {"publishedAt": "2009-10-25T06:57:33.000Z", "channelId": "UCuAXFkgsw1L7xaCfnd5JJOw", "title": "Tom &amp; Jerry 🎵 ไทย",
				"description": "1\n2", "channelTitle": "עברית", "tags": ["a", "b c"], "categoryId": "10", "liveBroadcastContent": "none",
				"thumbnails": {"default": {"url": "https://i/default.jpg"}, "medium": {"url": "https://i/medium.jpg"}, "maxres": {"url": "https://i/maxres.jpg"}},
				"defaultLanguage": "en-GB", "defaultAudioLanguage": "de"},
			"contentDetails": {"duration": "PT3M33S"},
			"statistics": {"viewCount": "1700000000000", "likeCount": "0", "favoriteCount": "0"}},
		{"id": "bare", "snippet": {"title": "-", "defaultAudioLanguage": "hi", "liveBroadcastContent": "upcoming", "publishedAt": "soon",
			"thumbnails": {"default": {"url": "https://i/default.jpg"}}}, "statistics": {}},
		{"id": "barer", "snippet": {}},
		{"id": "without a snippet", "statistics": {"viewCount": "1"}}
	]}`)}, "")
	p, err := c.Videos(ctx, []string{"dQw4w9WgXcQ", "bare", "barer"})
	if err != nil {
		t.Fatal(err)
	}
	want := []catalog.Video{
		{
			ID: "dQw4w9WgXcQ", ChannelID: "UCuAXFkgsw1L7xaCfnd5JJOw", ChannelTitle: "עברית",
			Title: "Tom &amp; Jerry 🎵 ไทย", Description: "1\n2", Tags: []string{"a", "b c"}, Category: "10", Live: "none",
			Language: "en-GB", Thumbnail: "https://i/medium.jpg", Duration: 3*time.Minute + 33*time.Second,
			PublishedAt: time.Date(2009, 10, 25, 6, 57, 33, 0, time.UTC),
			Statistics:  &catalog.Statistics{VideoID: "dQw4w9WgXcQ", Views: new(int64(1_700_000_000_000)), Likes: new(int64(0))},
		},
		{ID: "bare", Title: "-", Language: "hi", Live: "upcoming", Thumbnail: "https://i/default.jpg", Statistics: &catalog.Statistics{VideoID: "bare"}},
		{ID: "barer"},
	}
	if diff := cmp.Diff(want, p.Videos); diff != "" {
		t.Error(diff)
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT3M33S": 3*time.Minute + 33*time.Second, "PT59S": 59 * time.Second, "PT2H": 2 * time.Hour, "PT86399S": 86399 * time.Second,
		"P1DT2H3M4S": 26*time.Hour + 3*time.Minute + 4*time.Second, "P2W": 14 * 24 * time.Hour, "P30D": 720 * time.Hour,
		"P0D": 0, "": 0, "P": 0, "PT": 0, "3M": 0, "PT3M33": 0, "PTM": 0, "P3S": 0, "PT1.5S": 0, "-PT3S": 0, "PT3S ": 0,
		"P99999999999999999999D": 0, "P9999W": 9999 * 7 * 24 * time.Hour,
	} {
		c := newClient(t, &http.Client{Transport: answers(fmt.Sprintf(`{"kind": "youtube#listed", "items": [{"id": "a", "snippet": {}, "contentDetails": {"duration": %q}}]}`, text))}, "")
		p, err := c.Videos(ctx, []string{"a"})
		if err != nil || p.Videos[0].Duration != want {
			t.Errorf("%q: %v, want %s", text, p, want)
		}
	}
}
