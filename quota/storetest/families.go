package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// A family has a page per key, made on first use, and never more pages than its maximum.
func testFamilies(t *testing.T, h Harness) {
	if !h.Families {
		t.Skip("the harness says that this store keeps no families")
	}
	ten := []window.Limit{ring(10, 10*time.Second, time.Second)}
	run(t, h, []timeline{
		{"a_page_per_key", ten, nil, []row{
			{0, member("alice", 10, 3), "granted 3/10"},
			{0, member("bob", 10, 4), "granted 4/10"},
			{0, member("alice", 10, 8), "refused 3/10, retry after 11s"},
			{0, member("alice", 10, 7), "granted 10/10"},
			{11 * time.Second, member("alice", 10, 10), "granted 10/10"},
		}},
		{"limits_of_their_own", ten, nil, []row{
			{0, member("alice", 10, 3), "granted 3/10"},
			{0, limit(5, member("bob", 10, 6)), "impossible, limit 5"},
			{0, limit(50, member("carol", 10, 40)), "granted 40/50"},
		}},
		{"no_id_is_kept", ten, nil, []row{
			{0, memberAs("a", "alice", 10, 3), "granted 3/10"},
			{0, memberAs("a", "alice", 10, 3), "granted 6/10"},
		}},
		{"when_full_new_keys_share_one_page", ten, nil, []row{
			{0, member("alice", 2, 3), "granted 3/10"},
			{0, member("bob", 2, 3), "granted 3/10"},
			{0, member("carol", 2, 3), "granted 3/10, overflow"},
			{0, member("dave", 2, 3), "granted 6/10, overflow"},
			{0, member("erin", 2, 5), "refused 6/10, retry after 11s, overflow"},
			{0, member("alice", 2, 3), "granted 6/10"},
			{0, member("bob", 2, 8), "refused 3/10, retry after 11s"},
		}},
		{"idle_pages_go_first", ten, nil, []row{
			{0, member("alice", 2, 3), "granted 3/10"},
			{8 * time.Second, member("bob", 2, 3), "granted 3/10"},
			{10 * time.Second, member("carol", 2, 3), "granted 3/10, overflow"},
			{12 * time.Second, member("carol", 2, 4), "granted 4/10"}, // alice has nothing left to say
			{12 * time.Second, member("bob", 2, 3), "granted 6/10"},
			{12 * time.Second, member("dave", 2, 5), "granted 8/10, overflow"}, // beside carol's 3
		}},
		{"idle_is_who_was_last_granted_longest_ago", ten, nil, []row{
			{0, member("alice", 2, 3), "granted 3/10"},
			{1 * time.Second, member("bob", 2, 3), "granted 3/10"},
			{8 * time.Second, member("alice", 2, 3), "granted 6/10"},
			{12 * time.Second, member("carol", 2, 3), "granted 3/10"}, // in the place of bob
			{12 * time.Second, member("alice", 2, 4), "granted 7/10"},
			{12 * time.Second, member("bob", 2, 3), "granted 3/10, overflow"},
		}},
		{"limits_of_its_own_forget_nothing", ten, nil, []row{
			{0, member("alice", 1, 3), "granted 3/10"},
			{0, limit(12, member("alice", 0, 3)), "granted 6/12"}, // listed in the price book since
			{0, limit(10, member("alice", 1, 3)), "granted 9/10"}, // and not any more
			{0, member("bob", 1, 3), "granted 3/10, overflow"},
			{11 * time.Second, member("bob", 1, 4), "granted 4/10"},
		}},
		{"a_key_of_the_price_book_takes_no_place", ten, nil, []row{
			{0, member("alice", 0, 3), "granted 3/10"},
			{0, member("bob", 1, 3), "granted 3/10"},
			{0, member("carol", 1, 3), "granted 3/10, overflow"},
			{12 * time.Second, member("carol", 1, 3), "granted 3/10"}, // all were idle
			{12 * time.Second, member("dave", 1, 3), "granted 3/10, overflow"},
		}},
		{"a_clock_that_had_been_far_ahead_fills_no_family", ten, nil, []row{
			{far, member("alice", 2, 3), "granted 3/10"},
			{far, member("bob", 2, 3), "granted 3/10"},
			{0, member("carol", 2, 3), "granted 3/10, overflow"},
			{10 * time.Second, member("carol", 2, 3), "granted 6/10, overflow"}, // until then theirs may count
			{11 * time.Second, member("carol", 2, 4), "granted 4/10"},
			{11 * time.Second, member("dave", 2, 4), "granted 4/10"},
			{11 * time.Second, member("alice", 2, 4), "granted 7/10, overflow"}, // beside carol's 3
		}},
	})
	run(t, h, []timeline{
		{"a_leap_of_the_clock_empties_no_member", []window.Limit{ring(5, time.Hour, time.Minute)}, nil, []row{
			{0, member("alice", 100, 5), "granted 5/5"},
			{3 * time.Hour, member("bob", 100, 1), "granted 1/5"},
			{3*time.Hour + 59*time.Minute, member("bob", 100, 1), "granted 2/5"},
			{time.Minute, member("alice", 100, 1), "refused 5/5, retry after 1h0m0s"},
			{3 * time.Hour, member("bob", 100, 1), "granted 3/5"}, // ahead again
			{2 * time.Minute, member("alice", 100, 1), "refused 5/5, retry after 59m0s"},
		}},
	})
	t.Run("keys_of_any_kind", func(t *testing.T) {
		r := newRig(t, h, ring(10, 24*time.Hour, time.Minute))
		for i, key := range []string{"203.0.113.7", "2001:db8::1", "a:b", "a/b", "a{b}c", `a"b`, "ключ", " ", "a b", strings.Repeat("k", 64)} {
			if got, want := member(key, 100, int64(i+1))(r), fmt.Sprintf("granted %d/10", i+1); got != want {
				t.Errorf("key %q: %s, want %s", key, got, want)
			}
		}
	})
	for kind, window := range map[string]window.Limit{"ring": ring(10, 10*time.Second, time.Second), "counter": counter(10, 10*time.Second)} {
		t.Run("units_go_back_to_their_grant_and_nowhere_else_in_a_"+kind, func(t *testing.T) { testBack(t, h, window) })
	}
	t.Run("many_keys_and_then_ten_times_as_many", func(t *testing.T) {
		r := newRig(t, h, counter(10, 24*time.Hour))
		keys, invented := scaled(300, 1_900), scaled(3_000, 100_000) // more may be spread unevenly
		key := func(i int) string { return fmt.Sprint("key", i) }
		for i := range keys {
			if v := r.reserve(r.memberOf(key(i), keys, 4)); !v.Allowed || v.Overflow || v.Used != 4 {
				t.Fatalf("key %d: %+v", i, v)
			}
		}
		var size int64
		if h.Size != nil {
			size = h.Size(t, r.s)
		}
		var granted int64
		for i := range invented {
			v := r.reserve(r.memberOf(key(keys+i), keys, 4))
			if !v.Overflow {
				t.Fatalf("invented key %d has a page of its own: %+v", i, v)
			}
			if v.Allowed {
				granted += 4
			}
		}
		if granted != 8 {
			t.Errorf("%d units of 10 were granted to %d invented keys by 4, want 8", granted, invented)
		}
		if h.Size != nil {
			if now := h.Size(t, r.s); now > size+1024 {
				t.Errorf("%d keys take %d bytes, %d more invented ones %d", keys, size, invented, now)
			}
		}
		for i := range keys {
			if v := r.reserve(r.memberOf(key(i), keys, 6)); !v.Allowed || v.Overflow || v.Used != 10 {
				t.Fatalf("key %d, afterwards: %+v", i, v)
			}
		}
	})
	t.Run("inventing_keys_gains_nothing", func(t *testing.T) {
		r := newRig(t, h, ring(10, 24*time.Hour, time.Minute))
		const keys = 20
		var granted int64
		for i := range scaled(300, 10_000) {
			v := r.reserve(r.memberOf(fmt.Sprint("key", i), keys, 7))
			if v.Allowed {
				granted++
			}
		}
		if granted != keys+1 { // one each, and one of the page that is shared
			t.Errorf("granted %d times, want %d", granted, keys+1)
		}
	})
}

