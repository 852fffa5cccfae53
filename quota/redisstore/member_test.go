package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/storetest"
	"github.com/headroom-quota/headroom/quota/window"
)

// client is the charge of a key of a family.
func client(t testing.TB, key string, units, limit int64, most int, specs ...window.Spec) quota.Charge {
	t.Helper()
	c := quota.Charge{Pool: quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: key}, Units: units, Revision: 1, MaxKeys: most}
	for _, spec := range specs {
		normal, err := spec.Normal()
		if err != nil {
			t.Fatal(err)
		}
		c.Windows = append(c.Windows, window.NewLimit(normal, limit))
	}
	return c
}

var (
	perMinute = window.Spec{Per: time.Minute, Algorithm: window.Estimate}
	perHour   = window.Spec{Per: time.Hour, Algorithm: window.Estimate}
	perDay    = window.Spec{Per: 24 * time.Hour, Algorithm: window.Estimate}
)

// movedClock moves the clock of the scripts.
func movedClock(t testing.TB) storetest.Clock {
	clock := storetest.NewClock()
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	return clock
}

// A decision about a known member takes one script, also if it comes a slice or a window
// later, and if it is a refusal.
func TestAKnownMemberTakesOneScript(t *testing.T) {
	server := start(t)
	clock := movedClock(t)
	s := open(t, dial(t, server.Addr), prefix())
	ask := func(units int64, c quota.Charge) quota.Verdict {
		t.Helper()
		c.Units = units
		v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{c}})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, test := range map[string]struct {
		charge quota.Charge
		later  []time.Duration
	}{
		"counter":  {client(t, "a", 1, 10, 100, perMinute), []time.Duration{0, time.Second, 10 * time.Second, 70 * time.Second}},
		"counters": {client(t, "b", 1, 10, 100, perMinute, perHour), []time.Duration{0, time.Second, 10 * time.Minute, 70 * time.Minute}},
		"listed":   {client(t, "c", 1, 10, 0, perMinute), []time.Duration{0, time.Second, 10 * time.Second, 70 * time.Second}},
		"ring":     {client(t, "d", 1, 10, 100, window.Spec{Per: 24 * time.Hour}), []time.Duration{0, time.Second}},
	} {
		ask(1, test.charge)
		for _, later := range test.later {
			clock.Advance(later)
			ask(1, client(t, "another", 1, 1000, 100, perDay)) // from time to time a process asks for the partitions
			for _, units := range []int64{1, 10} {
				run(t, server, "config", "resetstat")
				v := ask(units, test.charge)
				if v.Allowed != (units == 1) || v.Overflow || !v.Allowed && v.RetryAfter <= 0 {
					t.Errorf("%s, %s later: %+v", name, later, v)
				}
				stats, _ := run(t, server, "info", "commandstats").(string)
				if _, stats, _ = strings.Cut(stats, "cmdstat_evalsha:calls="); !strings.HasPrefix(stats, "1,") {
					t.Errorf("%s, %s later: %.20q scripts for %d units, want 1", name, later, stats, units)
				}
			}
		}
	}
}

// The short script and the long one return the same, whichever wrote the page before.
func TestAMemberIsDecidedTheSameEitherWay(t *testing.T) {
	clock := movedClock(t)
	c := dial(t, server.Addr)
	for i, specs := range [][]window.Spec{{perMinute}, {perMinute, perHour}, {{Per: 10 * time.Second, Algorithm: window.Estimate}, perMinute, perHour, {Per: 24 * time.Hour, Algorithm: window.Estimate}}} {
		random := rand.New(rand.NewPCG(3, uint64(i)))
		one, other := prefix(), prefix()
		short, mixed, long := open(t, c, one), open(t, c, one), open(t, c, other)
		mixed.LongWay()
		long.LongWay()
		var granted, refused, shared int
		for range scaled(300, 20_000) {
			clock.Advance(time.Duration(random.IntN(20_000)) * time.Millisecond)
			charge := client(t, fmt.Sprint("key", random.IntN(5)), 1+random.Int64N(6), int64(10+100*i), 3, specs...)
			if random.IntN(10) == 0 {
				charge.MaxKeys = 0
			}
			if random.IntN(100) == 0 {
				charge.Revision = 2 // of a price book that changes nothing of the windows
			}
			r := quota.Request{Charges: []quota.Charge{charge}}
			s := short
			if random.IntN(4) == 0 {
				s = mixed
			}
			v, err := s.Reserve(bg, r)
			w, wrong := long.Reserve(bg, r)
			if (err == nil) != (wrong == nil) || v != w {
				t.Fatalf("%v:\nthe short way %+v, %v\n the long way %+v, %v", charge, v, err, w, wrong)
			}
			switch {
			case v.Overflow:
				shared++
			case v.Allowed:
				granted++
			default:
				refused++
			}
		}
		if granted < 20 || refused < 20 || shared < 2 {
			t.Errorf("%v: %d grants, %d refusals and %d on the shared page are too few to tell", specs, granted, refused, shared)
		}
	}
}

