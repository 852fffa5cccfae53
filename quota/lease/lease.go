// Package lease records who holds a job, so that no two processes run it at once.
// [Files] is for the processes of one machine, and [Shared] for those of many.
//
// A lock alone cannot stop a process that was asleep from going on after another has
// taken its place. So the data behind a lock compares tokens, and refuses a holder whose
// token is not the highest.
package lease

import (
	"context"
	"errors"
)

// ErrHeld says that another process holds the lock.
var ErrHeld = errors.New("another process runs this job")

// Locker keeps a job from being run twice at once, in other processes too.
type Locker interface {
	// Lock takes the lock of a name and does not wait for it. If another process holds
	// it, the error is [ErrHeld] and names the holder.
	Lock(ctx context.Context, name string) (Lock, error)
}

// Lock is a lock that is held.
type Lock interface {
	// Token is higher with each holder; 0 where the lock has none of its own.
	Token() int64
	// Lost is closed when the lock is gone while it should be held; nil is never.
	Lost() <-chan struct{}
	// Unlock gives the lock back.
	Unlock() error
}
