package pages

import (
	"context"
	"sync/atomic"
)

// partKey is the key of what [Whole] watches.
type partKey struct{}

// Whole returns a context for the request of a page, and what tells afterwards whether the
// page could read all that it shows.
func Whole(ctx context.Context) (context.Context, func() bool) {
	part := new(atomic.Bool)
	return context.WithValue(ctx, partKey{}, part), func() bool { return !part.Load() }
}

// partly says that the page of a request says what it could not read.
func partly(ctx context.Context) {
	if part, watched := ctx.Value(partKey{}).(*atomic.Bool); watched {
		part.Store(true)
	}
}
