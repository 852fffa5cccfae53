package storetest

import (
	"math"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Promise 5: a call that could never be granted fails at once, and the error says so.
func testImpossible(t *testing.T, h Harness) {
	run(t, h, []timeline{
		{"whatever_is_used", []window.Limit{ring(10, time.Hour, time.Minute)}, nil, []row{
			{0, reserve(11), "impossible, limit 10"},
			{0, reserve(10), "granted 10/10"},
			{0, reserve(11), "impossible, limit 10"},
			{0, reserve(math.MaxInt32), "impossible, limit 10"},
			{0, reserve(window.MaxUnits), "impossible, limit 10"},
		}},
		{"by_the_smallest_window", []window.Limit{ring(100, time.Hour, time.Minute), exact(10, time.Minute)}, nil, []row{
			{0, decided(reserve(11)), "impossible, limit 10 of 1m log"},
			{0, decided(reserve(101)), "impossible, limit 100 of 1h"},
		}},
		{"also_when_blocked", []window.Limit{ring(10, time.Hour, time.Minute)}, nil, []row{
			{0, blockFor(time.Minute, "units"), "ok"},
			{0, reserve(11), "impossible, limit 10"},
		}},
		{"a_limit_of_nothing", []window.Limit{ring(0, time.Hour, time.Minute)}, nil, []row{
			{0, reserve(1), "impossible, limit 0"},
			{0, reserve(0), "granted 0/0"},
		}},
	})
	for kind, w := range everyKind(10) {
		t.Run("in_a_"+kind, func(t *testing.T) {
			r := newRig(t, h, w)
			v := r.reserve(r.charge("units", 11))
			if v.Allowed || !v.Impossible || v.Units != 11 || v.Limit != 10 || v.Pool != r.charge("units", 0).Pool || v.Window != w.Name {
				t.Errorf("11 units of 10 are not impossible: %+v", v)
			}
			if v := r.reserve(r.charge("units", 10)); !v.Allowed {
				t.Errorf("10 units of 10 are refused: %+v", v)
			}
		})
	}
}
