package youtube

import (
	"context"
	"net/http"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Trending fetches a page of what is most popular in a region, of a category or, if
// it is empty, of all that have a chart. A region that has no such chart has an
// empty one.
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
		case at.Begun(): // it is gone from under us, and what there is of it is no chart
			failure.Err = ErrPageToken
			return nil, failure
		}
		p.Done = true
		return p, nil
	}
	p.Next, p.Done = list.NextPageToken, list.NextPageToken == ""
	return p, nil
}

// noChart reports whether the upstream says that there is no such chart, as it is
// documented or as it was seen. Any other 404 is of something else, such as a wrong
// endpoint.
func (e *Error) noChart() bool {
	return e.Status == http.StatusBadRequest && e.Reason == "videoChartNotFound" ||
		e.Status == http.StatusNotFound && (e.Reason == "notFound" || e.Reason == "videoChartNotFound")
}
