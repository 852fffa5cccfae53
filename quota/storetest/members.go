package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// A family keeps at most one page for each allowed member, and one that new keys share. A
// key that was granted units keeps its place while they count.
func testMembers(t *testing.T, h Harness) {
	if !h.Families {
		t.Skip("the harness says that this store keeps no families")
	}
	ten := []window.Limit{ring(10, 10*time.Second, time.Second)}
	run(t, h, []timeline{
		{"a_refusal_keeps_no_place", ten, nil, []row{
			{0, member("alice", 1, 10), "granted 10/10"},
			{8 * time.Second, member("alice", 1, 1), "refused 10/10, retry after 3s"},
			{11 * time.Second, member("carol", 1, 3), "granted 3/10"},
			{11 * time.Second, member("alice", 1, 1), "granted 1/10, overflow"},
		}},
		{"a_grant_keeps_it", ten, nil, []row{
			{0, member("alice", 1, 9), "granted 9/10"},
			{8 * time.Second, member("alice", 1, 2), "refused 9/10, retry after 3s"},
			{8 * time.Second, member("alice", 1, 1), "granted 10/10"},
			{18 * time.Second, member("carol", 1, 3), "granted 3/10, overflow"},
			{19 * time.Second, member("carol", 1, 3), "granted 3/10"},
		}},
		{"a_bucket_keeps_it_until_it_is_empty", []window.Limit{bucket(10, 5, 10*time.Second)}, nil, []row{
			{0, member("alice", 1, 10), "granted 10/10"},
			{19 * time.Second, member("carol", 1, 3), "granted 3/10, overflow"},
			{19 * time.Second, member("alice", 1, 10), "refused 1/10, retry after 1s"},
			{20 * time.Second, member("carol", 1, 3), "granted 3/10"},
		}},
		{"a_bucket_that_still_counts_outlives_its_place", []window.Limit{bucket(10, 5, 10*time.Second)}, nil, []row{
			{0, member("alice", 1, 5), "granted 5/10"},
			{9 * time.Second, member("alice", 0, 9), "granted 10/10"}, // listed in the price book since
			{21 * time.Second, member("bob", 1, 3), "granted 3/10"},
			{22 * time.Second, member("alice", 0, 7), "granted 10/10"},
		}},
		{"a_page_that_still_counts_outlives_its_place", ten, nil, []row{
			{0, member("alice", 1, 3), "granted 3/10"},
			{8 * time.Second, member("alice", 0, 3), "granted 6/10"}, // listed in the price book since
			{11 * time.Second, member("bob", 1, 3), "granted 3/10"},
			{12 * time.Second, member("alice", 0, 3), "granted 6/10"},
		}},
	})
	t.Run("a_name_is_checked_also_on_a_shared_page", func(t *testing.T) {
		r := newRig(t, h, ten[0])
		for _, key := range []string{"alice", "bob"} {
			r.reserve(r.memberOf(key, 1, 1))
		}
		bad := quota.Request{Charges: []quota.Charge{r.memberOf("a\nb", 1, 1)}}
		if v, err := r.s.Reserve(t.Context(), bad); !errors.Is(err, quota.ErrBadInput) || v.Allowed {
			t.Errorf("a key with a newline: %+v %v, want bad input", v, err)
		}
	})
	for kind, w := range map[string]window.Limit{"ring": ring(10, time.Second, 100*time.Millisecond), "log": exact(10, time.Second)} {
		t.Run("never_more_pages_than_members_"+kind, func(t *testing.T) {
			needClock(t, h)
			if h.Members == nil {
				t.Skip("the harness cannot count the pages of families")
			}
			r := newRig(t, h, w)
			const most = 10
			shared := 0
			for i := range 200 {
				r.setTime(time.Duration(i) * 70 * time.Millisecond)
				if v := r.reserve(r.memberOf(fmt.Sprint("key", i), most, 1)); v.Overflow {
					shared++
				}
				if n := h.Members(t, r.s); n > most+1 {
					t.Fatalf("%d keys have %d pages, want %d at most and one that is shared", i+1, n, most)
				}
			}
			if shared == 0 || shared > 100 {
				t.Errorf("%d of 200 keys shared a page, want some", shared)
			}
		})
	}
}