// The members of a large family are spread. Invented keys get the family's places and the
// units of one key, whatever the number of partitions. They take no place from others.
func TestInventedKeysOfManyPartitions(t *testing.T) {
	movedClock(t)
	c, p := dial(t, server.Addr), prefix()
	s := open(t, c, p)
	const most, limit = 3_000, 12
	var mu sync.Mutex
	places, shared := 0, int64(0)
	each(t, 4_500, func(i int) error {
		charge := client(t, fmt.Sprint("key", i), 2, limit, most, perMinute)
		v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{charge}})
		mu.Lock()
		defer mu.Unlock()
		switch {
		case v.Allowed && v.Overflow:
			shared += v.Units
		case v.Allowed:
			places++
		}
		return err
	})
	if places != most || shared != limit {
		t.Errorf("%d places and %d units of the shared pages, want %d and %d", places, shared, most, limit)
	}
	for i := range 3 {
		n, err := c.HGet(bg, fmt.Sprintf("%s{client/default/%d/3}:seats:", p, i), "n").Int()
		if err != nil || n != most/3 {
			t.Errorf("partition %d has %d members, %v; want %d", i, n, err, most/3)
		}
	}
}

// each calls do for 0 to n-1, a few at once.
func each(t testing.TB, n int, do func(i int) error) {
	t.Helper()
	var all sync.WaitGroup
	errs := make([]error, 4)
	for w := range errs {
		all.Go(func() {
			for i := w; i < n && errs[w] == nil; i += len(errs) {
				errs[w] = do(i)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Members are many, so their pages are small, and expire soon after they are idle.
func TestMembersAreSmall(t *testing.T) {
	server := start(t)
	c := dial(t, server.Addr)
	s := open(t, c, "headroom:")
	n := scaled(15_000, 1_000_000)
	memory := func() int {
		t.Helper()
		info, err := c.Info(bg, "memory").Result()
		if err != nil {
			t.Fatal(err)
		}
		_, info, _ = strings.Cut(info, "used_memory:")
		used, err := strconv.Atoi(strings.TrimSpace(info[:strings.IndexByte(info, '\r')]))
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	charge := func(i int) quota.Charge { return client(t, fmt.Sprintf("%032d", i), 1, 100, 2_000_000, perHour) }
	if _, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{charge(n)}}); err != nil { // the scripts take memory, too
		t.Fatal(err)
	}
	before := memory()
	each(t, n, func(i int) error {
		return errOf(s.Reserve(bg, quota.Request{Charges: []quota.Charge{charge(i)}}))
	})
	if took := (memory() - before) / n; took > 256 {
		t.Errorf("a member takes %d B, want at most 256", took)
	} else {
		t.Logf("a member takes %d B", took)
	}
	keys, _, err := c.Scan(bg, 0, "*:page:*", 1000).Result()
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	counts, spare := 2*time.Hour, 3*time.Minute
	for _, key := range keys {
		if left := c.PTTL(bg, key).Val(); left < counts-time.Hour || left > counts+spare {
			t.Fatalf("%s expires in %s, want between a window and a bit more than two", key, left)
		}
	}
}

// A price book with another max_keys spreads members over other partitions. Used units
// stay used, for a process that knew the family and for one that starts then.
func TestAChangeOfMaxKeysKeepsCounts(t *testing.T) {
	for name, spec := range map[string]window.Spec{"small": perHour, "large": {Per: time.Hour, Algorithm: window.Exact}} {
		t.Run(name, func(t *testing.T) {
			clock := movedClock(t)
			c, p := dial(t, server.Addr), prefix()
			s := open(t, c, p)
			reserve := func(s *redisstore.Store, key string, most int, want int64) {
				t.Helper()
				charge := client(t, key, 1, 100, most, spec)
				charge.Revision = int64(most)
				v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{charge}})
				if err != nil || v.Used != want || v.Overflow {
					t.Errorf("%s of %d: %+v, %v; want %d used", key, most, v, err, want)
				}
			}
			keys := []string{"a", "b", "c", "d", "e", "f"}
			for _, key := range keys {
				reserve(s, key, 10, 1)
			}
			clock.Advance(time.Minute)
			for _, key := range keys {
				reserve(s, key, 5_000, 2)
				reserve(open(t, c, p), key, 5_000, 3)
			}
			other := open(t, c, p)
			for _, key := range keys {
				reserve(other, key, 70_000, 4)
				reserve(s, key, 70_000, 5)
			}
		})
	}
}

// The ends of places that have passed are forgotten, also if a family never becomes full.
func TestPlacesOfThePastAreForgotten(t *testing.T) {
	for name, spec := range map[string]window.Spec{"small": perMinute, "large": {Per: time.Minute, Precision: time.Second}} {
		clock := movedClock(t)
		c, p := dial(t, server.Addr), prefix()
		s := open(t, c, p)
		var longest int64
		for i := range 700 {
			clock.Advance(2 * time.Second)
			charge := client(t, fmt.Sprint("key", i), 1, 10, 1000, spec)
			if v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{charge}}); err != nil || !v.Allowed || v.Overflow {
				t.Fatalf("%s, key %d: %+v, %v", name, i, v, err)
			}
			longest = max(longest, c.HLen(bg, p+"{client/default/0/1}:seats:").Val())
		}
		if longest > 310 {
			t.Errorf("%s: the places have %d ends, want a few hundred at most", name, longest)
		}
		if n, err := c.HGet(bg, p+"{client/default/0/1}:seats:", "n").Int(); err != nil || n > 400 {
			t.Errorf("%s: %d members are counted, %v; want those of the last two minutes", name, n, err)
		}
	}
}

