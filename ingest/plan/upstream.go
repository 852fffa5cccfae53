package plan

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
)

// Work names a unit of work of a job.
type Work struct{ Job, Work string }

// Record describes earlier runs of a unit of work.
type Record struct {
	Pages   int              // of a typical pass; 0 if unknown
	Units   int64            // that the last run of a typical pass spent
	Money   map[string]int64 // of budgets that a typical run spent, in millionths
	Failing bool             // it failed in its last runs
}

// rehearsed is the upstream of a plan. The real client makes all calls. Passes get as many
// pages as their record says.
type rehearsed struct {
	client  *youtube.Client
	sim     *youtubesim.Sim
	records map[Work]Record
}

var _ ingest.Upstream = (*rehearsed)(nil)

// extraPage is the token of a page that the record has and the simulated upstream lacks.
const extraPage = "beyond"

// fetchPage fetches the next page of a pass with the length of its record.
func (u *rehearsed) fetchPage(ctx context.Context, cur catalog.Cursor, fetch func(context.Context, catalog.Cursor) (*catalog.Page, error)) (*catalog.Page, error) {
	record := u.records[Work{cur.Job, cur.Work}]
	if record.Failing {
		ctx = withFailing(ctx)
	}
	asked := cur
	if !u.issued(cur.Token) { // fetch the first page, which costs the same
		asked.Token = ""
	}
	p, err := fetch(ctx, asked)
	switch {
	case err != nil:
		return nil, err
	case record.Pages == 0:
	case cur.Page+1 >= int64(record.Pages):
		p.Next, p.Done = "", true
	case p.Next == "":
		p.Next, p.Done = extraPage, false
	}
	return p, nil
}

// issued reports whether the token of a cursor comes from the simulated upstream. Tokens in
// a recorded cursor come from the real one. Some cursors hold their token as a parameter.
func (u *rehearsed) issued(token string) bool {
	if v, err := url.ParseQuery(token); err == nil && (v.Has("token") || v.Has("before")) {
		token = v.Get("token")
	}
	return token == "" || u.sim.Knows(token)
}

func (u *rehearsed) Trending(ctx context.Context, region, category string, cur catalog.Cursor) (*catalog.Page, error) {
	return u.fetchPage(ctx, cur, func(ctx context.Context, cur catalog.Cursor) (*catalog.Page, error) {
		var videos []catalog.Video
		p, err := u.client.Trending(withVideos(ctx, &videos), region, category, cur)
		if err == nil {
			p.Videos = videos
		}
		return p, err
	})
}

// counted returns videos with empty statistics and nothing else.
func counted(ids []string) []catalog.Video {
	all, statistics := make([]catalog.Video, len(ids)), make([]catalog.Statistics, len(ids))
	for i, id := range ids {
		statistics[i].VideoID = id
		all[i] = catalog.Video{ID: id, Statistics: &statistics[i]}
	}
	return all
}

func (u *rehearsed) Search(ctx context.Context, q youtube.Query, cur catalog.Cursor) (*catalog.Page, error) {
	return u.fetchPage(ctx, cur, func(ctx context.Context, cur catalog.Cursor) (*catalog.Page, error) {
		return u.client.Search(ctx, q, cur)
	})
}

// Uploads implements [ingest.Upstream]. It replaces a channel that the simulated upstream
// does not know by another one.
func (u *rehearsed) Uploads(ctx context.Context, channel string, cur catalog.Cursor) (*catalog.Page, error) {
	if !u.sim.Knows(channel) {
		channel = u.sim.StandIn(channel)
	}
	return u.fetchPage(ctx, cur, func(ctx context.Context, cur catalog.Cursor) (*catalog.Page, error) {
		return u.client.Uploads(ctx, channel, cur)
	})
}

func (u *rehearsed) Statistics(ctx context.Context, ids []string) (*catalog.Page, error) {
	p, err := u.client.Statistics(ctx, ids)
	if err == nil {
		for _, id := range u.foreign(p, ids) {
			p.Statistics = append(p.Statistics, catalog.Statistics{VideoID: id})
		}
	}
	return p, err
}

func (u *rehearsed) Videos(ctx context.Context, ids []string) (*catalog.Page, error) {
	p, err := u.client.Videos(ctx, ids)
	if err == nil {
		all := ids[:0:0]
		for i := range p.Videos {
			all = append(all, p.Videos[i].ID)
		}
		p.Videos = counted(append(all, u.foreign(p, ids)...))
	}
	return p, err
}

func (u *rehearsed) Channels(ctx context.Context, ids []string) (*catalog.Page, error) {
	p, err := u.client.Channels(ctx, ids)
	if err == nil {
		for _, id := range u.foreign(p, ids) {
			p.Channels = append(p.Channels, catalog.Channel{ID: id})
		}
	}
	return p, err
}