// testBack gives units of a key back to the grant that took them.
func testBack(t *testing.T, h Harness, w window.Limit) {
	if h.GiveBack != nil {
		t.Skip("a store with blocks gives back what they have left, and tells nobody how")
	}
	r := newRig(t, h, w)
	r.reserve(r.memberOf("alice", 2, 1))
	r.setTime(2 * time.Second)
	v, err := r.ask(quota.Request{ID: "block", Fresh: true, Charges: []quota.Charge{r.memberOf("alice", 2, 4)}})
	if err != nil || !v.Allowed || v.Used != 5 || v.Generation == 0 {
		t.Fatalf("reserve: %+v %v", v, err)
	}
	steps := []struct {
		at                time.Duration
		first             int64 // units that are reserved before
		units, generation int64
		back, used        int64
	}{
		{2 * time.Second, 0, -1, v.Generation + 1, 0, 5}, // of another page
		{2 * time.Second, 0, 1, v.Generation, 0, 5},
		{2 * time.Second, 0, -1, v.Generation, -1, 4},
		{11 * time.Second, 0, -1, v.Generation, -1, 2}, // the unit of the beginning has left a ring
		{30 * time.Second, 3, -1, v.Generation, 0, 3},  // as all have
	}
	if w.Spec.Estimates() {
		steps[3].used = 3
	}
	if h.SetClock == nil {
		steps = steps[:3]
	}
	for i, s := range steps {
		if r.setTime(s.at); s.first > 0 {
			r.reserve(r.memberOf("alice", 2, s.first))
		}
		back, err := r.s.Record(context.Background(), quota.Request{Charges: []quota.Charge{r.memberOf("alice", 2, s.units)}, At: v.At, Generation: s.generation})
		if back["client"] != s.back || errors.Is(err, quota.ErrBadInput) != (s.units > 0) || used(r, "alice") != s.used {
			t.Errorf("step %d: %d units went back (%v), and %d count; want %d and %d", i, back["client"], err, used(r, "alice"), s.back, s.used)
		}
	}
}

// used returns what a key of a family has used.
func used(r *rig, key string) int64 {
	pages, err := r.s.Look(context.Background(), []quota.Charge{r.memberOf(key, 2, 0)})
	if err != nil || len(pages) != 1 {
		r.Fatalf("look: %v %v", pages, err)
	}
	return pages[0].Windows[0].Used
}

// memberOf returns a charge of a key in a family of at most most keys.
func (r *rig) memberOf(key string, most int, units int64) quota.Charge {
	c := r.charge("", units)
	c.Pool = quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: key}
	c.Windows = r.pools["units"]
	c.MaxKeys = most
	return c
}

func member(key string, most int, units int64) action { return memberAs("", key, most, units) }

func memberAs(id, key string, most int, units int64) action {
	return func(r *rig) string {
		return tell(r.ask(quota.Request{ID: id, Charges: []quota.Charge{r.memberOf(key, most, units)}}))
	}
}
