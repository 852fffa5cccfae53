package web

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
)

// fail sends an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client hung up; returning would send status 200
	}
	p := s.problem(r, err)
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(problem.Seconds(p.RetryAfter), 10))
	}
	s.tellLeft(w.Header(), p.Verdict)
	w.Header().Set("Content-Type", problemJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) //nolint:errchkjson // who asked may have gone
}

// problem returns the problem of a request to send, and logs it if the server is at fault.
func (s *Server) problem(r *http.Request, err error) *problem.Problem {
	p := *problem.From(err)
	p.Title = cmp.Or(p.Title, http.StatusText(p.Status))
	if p.Status >= http.StatusInternalServerError {
		s.complain(r, p.Status, err)
	}
	return &p
}

// tellLeft adds X-RateLimit-* of a verdict, if the server is told to.
func (s *Server) tellLeft(h http.Header, v *problem.Verdict) {
	if !s.o.XRateLimit || v == nil || v.Limit == 0 {
		return
	}
	wait := time.Duration(math.Ceil(v.RetryAfter)) * time.Second
	if v.Allowed && v.ResetAt != nil && v.At != nil {
		wait = v.ResetAt.Sub(*v.At)
	}
	h.Set("X-Ratelimit-Limit", strconv.FormatInt(v.Limit, 10))
	h.Set("X-Ratelimit-Remaining", strconv.FormatInt(v.Remaining, 10))
	h.Set("X-Ratelimit-Reset", strconv.FormatInt(max(problem.Seconds(wait), 0), 10))
}

// complain logs a request that failed. While the ledger or the catalog is down, it logs each
// route once a minute.
func (s *Server) complain(r *http.Request, status int, err error) {
	skipped := 0
	if status == http.StatusServiceUnavailable {
		var due bool
		if due, skipped = s.complaints.Due(r.Pattern); !due {
			return
		}
	}
	s.o.Log.Error("answer a request", "route", r.Pattern, "status", status, "skipped", skipped, "error", err)
}
