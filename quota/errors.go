package quota

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota/book"
)

// Errors of a ledger match these sentinels. Test with errors.Is. The typed errors below
// carry the details.
var (
	// ErrRefused means that the ledger refused the call. Wait for RetryAfter, or stop and
	// resume later.
	ErrRefused = errors.New("refused by the ledger")
	// ErrBlocked means that the upstream or a person shut the pool until a time. A block
	// is a refusal, so the error also matches ErrRefused.
	ErrBlocked = errors.New("the pool is blocked")
	// ErrImpossible means that the units could never be granted. Waiting does not help.
	ErrImpossible = errors.New("impossible")
	// ErrUnpriced means that the price book has no price for the call.
	ErrUnpriced = errors.New("unpriced")
	// ErrOutage means that the ledger is down or has lost data. Whether quota is left is
	// unknown.
	ErrOutage = errors.New("ledger outage")
	// ErrNotAsked, in the error of a store, means that the request was never sent.
	ErrNotAsked = errors.New("it was not asked")
	// ErrStaleBook means that another process uses a price book of a higher revision.
	ErrStaleBook = errors.New("stale price book")
	// ErrBadInput means that the request is invalid. Nothing was changed.
	ErrBadInput = book.ErrBadInput
	// ErrOtherCharges means that the id was used before, with other charges. It matches
	// ErrBadInput, too.
	ErrOtherCharges = BadInput("id of other charges")
	// ErrNoReceipt means that there is no such reservation, or that it is older than
	// ReceiptLife. It matches ErrBadInput, too.
	ErrNoReceipt = BadInput("no receipt")
	// ErrOtherWindows means that two price books of one revision have different windows.
	// It matches ErrBadInput, too. The author of the book must raise its revision.
	ErrOtherWindows = BadInput("other windows under the same revision")
	// ErrUnsent is returned by the function given to [Ledger.Do] if the call was
	// certainly never sent. Its units are released.
	ErrUnsent = errors.New("call was not sent")
)

// RefusedError says why a reservation was refused and when to retry. It matches
// [ErrRefused], and [ErrBlocked] if the pool is shut. BlockedBy says who shut it.
type RefusedError struct{ Verdict }

func (e *RefusedError) Error() string {
	if e.Blocked {
		how := "blocked"
		if by := e.BlockedBy.Words(); by != "" {
			how += " " + by
		}
		if e.Reason != "" {
			how += " (" + e.Reason + ")"
		}
		return fmt.Sprintf("reserve %s: %s until %s; retry after %s", e.Pool, how, e.RetryAt.Format(time.RFC3339), roundUp(e.RetryAfter))
	}
	return fmt.Sprintf("reserve %s: refused: %s; retry after %s at %s", e.Pool, cmp.Or(e.Reason, e.spent()), roundUp(e.RetryAfter), e.RetryAt.Format(time.RFC3339))
}

// spent says what was spent of the limit.
func (e *RefusedError) spent() string {
	if e.Pool.IsMoney() {
		return fmt.Sprintf("%s of %s spent in %s, %s left and %s asked for",
			book.FormatMoney(e.Used), book.FormatMoney(e.Limit), e.Window, book.FormatMoney(e.Remaining), book.FormatMoney(e.Units))
	}
	return fmt.Sprintf("%d of %d units used in %s, %d asked for", e.Used, e.Limit, e.Window, e.Units)
}

func (e *RefusedError) Is(target error) bool {
	return target == ErrRefused || e.Blocked && target == ErrBlocked
}

// roundUp prints a duration in short form, rounded up: 24h1m.
func roundUp(d time.Duration) string {
	unit := time.Second
	if d < 10*time.Second {
		unit = time.Millisecond
	}
	r := d.Round(unit)
	if r < d {
		r += unit
	}
	return strictyaml.Duration(r)
}

// ImpossibleError says that a call costs more than the limit of its pool. It matches
// [ErrImpossible].
type ImpossibleError struct {
	Pool     Pool
	Window   string
	Class    string
	Units    int64
	Limit    int64
	KeptFree bool // only the class keeps so many units free; an ordinary caller could have them
}

