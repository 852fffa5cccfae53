package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// grants reserves one unit of a key until it is refused, or the book is stale.
func grants(t *testing.T, s *redisstore.Store, c quota.Charge, most int) (n int) {
	t.Helper()
	for range most {
		v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{c}})
		switch {
		case errors.Is(err, quota.ErrStaleBook), err == nil && !v.Allowed:
			return n
		case err != nil || v.Overflow:
			t.Fatalf("%s: %+v, %v", c.Pool, v, err)
		}
		n++
	}
	return n
}

// While processes reload, those with the old and the new max_keys count each key together.
func TestBooksWithOtherMaxKeysCountTogether(t *testing.T) {
	const limit = 6
	for name, spec := range map[string]window.Spec{"small": perHour, "large": {Per: time.Hour, Algorithm: window.Exact}} {
		t.Run(name, func(t *testing.T) {
			clock := movedClock(t)
			c, p := dial(t, server.Addr), prefix()
			before, after := open(t, c, p), open(t, c, p)
			charge := func(key string, revision int64) quota.Charge {
				charge := client(t, key, 1, limit, map[int64]int{1: 100, 2: 5_000, 3: 20_000}[revision], spec)
				charge.Revision = revision
				return charge
			}
			for i := range 10 {
				grants(t, before, charge(fmt.Sprint("known", i), 1), 1)
			}
			clock.Advance(2 * time.Minute)
			grants(t, before, charge("known0", 1), 1)
			grants(t, after, charge("other", 2), 1)
			if n, err := c.HGet(bg, p+"{client/default}:partitions", "now").Int(); err != nil || n != 5 {
				t.Fatalf("%d partitions, %v; want those of the higher revision", n, err)
			}
			for i := range 10 {
				for key, used := range map[string]int{fmt.Sprint("known", i): 1, fmt.Sprint("new", i): 0} {
					if key == "known0" {
						used = 2
					}
					n := grants(t, before, charge(key, 1), 1) // for a new key, this is where the process learns it
					n += grants(t, after, charge(key, 2), 2)
					n += grants(t, before, charge(key, 1), 9)
					n += grants(t, after, charge(key, 2), 9)
					if n != limit-used {
						t.Errorf("%s: %d more grants, want %d", key, n, limit-used)
					}
				}
			}
			// a third number has to wait: the pages of the first one still count
			clock.Advance(2 * time.Minute)
			third := open(t, c, p)
			for i := range 10 {
				if n := grants(t, third, charge(fmt.Sprint("known", i), 3), 9); n != 0 {
					t.Errorf("known%d: %d grants beyond the limit after a second change", i, n)
				}
			}
			if n := c.HGet(bg, p+"{client/default}:partitions", "now").Val(); n != "5" {
				t.Errorf("%s partitions after a second change, want 5 for now", n)
			}
		})
	}
}

// A process that dies while it changes the partitions leaves the change to the next one. The
// mark of a change that never was stops nobody.
func TestAnUnfinishedChangeOfPartitionsIsFinished(t *testing.T) {
	clock := movedClock(t)
	c, p := dial(t, server.Addr), prefix()
	keys := []string{"a", "b", "c", "d", "e", "f"}
	reserve := func(s *redisstore.Store, key string, want int64) {
		t.Helper()
		v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{client(t, key, 1, 100, 100, perHour)}})
		if err != nil || v.Used != want {
			t.Errorf("%s: %+v, %v; want %d used", key, v, err, want)
		}
	}
	s := open(t, c, p)
	for _, key := range keys {
		reserve(s, key, 1)
	}
	family, seats := p+"{client/default}:partitions", p+"{client/default/0/1}:seats:"
	c.HSet(bg, seats, "moved", 1)
	reserve(s, "new", 1)
	if c.HExists(bg, seats, "moved").Val() {
		t.Error("the mark of no change stays")
	}
	c.HSet(bg, family, "next", 5)
	c.HSet(bg, seats, "moved", 1)
	clock.Advance(time.Second)
	reserve(s, "new2", 1)
	reserve(open(t, c, p), "new2", 2)
	if got := c.HGetAll(bg, family).Val(); got["now"] != "5" || got["was"] != "1" || got["next"] != "" {
		t.Errorf("the partitions are noted as %v", got)
	}
	for _, key := range keys {
		reserve(s, key, 2)
	}
	// and back again: the partition that is used again has its marks removed
	at, err := c.HGet(bg, family, "at").Int64()
	if err != nil {
		t.Fatal(err)
	}
	c.HSet(bg, family, "at", at-(100*time.Hour).Microseconds()) // no page of one partition counts any more
	clock.Advance(2 * time.Minute)
	again := client(t, "again", 1, 100, 100, perHour)
	again.Revision = 2
	back := open(t, c, p)
	if v, err := back.Reserve(bg, quota.Request{Charges: []quota.Charge{again}}); err != nil || v.Used != 1 {
		t.Errorf("after the change back: %+v, %v", v, err)
	}
	if got := c.HGetAll(bg, family).Val(); got["now"] != "1" || c.HExists(bg, seats, "moved").Val() {
		t.Errorf("the partitions are noted as %v", got)
	}
	for _, key := range keys {
		reserve(s, key, 3)
	}
}

