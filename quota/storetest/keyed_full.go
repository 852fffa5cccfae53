package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// A keyed pool has at most so many pages, and one that further keys share.
func testFullPool(t *testing.T, h Harness, hundred []window.Limit, tokens map[string][]window.Limit) {
	run(t, h, []timeline{
		{"new_keys_share_one_page", hundred, tokens, []row{
			{0, key("a", 2, 3), "granted 3/10"},
			{0, key("b", 2, 3), "granted 3/10"},
			{0, keyAnd("c", "c", 2, 3, 1), "granted 3/10, overflow"},
			{0, keyAnd("d", "d", 2, 4, 1), "granted 7/10, overflow"},
			{0, key("e", 2, 5), "refused 7/10, retry after 11s, overflow"},
			{0, key("a", 2, 3), "granted 6/10"},
			{0, keyAnd("c", "d", 2, 3, 1), "bad input"}, // though they share a page
			{0, settleTo("c", quota.Units{"tokens": 1, "units": 1}), "back 2"},
			{0, settleTo("d", nil), "back 5"},
			{0, key("e", 2, 9), "granted 10/10, overflow"}, // beside c's 1
		}},
		{"idle_keys_go_first", hundred, tokens, []row{
			{0, keyAnd("a", "a", 2, 3, 1), "granted 3/10"},
			{8 * time.Second, key("b", 2, 3), "granted 3/10"},
			{10 * time.Second, key("c", 2, 3), "granted 3/10, overflow"},
			{12 * time.Second, key("c", 2, 4), "granted 4/10"}, // in the place of a
			{12 * time.Second, key("b", 2, 3), "granted 6/10"},
			{12 * time.Second, key("d", 2, 5), "granted 8/10, overflow"}, // beside c's 3
			{12 * time.Second, settleTo("a", quota.Units{"tokens": 1, "units": 1}), "left 2"},
			{12 * time.Second, keyUsed("a"), "none"},
		}},
		{"a_refusal_keeps_no_place", hundred, tokens, []row{
			{0, key("a", 1, 10), "granted 10/10"},
			{8 * time.Second, key("a", 1, 1), "refused 10/10, retry after 3s"},
			{11 * time.Second, keyAnd("", "b", 1, 1, 101), "impossible, limit 100"},
			{11 * time.Second, key("c", 1, 3), "granted 3/10"},
		}},
		{"settling_up_keeps_it", hundred, tokens, []row{
			{0, keyAnd("a", "a", 1, 3, 1), "granted 3/10"},
			{8 * time.Second, settleTo("a", quota.Units{"tokens": 4, "units": 1}), "charged 1"},
			{12 * time.Second, key("b", 1, 3), "granted 3/10, overflow"},
			{19 * time.Second, key("b", 1, 3), "granted 3/10"},
		}},
		{"a_block_keeps_it", hundred, tokens, []row{
			{0, keyBlocked("a", 1, time.Hour), "ok"},
			{time.Minute, key("b", 1, 3), "granted 3/10, overflow"},
			{time.Minute, key("a", 1, 3), "blocked, retry after 59m0s"},
			{time.Hour, key("b", 1, 3), "granted 3/10"},
		}},
		{"a_blocked_key_keeps_no_idle_ones", hundred, tokens, []row{
			{0, keyBlocked("a", 2, time.Hour), "ok"},
			{time.Second, key("b", 2, 3), "granted 3/10"},
			{20 * time.Second, key("c", 2, 3), "granted 3/10"},
			{40 * time.Second, key("d", 2, 3), "granted 3/10"},
			{40 * time.Second, key("b", 2, 3), "granted 3/10, overflow"},
			{40 * time.Second, key("a", 2, 3), "blocked, retry after 59m20s"},
		}},
		{"a_full_bucket_keeps_no_idle_ones", hundred, map[string][]window.Limit{"tokens": {bucket(10, 1, time.Second)}}, []row{
			{0, key("a", 2, 10), "granted 10/10"},
			{0, key("b", 2, 1), "granted 1/10"},
			{5 * time.Second, key("c", 2, 1), "granted 1/10"},
			{5 * time.Second, key("a", 2, 1), "granted 6/10"},
			{5 * time.Second, key("b", 2, 1), "granted 1/10, overflow"},
		}},
		{"a_place_is_of_one_account", hundred, tokens, []row{
			{0, key("a", 1, 3), "granted 3/10"},
			{0, keyOfStaging("b", 1, 3), "granted 3/10"},
			{0, keyOfStaging("c", 1, 3), "granted 3/10, overflow"},
		}},
		{"a_clock_that_had_been_far_ahead_fills_no_pool", hundred, tokens, []row{
			{far, key("a", 2, 3), "granted 3/10"},
			{far, key("b", 2, 3), "granted 3/10"},
			{0, key("c", 2, 3), "granted 3/10, overflow"},
			{10 * time.Second, key("c", 2, 3), "granted 6/10, overflow"}, // until then theirs may count
			{11 * time.Second, key("c", 2, 4), "granted 4/10"},
			{11 * time.Second, key("d", 2, 4), "granted 4/10"},
			{11 * time.Second, key("a", 2, 4), "granted 7/10, overflow"}, // beside c's 3
		}},
	})
	t.Run("never_more_pages_than_keys", func(t *testing.T) {
		needClock(t, h)
		if h.Members == nil {
			t.Skip("the harness cannot count the pages of keys")
		}
		r := newRig(t, h, hundred...)
		r.pools["tokens"] = []window.Limit{exact(10, time.Second), ring(10, time.Second, 100*time.Millisecond)}
		const most = 10
		for i := range 100 {
			r.setTime(time.Duration(i) * 70 * time.Millisecond)
			r.reserve(r.keyOf(fmt.Sprint("key", i), most, 1), r.charge("units", 0))
			if n := h.Members(t, r.s); n > most+1 {
				t.Fatalf("%d keys have %d pages, want %d at most and one that is shared", i+1, n, most)
			}
		}
	})
}
