package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
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
	} else {
		tag := etag(body.Bytes())
		h.Set("ETag", tag)
		if has(r.Header.Values("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	_, _ = w.Write(body.Bytes()) // who asked may have gone
}

// etag names a body.
func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// has reports whether a client has the body that a tag names. No tag of ours has a
// comma in it.
func has(headers []string, tag string) bool {
	for _, list := range headers {
		for t := range strings.SplitSeq(list, ",") {
			t = strings.TrimSpace(t)
			if t == "*" || strings.TrimPrefix(t, "W/") == tag {
				return true
			}
		}
	}
	return false
}