// All partitions together grant no more to new keys than the limit of one key. A call that
// does not fit the part of a partition waits for a place.
func TestNewKeysOfAFullFamilyShareOneLimit(t *testing.T) {
	for _, c := range []struct{ limit, units, want int64 }{{2, 1, 2}, {2, 2, 0}, {7, 2, 6}, {7, 1, 7}, {9, 3, 9}} {
		for _, long := range []bool{false, true} {
			clock := movedClock(t)
			r, p := dial(t, server.Addr), prefix()
			s := open(t, r, p)
			if long {
				s.LongWay()
			}
			const most = 3_000
			charge := func(i int, units int64) quota.Charge {
				return client(t, fmt.Sprint("key", i), units, c.limit, most, perMinute)
			}
			ends := clock.Now().Add(90 * time.Second).UnixMicro() // of all places
			for i := range 3 {
				r.HSet(bg, fmt.Sprintf("%s{client/default/%d/3}:seats:", p, i), "n", most/3, "next", ends, ends, most/3)
			}
			shared := int64(0)
			var refused quota.Verdict
			for i := range 60 {
				v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{charge(i, c.units)}})
				switch {
				case err != nil || !v.Overflow || v.Impossible || !v.Allowed && v.RetryAfter <= 0:
					t.Fatalf("key %d: %+v, %v", i, v, err)
				case v.Allowed:
					shared += v.Units
				case v.Limit < c.units:
					refused = v
				}
			}
			if shared != c.want {
				t.Errorf("of %d units, calls of %d were granted %d, want %d", c.limit, c.units, shared, c.want)
			}
			if refused.Limit < c.units && !refused.At.IsZero() {
				clock.Advance(refused.RetryAfter)
				again := charge(0, c.units)
				again.Pool = refused.Pool
				if v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{again}}); err != nil || !v.Allowed || v.Overflow {
					t.Errorf("when a place is free: %+v, %v", v, err)
				}
			}
		}
	}
}

// What new keys have been granted together counts on after the family has got other
// partitions, fewer or more.
func TestNewKeysShareOneLimitOverAChangeOfPartitions(t *testing.T) {
	const limit = 12
	for _, parts := range [][2]int{{3, 1}, {1, 3}, {3, 2}, {2, 3}} {
		for name, spec := range map[string]window.Spec{"small": perHour, "large": {Per: time.Hour, Algorithm: window.Exact}} {
			t.Run(fmt.Sprint(parts[0], "_to_", parts[1], "_", name), func(t *testing.T) {
				clock := movedClock(t)
				r, p := dial(t, server.Addr), prefix()
				ask := func(s *redisstore.Store, revision int64, units int64, i int) quota.Verdict {
					t.Helper()
					c := client(t, fmt.Sprint("key", revision, "/", i), units, limit, 1000*parts[revision-1], spec)
					c.Revision = revision
					v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{c}})
					if err != nil || !v.Overflow {
						t.Fatalf("key %d of revision %d: %+v, %v, want it on a shared page", i, revision, v, err)
					}
					return v
				}
				for revision := range int64(2) { // no partition has a free place, before and after
					ends := clock.Now().Add(170 * time.Minute).UnixMicro()
					for i := range parts[revision] {
						r.HSet(bg, fmt.Sprintf("%s{client/default/%d/%d}:seats:", p, i, parts[revision]), "n", 1000, "next", ends, ends, 1000)
					}
				}
				before := open(t, r, p)
				granted := 0
				for i := range 40 {
					if ask(before, 1, 1, i).Allowed {
						granted++
					}
				}
				if granted != limit {
					t.Fatalf("%d of %d units were granted at first", granted, limit)
				}
				clock.Advance(2 * time.Minute)
				after, another := open(t, r, p), open(t, r, p)
				for i := range 40 {
					for _, s := range []*redisstore.Store{after, another, before} {
						if v := ask(s, 2, 1, i); v.Allowed {
							t.Errorf("key %d was granted %d units beyond the limit: %+v", i, v.Units, v)
						}
					}
				}
				clock.Advance(2 * time.Hour)
				if v := ask(after, 2, 1, 0); !v.Allowed {
					t.Errorf("after the window: %+v, want a grant", v)
				}
			})
		}
	}
}
