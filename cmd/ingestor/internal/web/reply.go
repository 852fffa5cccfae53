package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
)

// encode returns a value as the body of an answer.
func encode(value any) ([]byte, error) {
	body := bytes.NewBuffer(make([]byte, 0, 1<<10))
	e := json.NewEncoder(body)
	e.SetEscapeHTML(false) // it is sent as JSON, and nosniff
	err := e.Encode(value)
	return body.Bytes(), err
}

// answerOf returns a value as an answer in JSON to a GET request. Clients must ask each time,
// because a cache of theirs does not learn that a video was deleted. It is sent only if it
// changed.
//
// Only the ETag tells whether an answer changed. Last-Modified cannot: a video that was
// deleted leaves no time behind.
func answerOf(value any) (*kept.Answer, error) {
	header := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-cache"}}
	var until time.Time
	if l, ok := value.(lasting); ok {
		if value, until = l.value, l.until; until.IsZero() {
			until = never
		}
		if !l.since.IsZero() {
			header.Set("Last-Modified", l.since.UTC().Format(http.TimeFormat))
		}
	}
	body, err := encode(value)
	if err != nil {
		return nil, err
	}
	a := kept.New(header, body)
	a.Until = until
	return a, nil
}

// never is when an answer ends that only the catalog changes.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// reply sends a value as JSON. It encodes the value first, so that an error leaves no
// half-sent answer.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, value any) {
	if v, ok := value.(*problem.Verdict); ok {
		s.tellLeft(w.Header(), v)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		a, err := answerOf(value)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		a.Send(w, r)
		return
	}
	body, err := encode(value)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // who asked may have gone
}
