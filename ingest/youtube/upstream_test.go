package youtube_test

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// noon is of no importance.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// secret is in no message; the last test of its kind of failure looks for it.
const secret = "AIzaSyThisIsTheKeyThatNobodyMaySee0123456"

// keyed adds the key, as the metered transport does.
type keyed struct{ base http.RoundTripper }

func (k keyed) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Goog-Api-Key", secret)
	return k.base.RoundTrip(req)
}

// toward sends the requests for the upstream to another server.
type toward struct {
	*url.URL
	base http.RoundTripper
}

func (s toward) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != "youtube.googleapis.com" { // a redirect
		return s.base.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host, req.Host = s.Scheme, s.Host, s.Host
	return s.base.RoundTrip(req)
}

// upstream is a simulator behind a real connection.
type upstream struct {
	*youtube.Client
	sim  *youtubesim.Sim
	http *http.Client
	url  string

	mu  sync.Mutex
	now time.Time
}

func newUpstream(t *testing.T, o youtubesim.Options) *upstream {
	t.Helper()
	u := &upstream{now: noon}
	o.Seed, o.Clock = 7, u.clock
	o.Quota = youtubesim.Quota{youtubesim.Default: 1e6, youtubesim.SearchList: 1e6}
	u.sim = youtubesim.New(&o)
	server := httptest.NewServer(u.sim)
	t.Cleanup(server.Close)
	u.url = server.URL
	u.http = server.Client()
	u.http.Transport = keyed{u.http.Transport}
	u.Client = newClient(t, u.http, server.URL)
	return u
}

func newClient(t *testing.T, h *http.Client, endpoint string) *youtube.Client {
	t.Helper()
	if endpoint != "" {
		to, err := url.Parse(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		moved := *h
		moved.Transport = toward{to, h.Transport}
		h = &moved
	}
	c, err := youtube.New(h, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (u *upstream) clock() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.now
}

func (u *upstream) advance(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now = u.now.Add(d)
}

// calls are how many were charged for a method.
func (u *upstream) calls(method string) int64 {
	return u.sim.Counts().Where(youtubesim.Count{Method: method}).Total().Calls
}

// item is one as the simulator tells it, read without the SDK.
type item struct {
	ID      any
	Snippet struct {
		Title, Description, ChannelTitle, PublishedAt, CategoryID string
		Tags                                                      []string
	}
	ContentDetails struct{ Duration, VideoID, VideoPublishedAt string }
	Statistics     map[string]string
}

func (i *item) id() string {
	switch id := i.ID.(type) {
	case map[string]any:
		return id["videoId"].(string)
	case string:
		if i.ContentDetails.VideoID != "" {
			return i.ContentDetails.VideoID // of a playlist
		}
		return id
	}
	return ""
}

// raw asks the simulator without the SDK, until there is no page more.
func (u *upstream) raw(t *testing.T, path string, pairs ...string) (all []item) {
	t.Helper()
	q := url.Values{}
	if !strings.Contains(path, ":") {
		q.Set("maxResults", "50")
	}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	for {
		resp, err := u.http.Get(u.url + "/youtube/v3/" + path + "?" + q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			NextPageToken string
			Items         []item
			Error         any
		}
		err = json.NewDecoder(resp.Body).Decode(&page)
		resp.Body.Close()
		if err != nil || page.Error != nil {
			t.Fatal(err, page.Error)
		}
		all = append(all, page.Items...)
		if page.NextPageToken == "" {
			return all
		}
		q.Set("pageToken", page.NextPageToken)
	}
}

// fetch fetches the page of a cursor.
type fetch func(at catalog.Cursor) (*catalog.Page, error)

// pass fetches pages to the end of a pass, and moves the cursor as the catalog
// does. It stops after most pages.
func pass(t *testing.T, at *catalog.Cursor, most int, f fetch) (pages []*catalog.Page) {
	t.Helper()
	for len(pages) < most {
		p, err := f(*at)
		if err != nil {
			t.Fatalf("page %d: %v", at.Page, err)
		}
		if p.Done != (p.Next == "") {
			t.Fatalf("page %d: done %t, next %q", at.Page, p.Done, p.Next)
		}
		pages = append(pages, p)
		if !at.Begun() {
			at.Since, at.High = p.Since, time.Time{}
		}
		if p.High.After(at.High) {
			at.High = p.High
		}
		at.Page++
		if at.Token = p.Next; p.Done {
			if at.High.After(at.Mark) {
				at.Mark = at.High
			}
			at.Pass, at.Page, at.Since, at.High = at.Pass+1, 0, time.Time{}, time.Time{}
			return pages
		}
	}
	return pages
}

func videosOf(pages []*catalog.Page) (all []catalog.Video) {
	for _, p := range pages {
		all = append(all, p.Videos...)
	}
	return all
}

func idsOf(videos []catalog.Video) (ids []string) {
	for i := range videos {
		ids = append(ids, videos[i].ID)
	}
	return ids
}

func rawIDs(items []item) (ids []string) {
	for i := range items {
		ids = append(ids, items[i].id())
	}
	return ids
}

func distinct(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// as compares a video with what the simulator says about it, byte for byte.
func as(t *testing.T, v *catalog.Video, want *item) {
	t.Helper()
	title, channel := want.Snippet.Title, want.Snippet.ChannelTitle
	if _, found := want.ID.(map[string]any); found {
		title, channel = html.UnescapeString(title), html.UnescapeString(channel)
	}
	if v.ID != want.id() || v.Title != title || v.ChannelTitle != channel || v.Description != want.Snippet.Description {
		t.Errorf("got %s %q of %q, want %s %q of %q", v.ID, v.Title, v.ChannelTitle, want.id(), title, channel)
	}
	published := want.ContentDetails.VideoPublishedAt
	if published == "" {
		published = want.Snippet.PublishedAt
	}
	if got := v.PublishedAt.Format(time.RFC3339); got != published {
		t.Errorf("%s was published at %s, not %s", v.ID, got, published)
	}
}

var ctx = context.Background()
