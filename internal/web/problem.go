package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Problem is an error as a client is told of it, in the form of RFC 9457. What it says
// is for the client: nothing of the inside stands in it.
type Problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	Code     string   `json:"code,omitempty"`  // which one it is, for programs
	Known    []string `json:"known,omitempty"` // what there is instead
	*Verdict          // of the ledger, if it has said no

	// RetryAfter is when to come again; zero says nothing.
	RetryAfter time.Duration `json:"-"`
}

// Error implements error.
func (p *Problem) Error() string { return cmp.Or(p.Detail, p.Title, http.StatusText(p.Status)) }

// bad says what is wrong with a request.
func bad(detail string) *Problem { return &Problem{Status: http.StatusBadRequest, Detail: detail} }

// problem is what a client is told of an error. Errors of the inside are not told: they
// may name files and addresses.
func problem(err error) *Problem {
	var p *Problem
	var forgotten *quota.ForgottenError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &forgotten):
		return unavailable("outage", forgotten.Error(), 5*time.Second)
	case errors.Is(err, quota.ErrOutage):
		return unavailable("outage", "the ledger cannot be reached: what is left is unknown", 5*time.Second)
	case errors.Is(err, quota.ErrStaleBook), errors.Is(err, quota.ErrOtherWindows):
		return unavailable("stale_book", "this server's price book is not the ledger's: "+err.Error(), time.Minute)
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable("", "it took too long", 5*time.Second)
	}
	return &Problem{Status: http.StatusInternalServerError, Detail: "the log says what happened"}
}

// unavailable says that it is not for the client to mend.
func unavailable(code, detail string, retryAfter time.Duration) *Problem {
	return &Problem{Status: http.StatusServiceUnavailable, Code: code, Detail: detail, RetryAfter: retryAfter}
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // nobody reads it; to return would be to say 200
	}
	p := *problem(err)
	p.Title = cmp.Or(p.Title, http.StatusText(p.Status))
	if p.Status >= http.StatusInternalServerError {
		s.complaints.add(r, p.Status, err)
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(seconds(p.RetryAfter), 10))
	}
	w.Header().Set("Content-Type", problemJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(&p) //nolint:errchkjson // who asked may have gone
}

// seconds are whole ones, never too few: who comes back too early asks in vain.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
