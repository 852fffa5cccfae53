package web

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// Verdict is a [quota.Verdict] for JSON: the ledger's answer to a reservation. Pool and
// window are those that decided.
type Verdict struct {
	Allowed    bool             `json:"allowed"`
	ID         string           `json:"id"`
	Token      string           `json:"token,omitempty"` // for settle and release; missing if the grant cannot be settled
	Charges    map[string]int64 `json:"charges,omitempty"`
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
	Repeat     bool             `json:"repeat"`
	Blocked    bool             `json:"blocked"`
	BlockedBy  quota.Blocker    `json:"blocked_by,omitempty"`
	Reason     string           `json:"reason"`
	Impossible bool             `json:"impossible"`
	Overflow   bool             `json:"overflow"`
	Rebased    bool             `json:"rebased"`
	Outage     bool             `json:"outage"`
}

// grantOf returns the verdict of a grant.
func grantOf(granted *quota.Reservation) *Verdict {
	v := verdictOf(&granted.Verdict)
	v.Charges = granted.Charges()
	v.Token = receipt(granted, v.Charges)
	return v
}

func verdictOf(v *quota.Verdict) *Verdict {
	shown := &Verdict{
		Allowed: v.Allowed, ID: ownID(v.ID), Window: v.Window, Units: v.Units, Used: v.Used, Limit: v.Limit, Remaining: v.Remaining,
		RetryAfter: v.RetryAfter.Seconds(), RetryAt: view.Instant(v.RetryAt), ResetAt: view.Instant(v.ResetAt), At: view.Instant(v.At),
		Repeat: v.Repeat, Blocked: v.Blocked, BlockedBy: v.BlockedBy, Reason: v.Reason, Impossible: v.Impossible, Overflow: v.Overflow, Rebased: v.Rebased, Outage: v.Outage,
	}
	if v.Pool != (quota.Pool{}) { // an admitted call without a price has no pool
		shown.Pool = v.Pool.String()
	}
	return shown
}

// ownID returns the id of a call without its owner.
func ownID(id string) string {
	_, own := quota.SplitID(id)
	return own
}

// settlement is a [quota.Settlement] for JSON.
type settlement struct {
	ID      string `json:"id"`
	Back    int64  `json:"back"`
	Left    int64  `json:"left"`
	Charged int64  `json:"charged"`
	Repeat  bool   `json:"repeat"` // it was settled before, with this result
}

func settlementOf(t *quota.Token, s quota.Settlement) settlement {
	return settlement{ownID(t.ID), s.Back, s.Left, s.Charged, s.Repeat}
}

// badInput returns the problem of a request that is well-formed but wrong.
func badInput(format string, args ...any) *Problem {
	return &Problem{Status: http.StatusUnprocessableEntity, Code: "bad_input", Detail: fmt.Sprintf(format, args...)}
}

// quotaExceeded is a problem type of the IANA registry.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// ledgerProblem returns the problem for an error of the ledger, or the error itself.
func ledgerProblem(book *quota.Book, err error) error {
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
		p.RetryAfter, p.Verdict = max(refused.RetryAfter, time.Second), verdictOf(&refused.Verdict)
	case errors.As(err, &impossible):
		p.Code = "impossible"
		p.Verdict = verdictOf(&quota.Verdict{
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

// ProblemOf returns the problem for an error of the ledger. It hides internal errors, which
// may name files and addresses.
func ProblemOf(book *quota.Book, err error) *Problem { return problem(ledgerProblem(book, err)) }
