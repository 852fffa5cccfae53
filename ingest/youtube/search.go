package youtube

import (
	"context"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	sdk "google.golang.org/api/youtube/v3"
)

// Query says what a search looks for.
type Query struct {
	Text   string
	Region string // of the viewers; empty: the upstream chooses
	// Since is the earliest publication. Zero continues at the cursor's Mark, where the
	// last pass ended. A first pass without either fetches only the newest page, and the
	// second continues from there.
	Since time.Time
	// Until is the latest publication. Zero means now. With Until, each pass covers
	// everything from Since to Until, and ignores the Mark.
	Until time.Time
}

// since returns the earliest publication of a pass. Zero sets no limit.
func (q *Query) since(at *catalog.Cursor) time.Time {
	switch {
	case at.Begun():
		return at.Since
	case !q.Since.IsZero() || !q.Until.IsZero():
		return q.Since
	}
	return at.Mark
}

// Search fetches a page of the videos that match, newest first. Each pass begins where the
// last complete pass ended, and includes both ends. So it may pause between two pages for
// any time, and misses nothing. A video that is on two pages was published within the
// second at which they meet.
func (c *Client) Search(ctx context.Context, q Query, at catalog.Cursor) (*catalog.Page, error) {
	about := fmt.Sprintf("for %q", q.Text)
	pl, ok := readPosition(at.Token, q.Until)
	if !ok {
		return nil, &Error{Method: "search.list", About: about, Err: ErrPageToken}
	}
	p := &catalog.Page{Cursor: at, Region: q.Region, Since: q.since(&at)}
	call := c.api.Search.List([]string{"snippet"}).Type("video").Order("date").Q(q.Text).MaxResults(most).Context(ctx)
	if q.Region != "" {
		call.RegionCode(q.Region)
		about += " in " + q.Region
	}
	if !p.Since.IsZero() {
		call.PublishedAfter(stamp(p.Since))
	}
	if !pl.before.IsZero() {
		call.PublishedBefore(stamp(pl.before))
	}
	if pl.token != "" {
		call.PageToken(pl.token)
	}
	list, err := answered(call.Do())
	if err != nil {
		return nil, failed("search.list", about, err)
	}
	var oldest time.Time
	for _, item := range list.Items {
		v, ok := searchResult(item)
		if !ok {
			continue
		}
		p.Videos = append(p.Videos, v)
		if v.PublishedAt.After(p.High) {
			p.High = v.PublishedAt
		}
		if oldest.IsZero() || v.PublishedAt.Before(oldest) {
			oldest = v.PublishedAt
		}
	}
	p.Next = pl.next(list.NextPageToken, oldest)
	if p.Since.IsZero() && q.Until.IsZero() {
		p.Next = "" // the first pass would otherwise fetch everything
	}
	p.Done = p.Next == ""
	return p, nil
}

func searchResult(item *sdk.SearchResult) (v catalog.Video, ok bool) {
	if item == nil || item.Id == nil || item.Id.VideoId == "" || item.Snippet == nil {
		return v, false
	}
	s := item.Snippet
	return catalog.Video{
		ID: item.Id.VideoId, ChannelID: s.ChannelId, ChannelTitle: html.UnescapeString(s.ChannelTitle),
		Title: html.UnescapeString(s.Title), Description: s.Description, Live: s.LiveBroadcastContent,
		Thumbnail: thumbnail(s.Thumbnails), PublishedAt: parseTime(s.PublishedAt), Brief: true,
	}, true
}

// stride is how many pages a search follows the upstream's tokens. They end after about ten
// pages, even if there is more. Before that, the package searches for older videos instead.
const stride = 8

// position is the position of a page in a search. The token of the cursor encodes it.
type position struct {
	before time.Time // the latest publication; zero: now
	page   int       // counted from 1 since before was set
	token  string    // the upstream's
}

func readPosition(token string, until time.Time) (p position, ok bool) {
	if token == "" {
		return position{before: until, page: 1}, true
	}
	v, err := url.ParseQuery(token)
	if err != nil {
		return p, false
	}
	p.before, p.token = parseTime(v.Get("before")), v.Get("token")
	p.page, err = strconv.Atoi(v.Get("page"))
	return p, err == nil && v.Has("before") != p.before.IsZero()
}

// next returns the token of the next page, or "" after the last. Oldest is the publication
// of the oldest video of this page.
func (p position) next(token string, oldest time.Time) string {
	if token == "" {
		return ""
	}
	next := position{before: p.before, page: p.page + 1, token: token}
	// Add a second, so that videos published in the same second are not lost.
	edge := oldest.Add(time.Second)
	if p.page >= stride && !oldest.IsZero() && (p.before.IsZero() || edge.Before(p.before)) {
		next = position{before: edge, page: 1}
	}
	v := url.Values{"page": {strconv.Itoa(next.page)}}
	if !next.before.IsZero() {
		v.Set("before", stamp(next.before))
	}
	if next.token != "" {
		v.Set("token", next.token)
	}
	return v.Encode()
}

// stamp formats a time for the upstream, to the second.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
