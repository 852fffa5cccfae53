package storetest

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Clock is the clock of a harness whose store takes a [quota.Clock]: hand it to
// the store, and its Move to [Harness.SetClock]. It stands still until moved.
type Clock struct{ *quota.SimClock }

// NewClock returns a clock.
func NewClock() Clock { return Clock{quota.NewSimClock(start)} }

// Move is a [Harness.SetClock].
func (c Clock) Move(_ testing.TB, _ quota.Store, now time.Time) { c.Set(now) }