// foreign returns the ids of the real upstream, and removes them from the page's Gone. The
// simulated upstream cannot know them, and a plan assumes that they still exist.
func (u *rehearsed) foreign(p *catalog.Page, ids []string) []string {
	p.Gone = slices.DeleteFunc(p.Gone, func(id string) bool { return !u.sim.Knows(id) })
	var all []string
	for _, id := range ids {
		if !u.sim.Knows(id) {
			all = append(all, id)
		}
	}
	return all
}

// transport calls the simulated upstream without a socket. It asks only for the fields that
// a schedule depends on. With texts, a month of pages would take minutes.
type transport struct {
	sim   *youtubesim.Sim
	clock quota.Clock

	// The pages of the charts of an hour, by query. They do not change within it, and a job that is due
	// each few minutes asks for them again and again.
	hour  time.Time
	pages map[string]chartPage
}

// chartPage is an answer. No one may change its videos.
type chartPage struct {
	videos []catalog.Video
	body   string
}

var fieldsByPath = map[string]string{
	"/youtube/v3/videos":               "nextPageToken,items(id,snippet/categoryId)",
	"/youtube/v3/videos:batchGetStats": "items/id",
	"/youtube/v3/channels":             "items(id,snippet/country,contentDetails)",
	"/youtube/v3/playlistItems":        "nextPageToken,items(snippet/publishedAt,contentDetails)",
	"/youtube/v3/search":               "nextPageToken,items(id,snippet/publishedAt)",
}

// chartFields are the fields of a chart. Its videos bypass the SDK, which would spend most of
// the time on them.
const chartFields = "nextPageToken,items/id"

// idsOnly removes the parts with texts from a query.
var idsOnly = strings.NewReplacer("part=snippet&", "part=id&", "part=contentDetails&", "", "part=statistics&", "")

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	fields := fieldsByPath[req.URL.Path]
	videos := videosOf(req.Context())
	asked, u := *req, *req.URL
	if videos != nil {
		fields, u.RawQuery = chartFields, idsOnly.Replace(u.RawQuery)
		if hour := t.clock.Now().Truncate(time.Hour); !hour.Equal(t.hour) {
			t.hour, t.pages = hour, map[string]chartPage{}
		}
	}
	query := u.RawQuery
	page, known := t.pages[query]
	if known = known && videos != nil; known {
		u.RawQuery = "" // it is charged, and then rejected as invalid
	}
	u.RawQuery += "&prettyPrint=false&fields=kind," + fields
	asked.URL = &u
	var answer response
	t.sim.ServeHTTP(&answer, &asked)
	switch status := answer.status(); {
	case known && status == http.StatusBadRequest:
		*videos, answer.code = page.videos, http.StatusOK
		answer.body.Reset()
		answer.body.WriteString(page.body)
	case videos != nil && status == http.StatusOK:
		*videos = counted(answer.takeIDs())
		t.pages[query] = chartPage{*videos, answer.body.String()}
	}
	return &http.Response{
		Status: http.StatusText(answer.status()), StatusCode: answer.status(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.Header(), Body: io.NopCloser(&answer.body), ContentLength: int64(answer.body.Len()), Request: req,
	}, nil
}

// response is an [http.ResponseWriter] that keeps the response.
type response struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *response) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *response) WriteHeader(code int)        { r.code = code }
func (r *response) Write(b []byte) (int, error) { return r.body.Write(b) }

func (r *response) status() int { return cmp.Or(r.code, http.StatusOK) }

// takeIDs takes the ids of the items out of the response. It needs no decoder: ids and
// tokens of the simulated upstream contain no escapes.
func (r *response) takeIDs() (ids []string) {
	text := r.body.String()
	_, next, more := strings.Cut(text, `"nextPageToken":"`)
	for _, rest, found := strings.Cut(text, `"id":"`); found; _, rest, found = strings.Cut(rest, `"id":"`) {
		id, _, _ := strings.Cut(rest, `"`)
		ids = append(ids, id)
	}
	r.body.Reset()
	r.body.WriteString(`{"kind":"youtube#videoListResponse"`)
	if next, _, _ = strings.Cut(next, `"`); more {
		fmt.Fprintf(&r.body, `,"nextPageToken":"%s"`, next)
	}
	r.body.WriteString("}")
	return ids
}

type videosKey struct{}

// withVideos makes the transport put the videos of a chart into videos.
func withVideos(ctx context.Context, videos *[]catalog.Video) context.Context {
	return context.WithValue(ctx, videosKey{}, videos)
}

func videosOf(ctx context.Context) *[]catalog.Video {
	videos, _ := ctx.Value(videosKey{}).(*[]catalog.Video)
	return videos
}

type failingKey struct{}

// withFailing makes calls fail.
func withFailing(ctx context.Context) context.Context {
	return context.WithValue(ctx, failingKey{}, true)
}

// failing is the fault of calls with such a context.
var failing = youtubesim.Fault{
	Match: func(r *http.Request) bool { return r.Context().Value(failingKey{}) != nil },
	Do:    youtubesim.Answer, Status: http.StatusServiceUnavailable,
}
