package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/internal/web/etag"
)

// kept is an answer that a client, or a cache on the way, may use for a minute without
// asking again. Every other one is to be asked for each time, and is not sent again if
// it is still the same.
type kept struct {
	value any
	since time.Time // when it was fetched
}

const keptFor = "max-age=60"

// reply writes a value as JSON. It is encoded before the first byte of it leaves, so
// that an error is never half an answer.
//
// Whether it is still the same is told by its ETag alone: a video that has been
// deleted since leaves no time behind by which Last-Modified could tell.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, value any) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	if k, ok := value.(kept); ok {
		value = k.value
		h.Set("Cache-Control", keptFor)
		h.Set("Last-Modified", k.since.UTC().Format(http.TimeFormat))
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
