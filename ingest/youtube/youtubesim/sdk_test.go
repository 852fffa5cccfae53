package youtubesim_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/youtube/v3"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// sdk is the real one, talking to a simulator.
func sdk(t *testing.T, sim *youtubesim.Sim, o ...option.ClientOption) *youtube.Service {
	t.Helper()
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	s, err := youtube.NewService(t.Context(), append([]option.ClientOption{option.WithEndpoint(server.URL + "/"), option.WithAPIKey("key")}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSDK(t *testing.T) {
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: at(noon).Now, Quota: youtubesim.Quota{youtubesim.Default: 1000}})
	s := sdk(t, sim)

	t.Run("Pages over a chart", func(t *testing.T) {
		before := units(sim)
		pages, videos := 0, map[string]bool{}
		err := s.Videos.List([]string{"snippet", "statistics"}).Chart("mostPopular").RegionCode("IN").MaxResults(50).Pages(t.Context(), func(l *youtube.VideoListResponse) error {
			pages++
			for _, v := range l.Items {
				if v.Snippet.Title == "" || v.Snippet.Thumbnails.Default.Url == "" || v.Statistics == nil {
					t.Errorf("%+v", v)
				}
				videos[v.Id] = true
			}
			return nil
		})
		if err != nil || pages != 4 || len(videos) < 190 || units(sim)-before != 4 {
			t.Errorf("%d videos in %d pages for %d units, %v", len(videos), pages, units(sim)-before, err)
		}
	})
	t.Run("search, to uploads, to statistics", func(t *testing.T) {
		found, err := s.Search.List([]string{"snippet"}).Q("concert").Type("video").Order("date").Do()
		if err != nil {
			t.Fatal(err)
		}
		channels, err := s.Channels.List([]string{"contentDetails", "statistics"}).Id(found.Items[0].Snippet.ChannelId).Do()
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		done := errors.New("enough")
		err = s.PlaylistItems.List([]string{"contentDetails"}).PlaylistId(channels.Items[0].ContentDetails.RelatedPlaylists.Uploads).MaxResults(50).
			Pages(t.Context(), func(l *youtube.PlaylistItemListResponse) error {
				for _, i := range l.Items {
					ids = append(ids, i.ContentDetails.VideoId)
				}
				if len(ids) >= 100 {
					return done
				}
				return nil
			})
		if !errors.Is(err, done) || ids[0] != found.Items[0].Id.VideoId && len(ids) < 100 {
			t.Fatalf("%v, %d uploads", err, len(ids))
		}
		stats, err := s.Videos.BatchGetStats().Id(ids[:50]...).Part("id", "snippet", "statistics", "contentDetails").Do()
		if err != nil || len(stats.Items) != 50 || stats.Items[49].Statistics.ViewCount == 0 {
			t.Fatalf("%v %+v", err, stats)
		}
	})
	t.Run("304", func(t *testing.T) {
		list := func() *youtube.VideosListCall {
			return s.Videos.List([]string{"snippet"}).Chart("mostPopular").RegionCode("GB")
		}
		first, err := list().Do()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := list().IfNoneMatch(first.Etag).Do(); !googleapi.IsNotModified(err) {
			t.Errorf("%v", err)
		}
	})
	t.Run("fields", func(t *testing.T) {
		l, err := s.Videos.List([]string{"snippet", "statistics"}).Chart("mostPopular").Fields("nextPageToken", "items(id,snippet(title))").Do()
		if err != nil || l.Kind != "" || l.NextPageToken == "" || l.Items[0].Snippet.Title == "" || l.Items[0].Snippet.ChannelId != "" || l.Items[0].Statistics != nil {
			t.Errorf("%v %+v", err, l)
		}
	})
	t.Run("errors are its own", func(t *testing.T) {
		_, err := s.Videos.List([]string{"snippet"}).Do()
		var e *googleapi.Error
		if !errors.As(err, &e) || e.Code != 400 || e.Errors[0].Reason != "missingRequiredParameter" {
			t.Errorf("%v", err)
		}
	})
}

// A quota used up in the middle leaves the pages before it delivered.
func TestSDKIsRefused(t *testing.T) {
	sim := youtubesim.New(&youtubesim.Options{Seed: 3, Clock: at(noon).Now, Quota: youtubesim.Quota{youtubesim.Default: 2, youtubesim.SearchList: 5}})
	s := sdk(t, sim)
	for _, c := range []struct {
		name   string
		walk   func(ctx context.Context) (pages int, err error)
		pages  int
		code   int
		reason string
	}{
		{"videos.list", func(ctx context.Context) (n int, err error) {
			err = s.Videos.List([]string{"id"}).Chart("mostPopular").MaxResults(50).Pages(ctx, func(*youtube.VideoListResponse) error { n++; return nil })
			return n, err
		}, 2, 403, "quotaExceeded"},
		{"search.list", func(ctx context.Context) (n int, err error) {
			err = s.Search.List([]string{"id"}).Q("x").Type("video").MaxResults(50).Pages(ctx, func(*youtube.SearchListResponse) error { n++; return nil })
			return n, err
		}, 5, 429, "rateLimitExceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pages, err := c.walk(t.Context())
			var e *googleapi.Error
			if pages != c.pages || !errors.As(err, &e) || e.Code != c.code || e.Errors[0].Reason != c.reason {
				t.Errorf("%d pages, %v", pages, err)
			}
			if n := sim.Counts().Where(youtubesim.Count{Method: c.name}).Total(); n.Units != int64(c.pages) || n.Refused != 1 {
				t.Errorf("%+v", n)
			}
		})
	}
}
