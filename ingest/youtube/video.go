package youtube

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/pattern"
	sdk "google.golang.org/api/youtube/v3"
)

var (
	videoParts   = []string{"snippet", "contentDetails", "statistics"}
	channelParts = []string{"snippet", "contentDetails"}
)

// videos converts the items of a videos.list, with the counts of its answer.
func videos(items []*sdk.Video, answer *bytes.Buffer) ([]catalog.Video, error) {
	counts, err := statistics(answer)
	if err != nil {
		return nil, err
	}
	all := make([]catalog.Video, 0, len(items))
	for i, item := range items {
		if item == nil || item.Id == "" || item.Snippet == nil {
			continue
		}
		s := item.Snippet
		v := catalog.Video{
			ID: item.Id, ChannelID: s.ChannelId, ChannelTitle: s.ChannelTitle,
			Title: s.Title, Description: s.Description, Tags: s.Tags, Category: s.CategoryId,
			Live: s.LiveBroadcastContent, Language: cmp.Or(s.DefaultLanguage, s.DefaultAudioLanguage), Thumbnail: thumbnail(s.Thumbnails),
			PublishedAt: parseTime(s.PublishedAt), Statistics: counts[i],
		}
		if v.Statistics != nil {
			v.Statistics.VideoID = v.ID
		}
		if item.ContentDetails != nil {
			v.Duration = parseDuration(item.ContentDetails.Duration)
		}
		all = append(all, v)
	}
	return all, nil
}

func channels(items []*sdk.Channel) []catalog.Channel {
	all := make([]catalog.Channel, 0, len(items))
	for _, item := range items {
		if item == nil || item.Id == "" || item.Snippet == nil {
			continue
		}
		s := item.Snippet
		ch := catalog.Channel{
			ID: item.Id, Title: s.Title, Description: s.Description,
			Handle: s.CustomUrl, Country: s.Country, PublishedAt: parseTime(s.PublishedAt),
		}
		if d := item.ContentDetails; d != nil && d.RelatedPlaylists != nil {
			ch.Uploads = d.RelatedPlaylists.Uploads
		}
		all = append(all, ch)
	}
	return all
}

// thumbnail returns the picture that fits a list best.
func thumbnail(t *sdk.ThumbnailDetails) string {
	if t == nil {
		return ""
	}
	for _, one := range []*sdk.Thumbnail{t.Medium, t.High, t.Standard, t.Maxres, t.Default} {
		if one != nil && one.Url != "" {
			return one.Url
		}
	}
	return ""
}

// parseTime parses a time. It returns zero if the text is not a time.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// iso8601 matches a duration. With more digits it could overflow.
var iso8601 = pattern.Of(`^P(?:(\d{1,4})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?$`)

// parseDuration parses a duration such as P1DT2H3M4S. It returns 0 for P0D, and for any other
// text.
func parseDuration(s string) (d time.Duration) {
	const day = 24 * time.Hour
	m := iso8601().FindStringSubmatch(s)
	if m == nil {
		return 0
	}
	for i, unit := range []time.Duration{7 * day, day, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.Atoi(m[1+i]) // a missing part is 0
		d += time.Duration(n) * unit
	}
	return d
}

// Trending fetches a page of the chart of a region. An empty category means all categories
// that have a chart. If the region has no such chart, the chart is empty.
func (c *Client) Trending(ctx context.Context, region, category string, at catalog.Cursor) (*catalog.Page, error) {
	p := &catalog.Page{Cursor: at, Region: region, Chart: true, Category: category}
	ctx, answer := record(ctx)
	call := c.api.Videos.List(videoParts).Chart("mostPopular").RegionCode(region).MaxResults(most).Context(ctx)
	about := "of the chart of " + region
	if category != "" {
		call.VideoCategoryId(category)
		about += ", category " + category
	}
	if at.Token != "" {
		call.PageToken(at.Token)
	}
	list, err := answered(call.Do())
	if err == nil {
		p.Videos, err = videos(list.Items, answer)
	}
	if err != nil {
		failure := failed("videos.list", about, err)
		switch {
		case !failure.noChart():
			return nil, failure
		case at.Begun(): // the chart vanished meanwhile, and the pages so far are not a chart
			failure.Err = ErrPageToken
			return nil, failure
		}
		p.Done = true
		return p, nil
	}
	p.Next, p.Done = list.NextPageToken, list.NextPageToken == ""
	return p, nil
}

// noChart reports whether the upstream has no such chart. One answer is documented, and the
// other was observed. Any other 404 means something else, such as a wrong endpoint.
func (e *Error) noChart() bool {
	return e.Status == http.StatusBadRequest && e.Reason == "videoChartNotFound" ||
		e.Status == http.StatusNotFound && (e.Reason == "notFound" || e.Reason == "videoChartNotFound")
}
