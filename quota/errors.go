package quota

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
)

// What can be wrong with a reservation. Test with errors.Is; the typed errors
// below carry the details.
var (
	// ErrRefused: our ledger says no. Wait for RetryAfter, or stop and resume.
	ErrRefused = errors.New("refused by the ledger")
	// ErrBlocked: the pool is shut until a time, because the upstream or a person
	// said no. A block is a refusal too: errors.Is(err, ErrRefused) holds.
	ErrBlocked = errors.New("the pool is blocked")
	// ErrImpossible: the units could never be granted. Waiting does not help.
	ErrImpossible = errors.New("impossible")
	// ErrUnpriced: the price book has no price for the call.
	ErrUnpriced = errors.New("unpriced")
	// ErrOutage: the ledger cannot be reached, or has lost its memory. Whether
	// there is quota left is unknown.
	ErrOutage = errors.New("ledger outage")
	// ErrNotAsked, in the error of a store, says that the question never left.
	ErrNotAsked = errors.New("it was not asked")
	// ErrStaleBook: another process uses a price book of a higher revision.
	ErrStaleBook = errors.New("stale price book")
	// ErrBadInput: the question makes no sense; nothing was changed.
	ErrBadInput = book.ErrBadInput
	// ErrOtherCharges: the id has its receipt, and it says other charges. It is bad
	// input, too.
	ErrOtherCharges = BadInput("id of other charges")
	// ErrNoReceipt: there is no such reservation, or it was made longer ago than
	// ReceiptLife. It is bad input, too.
	ErrNoReceipt = BadInput("no receipt")
	// ErrOtherWindows: two price books of one revision have different windows. It is
	// bad input, too, but that of whoever wrote the book.
	ErrOtherWindows = BadInput("other windows under the same revision")
	// ErrUnsent, returned by the function given to [Ledger.Do], says that the
	// call provably never left: its units are released.
	ErrUnsent = errors.New("call was not sent")
)

// RefusedError says why a reservation was refused and when to come again. It
// matches [ErrRefused], and [ErrBlocked] if the pool is shut: BlockedBy says by whom.
type RefusedError struct{ Verdict }

// Error implements error.
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
	if e.Reason != "" {
		return fmt.Sprintf("reserve %s: refused: %s; retry after %s at %s", e.Pool, e.Reason, roundUp(e.RetryAfter), e.RetryAt.Format(time.RFC3339))
	}
	return fmt.Sprintf("reserve %s: refused: %d of %d units used in %s, %d asked for; retry after %s at %s",
		e.Pool, e.Used, e.Limit, e.Window, e.Units, roundUp(e.RetryAfter), e.RetryAt.Format(time.RFC3339))
}

// Is matches the sentinels.
func (e *RefusedError) Is(target error) bool {
	return target == ErrRefused || e.Blocked && target == ErrBlocked
}

// roundUp makes a duration short to read without making it too early: 24h1m.
func roundUp(d time.Duration) string {
	unit := time.Second
	if d < 10*time.Second {
		unit = time.Millisecond
	}
	r := d.Round(unit)
	if r < d {
		r += unit
	}
	s := r.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// ImpossibleError says that a call costs more than its pool ever admits. It
// matches [ErrImpossible].
type ImpossibleError struct {
	Pool     Pool
	Window   string
	Class    string
	Units    int64
	Limit    int64
	KeptFree bool // an ordinary caller may ask for as much: it is what the class keeps free
}

// Error implements error.
func (e *ImpossibleError) Error() string {
	class, remedy := "", "raise the quota"
	if e.Class != "" {
		class = fmt.Sprintf(" for class %s", e.Class)
	}
	if e.KeptFree {
		remedy = "lower keep_free of the class"
	}
	return fmt.Sprintf("reserve %s: impossible: %d units asked for, the limit of %s is %d%s\nAsk for less, or %s in costs.yaml",
		e.Pool, e.Units, e.Window, e.Limit, class, remedy)
}

// Is matches the sentinel.
func (e *ImpossibleError) Is(target error) bool { return target == ErrImpossible }

// StaleBookError says that the store's pages were laid out by a newer price
// book than the caller's. It matches [ErrStaleBook].
type StaleBookError struct {
	Op       string // what was asked: "reserve youtube/units"; a store leaves it to the ledger
	Pool     Pool
	Revision int64 // the caller's
	Stored   int64
}

// Error implements error.
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

// Is matches the sentinel.
func (e *StaleBookError) Is(target error) bool { return target == ErrStaleBook }

// UnpricedError says that the price book does not know a call. It matches
// [ErrUnpriced].
type UnpricedError struct {
	Upstream string
	Method   string // as it was asked for; for HTTP the verb and path
	Hint     string // what to do
}

// Error implements error.
func (e *UnpricedError) Error() string {
	s := fmt.Sprintf("%s has no price for %.80q", e.Upstream, e.Method)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Is matches the sentinel.
func (e *UnpricedError) Is(target error) bool { return target == ErrUnpriced }

// OutageError says that the ledger cannot be reached or has lost its memory. It
// matches [ErrOutage] and wraps the store's error.
type OutageError struct {
	Op     string // what was asked: "reserve youtube/units"
	Reason string // why the call was not admitted
	Err    error
}

// Error implements error.
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

// Is matches the sentinel.
func (e *OutageError) Is(target error) bool { return target == ErrOutage }

// Unwrap returns the store's error.
func (e *OutageError) Unwrap() error { return e.Err }

// badInputError is a question that makes no sense.
type badInputError struct{ text string }

func (e *badInputError) Error() string        { return e.text }
func (e *badInputError) Is(target error) bool { return target == ErrBadInput }

// ForgottenError says that a store has lost its memory of a pool: the page that it
// had is gone or reborn while its windows cannot have run out, or is as it was some
// time ago. It matches [ErrOutage]: what is left is unknown, not everything.
type ForgottenError struct {
	Pool Pool
	Born time.Time // of the page that is gone; or until when the one that is there knows what was spent
}

// Error implements error.
func (e *ForgottenError) Error() string {
	return fmt.Sprintf("the ledger has forgotten what was spent of %s since %s\n"+
		"Look it up in the upstream's console, then run: ingestor quota adjust %s UNITS --reason TEXT\n"+
		"If nothing was spent, run: ingestor ledger fresh --reason TEXT",
		e.Pool, e.Born.UTC().Format(time.RFC3339), e.Pool)
}

// Is matches the sentinel.
func (e *ForgottenError) Is(target error) bool { return target == ErrOutage }

// BadInput returns an error that matches [ErrBadInput], for stores: what is wrong,
// and what to do about it.
func BadInput(format string, args ...any) error {
	return &badInputError{fmt.Sprintf(format, args...)}
}
