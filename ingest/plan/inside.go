package plan

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/headroom-quota/headroom/internal/youtubesim"
)

// inside is the way to the simulated upstream without a socket. It asks for no more
// than a schedule goes by: with texts a month of pages would take minutes.
type inside struct{ sim *youtubesim.Sim }

// needed are the fields that are asked for, by path.
var needed = map[string]string{
	"/youtube/v3/videos":               "nextPageToken,items(id,snippet/categoryId)",
	"/youtube/v3/videos:batchGetStats": "items/id",
	"/youtube/v3/channels":             "items(id,snippet/country,contentDetails)",
	"/youtube/v3/playlistItems":        "nextPageToken,items(snippet/publishedAt,contentDetails)",
	"/youtube/v3/search":               "nextPageToken,items(id,snippet/publishedAt)",
}

// chartFields are those of a chart. The SDK would spend most of the time with its
// ids: they go around it.
const chartFields = "nextPageToken,items/id"

// idsOnly takes the parts out of a question that have texts.
var idsOnly = strings.NewReplacer("part=snippet&", "part=id&", "part=contentDetails&", "", "part=statistics&", "")

// RoundTrip implements [http.RoundTripper].
func (in inside) RoundTrip(req *http.Request) (*http.Response, error) {
	fields := needed[req.URL.Path]
	ids := idsOf(req.Context())
	asked, u := *req, *req.URL
	if ids != nil {
		fields, u.RawQuery = chartFields, idsOnly.Replace(u.RawQuery)
	}
	u.RawQuery += "&prettyPrint=false&fields=kind," + fields
	asked.URL = &u
	var answer response
	in.sim.ServeHTTP(&answer, &asked)
	if ids != nil && answer.status() == http.StatusOK {
		answer.takeIDs(ids)
	}
	return &http.Response{
		Status: http.StatusText(answer.status()), StatusCode: answer.status(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.Header(), Body: io.NopCloser(&answer.body), ContentLength: int64(answer.body.Len()), Request: req,
	}, nil
}

// response is an [http.ResponseWriter] that keeps what is written.
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

// takeIDs takes the items out of an answer. It is read without a decoder: ids and
// tokens of the simulated upstream have nothing in them that is escaped.
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

// withIDs has the ids of a chart put into ids.
func withIDs(ctx context.Context, ids *[]string) context.Context {
	return context.WithValue(ctx, idsKey{}, ids)
}

func idsOf(ctx context.Context) *[]string {
	ids, _ := ctx.Value(idsKey{}).(*[]string)
	return ids
}

type failingKey struct{}

// withFailing has the upstream fail.
func withFailing(ctx context.Context) context.Context {
	return context.WithValue(ctx, failingKey{}, true)
}

// failing is the fault of calls that are to fail.
var failing = youtubesim.Fault{
	Match: func(r *http.Request) bool { return r.Context().Value(failingKey{}) != nil },
	Do:    youtubesim.Answer, Status: http.StatusServiceUnavailable,
}
