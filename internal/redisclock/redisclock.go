// Package redisclock lets this module's tests and simulations move the clock of a
// redisstore. Other modules cannot: there the clock is always the server's.
package redisclock

import (
	"sync/atomic"
	"time"
)

var now atomic.Pointer[func() time.Time]

// Set sets the clock of stores that are opened from now on. Nil means the server's.
func Set(clock func() time.Time) {
	if clock == nil {
		now.Store(nil)
		return
	}
	now.Store(&clock)
}

// Get returns the clock that was set, or nil.
func Get() func() time.Time {
	if f := now.Load(); f != nil {
		return *f
	}
	return nil
}
