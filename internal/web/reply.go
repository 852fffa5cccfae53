package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/internal/web/etag"
)

// cacheable is an answer that clients and caches may use for a minute without asking
// again. They must ask for any other answer each time; it is sent only if it changed.
type cacheable struct {
	value any
	since time.Time // when it was fetched
}

const cacheFor = "max-age=60"

// reply sends a value as JSON. It encodes the value first, so that an error leaves no
// half-sent answer.
//
// Only the ETag tells whether an answer changed. Last-Modified cannot: a video that was
// deleted leaves no time behind.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, value any) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	if k, ok := value.(cacheable); ok {
		value = k.value
		h.Set("Cache-Control", cacheFor)
		h.Set("Last-Modified", k.since.UTC().Format(http.TimeFormat))
	}
	if v, ok := value.(*Verdict); ok {
		s.tellLeft(h, v)
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // it is sent as JSON, and nosniff
	if err := e.Encode(value); err != nil {
		h.Del("Last-Modified")
		s.fail(w, r, err)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Cache-Control", "no-store")
	} else if etag.NotModified(w, r, body.Bytes()) {
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	_, _ = w.Write(body.Bytes()) // who asked may have gone
}
