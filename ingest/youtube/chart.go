package youtube

import (
	"context"
	"net/http"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

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
