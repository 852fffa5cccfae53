// Package redisclock is how this module's tests and simulations move the clock by
// which a redisstore decides. Outside of the module nobody can: there the clock is
// the server's.
package redisclock

import (
	"sync/atomic"
	"time"
)

var now atomic.Pointer[func() time.Time]

// Set gives stores that are opened from now on a clock of the caller's; nil gives
// them the server's.
func Set(clock func() time.Time) {
	if clock == nil {
		now.Store(nil)
		return
	}
	now.Store(&clock)
}

// Get returns the clock of the caller's, or nil.
func Get() func() time.Time {
	if f := now.Load(); f != nil {
		return *f
	}
	return nil
}
