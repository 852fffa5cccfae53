package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Limits of keys that are set while programs run are the same for all processes, in the order
// in which they were set, and outlast a restart.
func testLimits(t *testing.T, h Harness) {
	s := h.Open(t)
	if _, can := s.(quota.LimitKeeper); !can { // the stores' own packages say at compile time that they can
		t.Skip("this store keeps no limits")
	}
	keeper := func(s quota.Store) quota.LimitKeeper {
		k, can := s.(quota.LimitKeeper)
		if !can {
			t.Fatalf("%T keeps no limits", s)
		}
		return k
	}
	must := func(all []quota.KeyLimit, err error) []quota.KeyLimit {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	var set []quota.KeyLimit // as they were set
	change := func(s quota.Store, family, key string, n int64) {
		t.Helper()
		asked := quota.KeyLimit{Family: family, Key: key, Quota: n, By: "Zoë", Reason: fmt.Sprint("change ", len(set))}
		if len(set)%2 == 1 { // it ends, which the next one of the same key does not
			asked.Until = start.Add(time.Duration(len(set)) * 1_000_003 * time.Microsecond)
		}
		if len(set)%3 == 1 { // it has a headroom, which may be 0
			asked.Headroom = new(int64(len(set) % 4))
		}
		got, err := keeper(s).SetLimit(t.Context(), asked)
		if err != nil {
			t.Fatal(err)
		}
		if asked.At, asked.Version = got.At, got.Version; !reflect.DeepEqual(got, asked) || got.At.IsZero() || len(set) > 0 && got.Version <= set[len(set)-1].Version {
			t.Fatalf("set %+v, got %+v", asked, got)
		}
		set = append(set, got)
	}
	// inForce are the last changes of all keys
	inForce := func() (all []quota.KeyLimit) {
		for i, l := range set {
			if !slices.ContainsFunc(set[i+1:], func(c quota.KeyLimit) bool { return c.Family == l.Family && c.Key == l.Key }) {
				all = append(all, l)
			}
		}
		return all
	}
	equal := func(a, b []quota.KeyLimit) bool { return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b)) }
	same := func(what string, s quota.Store) {
		t.Helper()
		k, want := keeper(s), inForce()
		for _, page := range []int{1, 2, 1000} {
			var got []quota.KeyLimit
			for after := int64(0); ; after = got[len(got)-1].Version {
				some := must(k.KeyLimits(t.Context(), after, page))
				if got = append(got, some...); len(some) < page {
					break
				}
			}
			if !equal(got, want) {
				t.Errorf("%s, %d at a time, the limits are %+v, want %+v", what, page, got, want)
			}
		}
		for _, l := range want {
			if got, err := k.KeyLimit(t.Context(), l.Family, l.Key); err != nil || got == nil || !reflect.DeepEqual(*got, l) {
				t.Errorf("%s, the limit of %s is %+v %v, want %+v", what, l.Key, got, err, l)
			}
		}
		for _, most := range []int{1, 3, 1000} {
			last := slices.Clone(set[max(0, len(set)-most):])
			slices.Reverse(last)
			if got := must(k.LimitChanges(t.Context(), most)); !equal(got, last) {
				t.Errorf("%s, the last %d changes are %+v, want %+v", what, most, got, last)
			}
		}
		for _, nobody := range []quota.KeyLimit{{Family: "client", Key: "mallory"}, {Family: "mallory", Key: "acme"}, {Family: "client", Key: "a\xff\x00b"}} {
			if got, err := k.KeyLimit(t.Context(), nobody.Family, nobody.Key); err != nil || got != nil {
				t.Errorf("%s, the limit of %q is %+v %v, want none", what, nobody.Key, got, err)
			}
		}
	}
	same("at first", s)
	change(s, "client", "acme", 5)
	change(s, "client", "Müller & Söhne/7", 1<<53-1)
	change(s, "other", "acme", 7)
	change(s, "client", "acme", 6)
	change(s, "client", "bob", 1)
	change(s, "client", "bob", 0)
	same("after some changes", s)
	if h.Share != nil {
		other := h.Share(t, s)
		same("in another process", other)
		change(other, "client", "acme", 8)
		same("after a change by another process", s)
	}
	if h.Reopen != nil {
		s = h.Reopen(t, s)
		same("after a restart", s)
		change(s, "client", "acme", 9)
		same("after a restart and a change", s)
	}
	for i := range scaled(30, 1000) {
		change(s, "client", fmt.Sprint("key ", i*i%17), int64(i%5))
	}
	same("after many changes", s)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := keeper(s).KeyLimits(gone, 0, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has left: %v", err)
	}
}
