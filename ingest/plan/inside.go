package plan

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// transport calls the simulated upstream without a socket. It asks only for the fields that
// a schedule depends on. With texts, a month of pages would take minutes.
type transport struct{ sim *youtubesim.Sim }

// fieldsByPath are the fields to ask for.
var fieldsByPath = map[string]string{
	"/youtube/v3/videos":               "nextPageToken,items(id,snippet/categoryId)",
	"/youtube/v3/videos:batchGetStats": "items/id",
	"/youtube/v3/channels":             "items(id,snippet/country,contentDetails)",
	"/youtube/v3/playlistItems":        "nextPageToken,items(snippet/publishedAt,contentDetails)",
	"/youtube/v3/search":               "nextPageToken,items(id,snippet/publishedAt)",
}

// chartFields are the fields of a chart. Its ids bypass the SDK, which would spend most of
// the time on them.
const chartFields = "nextPageToken,items/id"

// idsOnly removes the parts with texts from a query.
var idsOnly = strings.NewReplacer("part=snippet&", "part=id&", "part=contentDetails&", "", "part=statistics&", "")

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	fields := fieldsByPath[req.URL.Path]
	ids := idsOf(req.Context())
	asked, u := *req, *req.URL
	if ids != nil {
		fields, u.RawQuery = chartFields, idsOnly.Replace(u.RawQuery)
	}
	u.RawQuery += "&prettyPrint=false&fields=kind," + fields
	asked.URL = &u
	var answer response
	t.sim.ServeHTTP(&answer, &asked)
	if ids != nil && answer.status() == http.StatusOK {
		answer.takeIDs(ids)
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

// Header implements [http.ResponseWriter].
func (r *response) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

// WriteHeader implements [http.ResponseWriter].
func (r *response) WriteHeader(code int) { r.code = code }

// Write implements [http.ResponseWriter].
func (r *response) Write(b []byte) (int, error) { return r.body.Write(b) }

func (r *response) status() int {
	if r.code == 0 {
		return http.StatusOK
	}
	return r.code
}

// takeIDs moves the ids of the items from the response to ids. It needs no decoder: ids and
// tokens of the simulated upstream contain no escapes.
func (r *response) takeIDs(ids *[]string) {
	text := r.body.String()
	_, next, more := strings.Cut(text, `"nextPageToken":"`)
	for _, rest, found := strings.Cut(text, `"id":"`); found; _, rest, found = strings.Cut(rest, `"id":"`) {
		id, _, _ := strings.Cut(rest, `"`)
		*ids = append(*ids, id)
	}
	r.body.Reset()
	r.body.WriteString(`{"kind":"youtube#videoListResponse"`)
	if next, _, _ = strings.Cut(next, `"`); more {
		fmt.Fprintf(&r.body, `,"nextPageToken":"%s"`, next)
	}
	r.body.WriteString("}")
}

type idsKey struct{}

// withIDs makes the transport put the ids of a chart into ids.
func withIDs(ctx context.Context, ids *[]string) context.Context {
	return context.WithValue(ctx, idsKey{}, ids)
}

func idsOf(ctx context.Context) *[]string {
	ids, _ := ctx.Value(idsKey{}).(*[]string)
	return ids
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
