package storetest

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Promise 9: the size of a pool's data depends on its windows' precision, not on its
// limit, its cost per call or its traffic.
func testSmall(t *testing.T, h Harness) {
	needClock(t, h)
	if h.Size == nil {
		t.Skip("the harness has no Size for this store")
	}
	charges := scaled(1_000, 10_000)
	for _, span := range []struct {
		name string
		time.Duration
	}{
		{"while_all_still_counts", 59 * time.Minute},
		{"when_most_has_left", 10 * time.Hour}, // on the first day
	} {
		t.Run(span.name, func(t *testing.T) {
			sizes := map[int64]int64{}
			for _, cost := range []int64{1, 100} {
				r := newRig(t, h, ring(window.MaxUnits, time.Hour, time.Minute), counter(1<<32, time.Hour), calendar(window.MaxUnits, window.Day, "UTC"))
				var half int64
				for i := range charges {
					r.set(start.Add(time.Duration(i) * span.Duration / time.Duration(charges)))
					r.reserve(r.charge("units", cost))
					if i == charges/2 {
						half = h.Size(t, r.s)
					}
				}
				sizes[cost] = h.Size(t, r.s)
				if whole := sizes[cost]; whole > half+half/10+1024 {
					t.Errorf("%d charges of %d took %d bytes, %d of them %d bytes", charges, cost, whole, charges/2, half)
				}
			}
			if one, hundred := sizes[1], sizes[100]; hundred > one+one/2+1024 {
				t.Errorf("%d charges of 100 took %d bytes, of 1 they took %d", charges, hundred, one)
			}
		})
	}
}