func (e *ImpossibleError) Error() string {
	class, remedy := "", "raise the quota in costs.yaml"
	if e.Class != "" {
		class = fmt.Sprintf(" for class %s", e.Class)
	}
	switch {
	case e.KeptFree:
		remedy = "lower keep_free of the class in costs.yaml"
	case e.Pool.Name == "": // a member of a family
		remedy = "raise the limit of the key in costs.yaml, or with ingestor limits set"
	}
	if e.Pool.IsMoney() {
		return fmt.Sprintf("reserve %s: impossible: %s asked for, the limit of %s is %s%s\nAsk for less, as with a lower max_tokens, or raise the budget",
			e.Pool, book.FormatMoney(e.Units), e.Window, book.FormatMoney(e.Limit), class)
	}
	return fmt.Sprintf("reserve %s: impossible: %d units asked for, the limit of %s is %d%s\nAsk for less, or %s",
		e.Pool, e.Units, e.Window, e.Limit, class, remedy)
}

func (e *ImpossibleError) Is(target error) bool { return target == ErrImpossible }

// StaleBookError says that the ledger has seen a newer price book than the caller's. It
// matches [ErrStaleBook].
type StaleBookError struct {
	Op       string // the operation: "reserve youtube/units"; the ledger sets it, not the store
	Pool     Pool
	Revision int64 // the caller's
	Stored   int64
}

func (e *StaleBookError) Error() string {
	where := e.Pool.String()
	switch {
	case strings.HasSuffix(e.Op, " "+where):
		where = e.Op
	case e.Op != "":
		where = e.Op + ": " + where
	}
	return fmt.Sprintf("%s: price book has revision %d, and the ledger has seen revision %d\n"+
		"If this book is the newer one, raise its revision to %d; otherwise load the newer costs.yaml, or stop this process",
		where, e.Revision, e.Stored, e.Stored+1)
}

func (e *StaleBookError) Is(target error) bool { return target == ErrStaleBook }

// UnpricedError says that the price book has no price for a call. It matches
// [ErrUnpriced].
type UnpricedError struct {
	Upstream string
	Method   string // as given by the caller; for HTTP the verb and path
	Hint     string // what to do
}

func (e *UnpricedError) Error() string {
	s := fmt.Sprintf("%s has no price for %.80q", e.Upstream, e.Method)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *UnpricedError) Is(target error) bool { return target == ErrUnpriced }

// OutageError says that the ledger is down or has lost data. It matches [ErrOutage] and
// wraps the store's error.
type OutageError struct {
	Op     string // the operation: "reserve youtube/units"
	Reason string // why the call was not admitted
	Err    error

	journal bool // the journal failed, and not the ledger
}

func (e *OutageError) Error() string {
	s := e.Op + ": ledger outage"
	if e.Reason != "" {
		s += ", " + e.Reason
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *OutageError) Is(target error) bool { return target == ErrOutage }

// Unwrap returns the store's error.
func (e *OutageError) Unwrap() error { return e.Err }

// ForgottenError says that a store has lost what it knew about a pool. The pool's page is
// missing or new although spend must still count, or it is an older copy. The error
// matches [ErrOutage], because what is left of the pool is unknown.
type ForgottenError struct {
	Pool Pool
	Born time.Time // of the lost page; for an older copy, the time of the copy
	Flag string    // for the commands that recover it: see Options.Flag
}

func (e *ForgottenError) Error() string {
	return fmt.Sprintf("the ledger has forgotten what was spent of %s since %s\n"+
		"Look it up in the upstream's console, then run: ingestor quota adjust %s UNITS --reason TEXT%s\n"+
		"If nothing was spent, run: ingestor ledger fresh --reason TEXT%s",
		e.Pool, e.Born.UTC().Format(time.RFC3339), e.Pool, e.Flag, e.Flag)
}

func (e *ForgottenError) Is(target error) bool { return target == ErrOutage }

// BadInput returns an error that matches [ErrBadInput]. The text says what is wrong and
// how to correct it. Stores and wrappers use it.
func BadInput(format string, args ...any) error {
	return book.BadInput(format, args...)
}
