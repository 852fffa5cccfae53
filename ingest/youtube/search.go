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

// Query is what a search looks for.
type Query struct {
	Text   string
	Region string // whose viewers; empty is the upstream's choice
	// Since is from when on; zero goes on where the last pass had got, the cursor's
	// Mark. A first pass that is told neither fetches the newest page, and that is
	// where the second begins.
	Since time.Time
	// Until is the last moment; zero is now. A search that has one does not go on
	// anywhere: each pass is of all from Since to Until.
	Until time.Time
}

// since is where a pass begins; zero is at the beginning of time.
func (q *Query) since(at *catalog.Cursor) time.Time {
	switch {
	case at.Begun():
		return at.Since
	case !q.Since.IsZero() || !q.Until.IsZero():
		return q.Since
	}
	return at.Mark
}

// Search fetches a page of the videos that match, the newest first. Each pass
// begins where the last complete one had got, both ends included, so it may stop
// for any time between two pages and misses nothing; what is on two pages was
// published in the very second.
func (c *Client) Search(ctx context.Context, q Query, at catalog.Cursor) (*catalog.Page, error) {
	about := fmt.Sprintf("for %q", q.Text)
	pl, ok := readPlace(at.Token, q.Until)
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
		v, ok := found(item)
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
		p.Next = "" // the first pass: there is no end to what is older
	}
	p.Done = p.Next == ""
	return p, nil
}

// found is a video as a search shows it.
func found(item *sdk.SearchResult) (v catalog.Video, ok bool) {
	if item == nil || item.Id == nil || item.Id.VideoId == "" || item.Snippet == nil {
		return v, false
	}
	s := item.Snippet
	return catalog.Video{
		ID: item.Id.VideoId, ChannelID: s.ChannelId, ChannelTitle: html.UnescapeString(s.ChannelTitle),
		Title: html.UnescapeString(s.Title), Description: s.Description, Live: s.LiveBroadcastContent,
		Thumbnail: thumbnail(s.Thumbnails), PublishedAt: moment(s.PublishedAt), Brief: true,
	}, true
}

// stride is how many pages a search goes by the upstream's tokens. It would end
// after about ten, and not say that there is more; before that we ask for what is
// older in its stead.
const stride = 8

// place is where in a search a page is, as the token of the cursor has it.
type place struct {
	before time.Time // only what was published until then; zero is now
	page   int       // since before was set, from 1
	token  string    // the upstream's
}

func readPlace(token string, until time.Time) (p place, ok bool) {
	if token == "" {
		return place{before: until, page: 1}, true
	}
	v, err := url.ParseQuery(token)
	if err != nil {
		return p, false
	}
	p.before, p.token = moment(v.Get("before")), v.Get("token")
	p.page, err = strconv.Atoi(v.Get("page"))
	return p, err == nil && v.Has("before") != p.before.IsZero()
}

// next returns the token of the page after this one, whose oldest video is given;
// empty if this was the last.
func (p place) next(token string, oldest time.Time) string {
	if token == "" {
		return ""
	}
	next := place{before: p.before, page: p.page + 1, token: token}
	// A second more, lest anything published in the same one is left out.
	edge := oldest.Add(time.Second)
	if p.page >= stride && !oldest.IsZero() && (p.before.IsZero() || edge.Before(p.before)) {
		next = place{before: edge, page: 1}
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

// stamp is a time as the upstream takes it: to the second.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
