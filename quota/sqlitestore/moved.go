package sqlitestore

import (
	"errors"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

// movedError says that the ledger was taken away under a running process. It
// matches [quota.ErrOutage].
type movedError struct{ err *sqlitefile.MovedError }

func (e *movedError) Error() string {
	return "what is spent is unknown: the ledger's file " + e.err.Error()
}

func (e *movedError) Is(target error) bool { return target == quota.ErrOutage }

func (e *movedError) Unwrap() error { return e.err }

// moved turns the error of a ledger that was taken away into an outage.
func moved(err error) error {
	if gone, ok := errors.AsType[*sqlitefile.MovedError](err); ok {
		return &movedError{gone}
	}
	return err
}
