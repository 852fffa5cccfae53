package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Problem is an error for clients, in the form of RFC 9457. It never holds internal errors,
// files or addresses.
type Problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	Code     string   `json:"code,omitempty"`  // for programs
	Known    []string `json:"known,omitempty"` // the valid names
	Index    *int     `json:"index,omitempty"` // of the call, if there were several
	*Verdict          // set if the ledger refused

	// RetryAfter says when to try again; zero sends nothing.
	RetryAfter time.Duration `json:"-"`
}

// Error implements error.
func (p *Problem) Error() string { return cmp.Or(p.Detail, p.Title, http.StatusText(p.Status)) }

// ForPeople returns the problem as a sentence without its full stop.
func (p *Problem) ForPeople() string {
	text := p.Error()
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
}

// badRequest returns the problem of a malformed request.
func badRequest(detail string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Detail: detail}
}

// problem returns the problem for an error. It hides internal errors, which may name files
// and addresses.
func problem(err error) *Problem {
	var p *Problem
	var forgotten *quota.ForgottenError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &forgotten):
		return unavailable("outage", forgotten.Error(), 5*time.Second)
	case errors.Is(err, quota.ErrOutage):
		return unavailable("outage", "the ledger cannot be reached, so the units left are not known", 5*time.Second)
	case errors.Is(err, quota.ErrStaleBook), errors.Is(err, quota.ErrOtherWindows):
		return unavailable("stale_book", "this server's price book does not match the ledger: "+err.Error(), time.Minute)
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable("", "the server took too long", 5*time.Second)
	}
	return &Problem{Status: http.StatusInternalServerError, Detail: "internal error; the server's log has the details"}
}

// unavailable returns a problem that the client cannot fix.
func unavailable(code, detail string, retryAfter time.Duration) *Problem {
	return &Problem{Status: http.StatusServiceUnavailable, Code: code, Detail: detail, RetryAfter: retryAfter}
}

// fail sends an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client hung up; returning would send status 200
	}
	p := s.problem(r, err)
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(seconds(p.RetryAfter), 10))
	}
	s.tellLeft(w.Header(), p.Verdict)
	w.Header().Set("Content-Type", problemJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) //nolint:errchkjson // who asked may have gone
}

// problem returns the problem of a request to send, and logs it if the server is at fault.
func (s *Server) problem(r *http.Request, err error) *Problem {
	p := *problem(err)
	p.Title = cmp.Or(p.Title, http.StatusText(p.Status))
	if p.Status >= http.StatusInternalServerError {
		s.complain(r, p.Status, err)
	}
	return &p
}

// tellLeft adds X-RateLimit-* of a verdict, if the server is told to.
func (s *Server) tellLeft(h http.Header, v *Verdict) {
	if !s.xRateLimit || v == nil || v.Limit == 0 {
		return
	}
	wait := time.Duration(math.Ceil(v.RetryAfter)) * time.Second
	if v.Allowed && v.ResetAt != nil && v.At != nil {
		wait = v.ResetAt.Sub(*v.At)
	}
	h.Set("X-Ratelimit-Limit", strconv.FormatInt(v.Limit, 10))
	h.Set("X-Ratelimit-Remaining", strconv.FormatInt(v.Remaining, 10))
	h.Set("X-Ratelimit-Reset", strconv.FormatInt(max(seconds(wait), 0), 10))
}

// seconds rounds a duration up to whole seconds, so that a retry is never too early.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

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
	s.log.Error("answer a request", "route", r.Pattern, "status", status, "skipped", skipped, "error", err)
}
