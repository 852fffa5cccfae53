// Package peers has the two most common limiters, in the three stores that a ledger can
// use, for comparison only.
//
//   - The fixed window counts the requests of each window separately: INCR and EXPIRE in
//     Redis. Windows start at the multiples of their length since 1970.
//   - GCRA, a leaky bucket in one number, refills evenly and accepts a burst as large as
//     the limit, as redis_rate does in Redis.
package peers

import (
	"time"

	"github.com/headroom-quota/headroom/internal/boundary"
)

// Home keeps limiters, each with its own name.
type Home interface {
	Fixed(name string, r boundary.Rate) boundary.Limiter
	GCRA(name string, r boundary.Rate) boundary.Limiter
}

var (
	_ Home = (*Memory)(nil)
	_ Home = (*SQLite)(nil)
	_ Home = (*Redis)(nil)
)

// windowOf returns the number of the fixed window at a time.
func windowOf(t time.Time, r boundary.Rate) int64 { return t.UnixMicro() / r.Per.Microseconds() }

// emission returns the interval at which GCRA always accepts requests, in whole
// microseconds, which every home can store.
func emission(r boundary.Rate) time.Duration {
	return (r.Per / time.Duration(r.Limit)).Truncate(time.Microsecond)
}
