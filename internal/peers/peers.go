// Package peers has two limiters as most programs have them, in the three homes that
// a ledger can have: to be compared with, never to guard anything.
//
//   - The fixed window counts the requests of each window by itself: in Redis it is
//     INCR and EXPIRE. Windows begin at the multiples of their length since 1970.
//   - GCRA, the leaky bucket as one number, fills evenly and takes a burst as large as
//     the limit: in Redis it is what redis_rate does.
package peers

import (
	"time"

	"github.com/headroom-quota/headroom/internal/boundary"
)

// Home keeps limiters, each under a name of its own.
type Home interface {
	Fixed(name string, r boundary.Rate) boundary.Limiter
	GCRA(name string, r boundary.Rate) boundary.Limiter
}

var (
	_ Home = (*Memory)(nil)
	_ Home = (*SQLite)(nil)
	_ Home = (*Redis)(nil)
)

// windowOf is the number of the fixed window that an instant is in.
func windowOf(t time.Time, r boundary.Rate) int64 { return t.UnixMicro() / r.Per.Microseconds() }

// emission is how far apart the requests are that GCRA accepts for ever, in whole
// microseconds, which every home can keep.
func emission(r boundary.Rate) time.Duration {
	return (r.Per / time.Duration(r.Limit)).Truncate(time.Microsecond)
}
