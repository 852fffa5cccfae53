package storetest

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Promise 12, as far as it is the store's: a block shuts a pool for everybody
// and opens by itself.
func testBlocks(t *testing.T, h Harness) {
	hour := []window.Limit{ring(10, time.Hour, time.Minute)}
	two := map[string][]window.Limit{"searches": hour}
	run(t, h, []timeline{
		{"opens_by_itself", hour, nil, []row{
			{0, reserve(1), "granted 1/10"},
			{0, blockFor(time.Minute, "units"), "ok"},
			{0, reserve(1), "blocked, retry after 1m0s"},
			{0, reserve(0), "blocked, retry after 1m0s"}, // also what costs nothing
			{time.Minute - time.Microsecond, reserve(1), "blocked, retry after 1µs"},
			{time.Minute, reserve(1), "granted 2/10"},
		}},
		{"of_less_than_a_second", hour, map[string][]window.Limit{"tokens": hour}, []row{
			{0, blockFor(200*time.Millisecond, "units"), "ok"},
			{0, reserve(1), "blocked, retry after 200ms"},
			{200*time.Millisecond - time.Microsecond, reserve(1), "blocked, retry after 1µs"},
			{200 * time.Millisecond, reserve(1), "granted 1/10"},
			{300 * time.Millisecond, blockUntil(300*time.Millisecond+time.Microsecond, "units"), "ok"},
			{300 * time.Millisecond, reserve(1), "blocked, retry after 1µs"},
			{300*time.Millisecond + time.Microsecond, reserve(1), "granted 2/10"},
			{time.Second, keyBlocked("a", 2, 5*time.Millisecond), "ok"},
			{time.Second, key("a", 2, 1), "blocked, retry after 5ms"},
			{time.Second + 5*time.Millisecond, key("a", 2, 1), "granted 1/10"},
		}},
		{"until_a_time", hour, nil, []row{
			{30 * time.Second, blockUntil(time.Minute, "units"), "ok"},
			{30 * time.Second, reserve(1), "blocked, retry after 30s"},
			{60 * time.Second, reserve(1), "granted 1/10"},
		}},
		{"the_later_of_two_stands", hour, nil, []row{
			{0, blockFor(time.Minute, "units"), "ok"},
			{0, blockFor(time.Second, "units"), "ok"},
			{0, reserve(1), "blocked, retry after 1m0s"},
			{0, blockUntil(2*time.Minute, "units"), "ok"},
			{0, reserve(1), "blocked, retry after 2m0s"},
			{time.Minute, blockFor(time.Second, "units"), "ok"},
			{time.Minute, reserve(1), "blocked, retry after 1m0s"},
		}},
		{"one_that_is_over_already_shuts_nothing", hour, nil, []row{
			{time.Minute, blockUntil(time.Minute, "units"), "ok"},
			{time.Minute, blockUntil(0, "units"), "ok"},
			{time.Minute, reserve(1), "granted 1/10"},
		}},
		{"open_clears_it", hour, two, []row{
			{0, blockFor(time.Minute, "units", "searches"), "ok"},
			{0, open("units"), "ok"},
			{0, reserve(1), "granted 1/10"},
			{0, reserveOf("searches", 1), "blocked, retry after 1m0s"},
			{0, blockFor(time.Second, "units"), "ok"}, // earlier than the one that was cleared
			{0, reserve(1), "blocked, retry after 1s"},
			{0, open("searches", "units"), "ok"},
			{0, reserveBoth("", 1, 1), "granted 2/10 of units 1h"},
		}},
		{"of_a_pool_that_nobody_has_charged", hour, nil, []row{
			{0, blockFor(time.Minute, "units"), "ok"},
			{0, reserve(1), "blocked, retry after 1m0s"},
			{time.Minute, reserve(1), "granted 1/10"},
		}},
		{"open_where_there_is_none", hour, nil, []row{
			{0, open("units"), "ok"},
			{0, reserve(1), "granted 1/10"},
		}},
		{"settling_and_recording_go_on", hour, nil, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, blockFor(time.Minute, "units"), "ok"},
			{0, settle("a", 2), "back 3"},
			{0, record(4), "ok"},
			{0, looks("units"), "6"},
			{0, reserve(1), "blocked, retry after 1m0s"},
		}},
		{"retry_after_is_the_later_of_block_and_window", hour, nil, []row{
			{0, reserve(10), "granted 10/10"},
			{0, blockFor(time.Minute, "units"), "ok"},
			{0, reserve(1), "refused 10/10, retry after 1h1m0s"},
			{0, blockFor(2*time.Hour, "units"), "ok"},
			{0, reserve(1), "blocked, retry after 2h0m0s"},
		}},
	})
	t.Run("says_why", func(t *testing.T) {
		r := newRig(t, h, hour...)
		blockFor(24*time.Hour, "units")(r)
		if v := r.reserve(r.charge("units", 1)); !v.Blocked || v.Reason != "the upstream said no" {
			t.Errorf("the verdict does not say why: %+v", v)
		}
		page := r.look("units")[0]
		if page.Reason != "the upstream said no" || !page.Known {
			t.Errorf("the page does not say why: %+v", page)
		}
		if h.SetClock != nil && !page.Blocked.Equal(start.Add(24*time.Hour)) {
			t.Errorf("blocked until %s", page.Blocked)
		}
		open("units")(r)
		if page := r.look("units")[0]; !page.Blocked.IsZero() || page.Reason != "" {
			t.Errorf("opened, the page still says: %+v", page)
		}
	})
}
