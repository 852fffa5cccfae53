// Package problem has the errors for clients, in the form of RFC 9457. Server, proxy and agents
// answer with them.
package problem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
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

func (p *Problem) Error() string { return cmp.Or(p.Detail, p.Title, http.StatusText(p.Status)) }

// ForPeople returns the problem as a sentence without its full stop.
func (p *Problem) ForPeople() string {
	text := p.Error()
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
}

// BadRequest returns the problem of a malformed request.
func BadRequest(detail string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Detail: detail}
}

// From returns the problem for an error. It hides internal errors, which may name files
// and addresses.
func From(err error) *Problem {
	var p *Problem
	var forgotten *quota.ForgottenError
	_, moved := errors.AsType[*sqlitefile.MovedError](err) // the ledger's file was taken away
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &forgotten):
		return Unavailable("outage", forgotten.Error(), 5*time.Second)
	case moved:
		return Unavailable("outage", "the file of the ledger was deleted, or another one took its place, while this server used it\nStop every program that uses it, and start them again", 5*time.Second)
	case errors.Is(err, quota.ErrOutage):
		return Unavailable("outage", "the ledger cannot be reached, so the units left are not known", 5*time.Second)
	case errors.Is(err, quota.ErrStaleBook), errors.Is(err, quota.ErrOtherWindows):
		return Unavailable("stale_book", "this server's price book does not match the ledger: "+err.Error(), time.Minute)
	case errors.Is(err, context.DeadlineExceeded):
		return Unavailable("", "the server took too long", 5*time.Second)
	}
	return &Problem{Status: http.StatusInternalServerError, Detail: "internal error; the server's log has the details"}
}

// Unavailable returns a problem that the client cannot fix.
func Unavailable(code, detail string, retryAfter time.Duration) *Problem {
	return &Problem{Status: http.StatusServiceUnavailable, Code: code, Detail: detail, RetryAfter: retryAfter}
}

// Seconds rounds a duration up to whole seconds, so that a retry is never too early.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Verdict is a [quota.Verdict] for JSON: the ledger's answer to a reservation. Pool and
// window are those that decided.
type Verdict struct {
	Allowed    bool             `json:"allowed"`
	ID         string           `json:"id"`
	Token      string           `json:"token,omitempty"` // for settle and release; missing if the grant cannot be settled
	Charges    map[string]int64 `json:"charges,omitempty"`
	Bill       *int64           `json:"bill,omitempty"` // in millionths of a dollar
	Pool       string           `json:"pool"`
	Window     string           `json:"window"`
	Units      int64            `json:"units"`
	Used       int64            `json:"used"`
	Limit      int64            `json:"limit"`
	Remaining  int64            `json:"remaining"`
	RetryAfter float64          `json:"retry_after"` // seconds
	RetryAt    *time.Time       `json:"retry_at"`
	ResetAt    *time.Time       `json:"reset_at"`
	At         *time.Time       `json:"at"`
	Place      int              `json:"place,omitempty"`
	Repeat     bool             `json:"repeat"`
	Blocked    bool             `json:"blocked"`
	BlockedBy  quota.Blocker    `json:"blocked_by,omitempty"`
	Reason     string           `json:"reason"`
	Impossible bool             `json:"impossible"`
	Overflow   bool             `json:"overflow"`
	Rebased    bool             `json:"rebased"`
	Outage     bool             `json:"outage"`
}

// VerdictOf returns a verdict for JSON.
func VerdictOf(v *quota.Verdict) *Verdict {
	shown := &Verdict{
		Allowed: v.Allowed, ID: OwnID(v.ID), Window: v.Window, Units: v.Units, Used: v.Used, Limit: v.Limit, Remaining: v.Remaining,
		RetryAfter: v.RetryAfter.Seconds(), RetryAt: view.Instant(v.RetryAt), ResetAt: view.Instant(v.ResetAt), At: view.Instant(v.At),
		Place: v.Place, Repeat: v.Repeat, Blocked: v.Blocked, BlockedBy: v.BlockedBy, Reason: v.Reason, Impossible: v.Impossible, Overflow: v.Overflow, Rebased: v.Rebased, Outage: v.Outage,
	}
	if v.Pool != (quota.Pool{}) { // an admitted call without a price has no pool
		shown.Pool = v.Pool.String()
	}
	return shown
}

// OwnID returns the id of a call without its owner.
func OwnID(id string) string {
	_, own := quota.SplitID(id)
	return own
}

// BadInput returns the problem of a request that is well-formed but wrong.
func BadInput(format string, args ...any) *Problem {
	return &Problem{Status: http.StatusUnprocessableEntity, Code: "bad_input", Detail: fmt.Sprintf(format, args...)}
}

// quotaExceeded is a problem type of the IANA registry.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// OfLedger returns the problem for an error of the ledger, or the error itself.
func OfLedger(book *quota.Book, err error) error {
	var refused *quota.RefusedError
	var impossible *quota.ImpossibleError
	var unpriced *quota.UnpricedError
	p := &Problem{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	switch {
	case errors.As(err, &refused):
		p.Status, p.Code, p.Type = http.StatusTooManyRequests, "refused", quotaExceeded
		if refused.Blocked {
			p.Code = "blocked"
		}
		p.RetryAfter, p.Verdict = max(refused.RetryAfter, time.Second), VerdictOf(&refused.Verdict)
	case errors.As(err, &impossible):
		p.Code = "impossible"
		p.Verdict = VerdictOf(&quota.Verdict{
			Pool: impossible.Pool, Window: impossible.Window, Units: impossible.Units, Limit: impossible.Limit, Impossible: true,
		})
	case errors.As(err, &unpriced):
		p.Code, p.Known = "unpriced", slices.Sorted(maps.Keys(book.Upstreams[unpriced.Upstream].Methods))
	case errors.Is(err, quota.ErrOtherCharges):
		p.Status, p.Code = http.StatusConflict, "other_charges"
	case errors.Is(err, quota.ErrNoReceipt):
		p.Status, p.Code = http.StatusGone, "no_receipt"
	case errors.Is(err, quota.ErrOtherWindows):
		return err // it matches ErrBadInput, but is not the caller's fault
	case errors.Is(err, quota.ErrBadInput):
		p.Code = "bad_input"
	case errors.Is(err, quota.ErrNoLimits):
		p.Status = http.StatusNotImplemented
	default:
		return err
	}
	return p
}

// Of returns the problem for an error of the ledger, or any other. It hides internal errors, which
// may name files and addresses.
func Of(book *quota.Book, err error) *Problem { return From(OfLedger(book, err)) }
