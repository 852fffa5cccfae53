package pagestore_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// A clock that leaps proves nothing, also if it was last seen at the first instant of
// 1970, which is zero.
func TestALeapIsNoticedFromEveryInstant(t *testing.T) {
	for _, start := range []window.Instant{-1, 0, 1, window.At(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))} {
		var c pagestore.Course
		c.See(start)
		leapt := start.Add(2 * 365 * 24 * time.Hour)
		if proven, _, _ := c.See(leapt); proven > start+1 {
			t.Errorf("from %s to %s: %s is proven", start.Time(), leapt.Time(), proven.Time())
		}
	}
}