// A page and its place last until the end of the slice in which it counts no more, and not
// longer: a slice is a fiftieth of the windows, or less.
func TestAMemberLastsASliceLonger(t *testing.T) {
	for name, spec := range map[string]window.Spec{"small": perHour, "large": {Per: 2 * time.Hour, Precision: time.Minute}} {
		for _, long := range []bool{false, true} {
			clock := movedClock(t)
			c, p := dial(t, server.Addr), prefix()
			s := open(t, c, p)
			if long {
				s.LongWay()
			}
			const most = 2*time.Hour + time.Minute + 2*time.Hour/40
			for i := range 3 { // new, known, and in another slice
				charge := client(t, "a", 1, 100, 100, spec)
				if v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{charge}}); err != nil || !v.Allowed || v.Overflow {
					t.Fatalf("%s: %+v, %v", name, v, err)
				}
				page, seats := p+"{client/default/0/1}:page::key:a", p+"{client/default/0/1}:seats:"
				if left := c.PTTL(bg, page).Val(); left > most || left < time.Hour {
					t.Errorf("%s, call %d: the page is kept for %s, want %s at most", name, i, left, most)
				}
				places := 0
				for field, n := range c.HGetAll(bg, seats).Val() {
					if at, err := strconv.ParseInt(field, 10, 64); err == nil && n != "0" {
						places++
						if left := time.UnixMicro(at).Sub(clock.Now()); left > most {
							t.Errorf("%s, call %d: the place is kept for %s, want %s at most", name, i, left, most)
						}
					}
				}
				if places != 1 {
					t.Errorf("%s, call %d: %d places, want 1", name, i, places)
				}
				clock.Advance(10 * time.Minute)
			}
		}
	}
}
