package youtubesim_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

func (c *clock) advance(d time.Duration) { c.set(c.Now().Add(d)) }

// noon is of no importance.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(t time.Time) *clock { return &clock{now: t} }

// get calls a simulator without a network in between.
func get(h http.Handler, path string, params url.Values, header ...string) *httptest.ResponseRecorder {
	q := url.Values{"key": {"any"}}
	for name, values := range params {
		q[name] = values
	}
	r := httptest.NewRequest(http.MethodGet, "/youtube/v3/"+path+"?"+q.Encode(), nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// params are pairs of names and values.
func params(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v
}

// list is what lists have in common.
type list struct {
	Kind, Etag, NextPageToken, PrevPageToken, RegionCode string
	PageInfo                                             struct{ TotalResults, ResultsPerPage int }
	Items                                                []struct {
		ID      any
		Snippet struct {
			Title, PublishedAt, ChannelID, Description, LiveBroadcastContent string
		}
		ContentDetails map[string]any
		Statistics     map[string]any
	}
}

func (l list) ids() (ids []string) {
	for _, i := range l.Items {
		switch id := i.ID.(type) {
		case string:
			ids = append(ids, id)
		case map[string]any:
			v, _ := id["videoId"].(string)
			ids = append(ids, v)
		}
	}
	return ids
}

// fetch expects an answer of 200.
func fetch(t *testing.T, h http.Handler, path string, p url.Values) (l list) {
	t.Helper()
	r := get(h, path, p)
	if r.Code != http.StatusOK {
		t.Fatalf("%s %v: %d\n%s", path, p, r.Code, r.Body)
	}
	if err := json.Unmarshal(r.Body.Bytes(), &l); err != nil {
		t.Fatalf("%s %v: %v", path, p, err)
	}
	return l
}

var chart = params("part", "snippet,statistics", "chart", "mostPopular", "regionCode", "DE", "maxResults", "50")

func with(p url.Values, pairs ...string) url.Values {
	all := url.Values{}
	for name, values := range p {
		all[name] = values
	}
	for name, values := range params(pairs...) {
		all[name] = values
	}
	return all
}

func units(s *youtubesim.Sim) int64 { return s.Counts().Total().Units }
