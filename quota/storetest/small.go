package storetest

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Promise 9: what is kept of a pool depends on its windows' precision, not on
// its limit, its cost per call or its traffic.
func testSmall(t *testing.T, h Harness) {
	needClock(t, h)
	if h.Size == nil {
		t.Skip("the harness cannot tell what this store keeps")
	}
	charges := scaled(1_000, 10_000)
	sizes := map[int64]int64{}
	for _, cost := range []int64{1, 100} {
		r := newRig(t, h, ring(window.MaxUnits, time.Hour, time.Minute), counter(window.MaxUnits, time.Hour), calendar(window.MaxUnits, window.Day, "UTC"))
		var half int64
		for i := range charges {
			// ten hours in all, on the first day: the ring is full early on
			r.set(start.Add(time.Duration(i) * 10 * time.Hour / time.Duration(charges)))
			r.reserve(r.of("units", cost))
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
}
