package storetest

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// A counter equals its formula: previous x overlap + current, rounded up.
func testCounter(t *testing.T, h Harness) {
	run(t, h, []timeline{{"several_windows", []window.Limit{counter(100, time.Minute)}, nil, []row{
		{50 * time.Second, reserve(100), "granted 100/100"}, // the load came late in its window
		{60 * time.Second, reserve(1), "refused 100/100, retry after 600ms"},
		{60600 * time.Millisecond, reserve(1), "granted 100/100"},
		{90 * time.Second, reserve(49), "granted 100/100"},
		{120 * time.Second, looks("units"), "50"},
		{120 * time.Second, reserve(50), "granted 100/100"},
		{150 * time.Second, looks("units"), "75"},
		{240 * time.Second, looks("units"), "0"},
	}}})
	// Window 60 s, previous 8, current 3, limit 5. At 1745000145 the current window
	// is 45 s old, so the previous one counts for 8 x 15/60 = 2.
	t.Run("worked_example", func(t *testing.T) {
		needClock(t, h)
		for _, c := range []struct {
			current int64
			want    string
		}{
			{3, "refused 5/5, retry after 7.5s"}, // then 8 x 7.5/60 = 1
			{2, "granted 5/5"},
		} {
			r := newRig(t, h, counter(5, time.Minute))
			r.set(time.Unix(1745000050, 0))
			record(8)(r)
			r.set(time.Unix(1745000110, 0))
			record(c.current)(r)
			r.set(time.Unix(1745000145, 0))
			if used := r.used("units"); used != c.current+2 {
				t.Errorf("the estimate is %d, want %d", used, c.current+2)
			}
			if got := reserve(1)(r); got != c.want {
				t.Errorf("with %d in the current window: %s, want %s", c.current, got, c.want)
			}
		}
	})
}
