package quota_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

const limitBook = `
revision: 1
families:
  client: {quota: 2, windows: [{per: 1h}], max_keys: 1, keys: {acme: 3}}
  fixed: {windows: [{per: 1h, quota: 5}]}
`

// limitLedger is a ledger with a clock of its own, so that limits are read when a test
// wants it.
type limitLedger struct {
	*quota.Ledger
	*testing.T
	clock *limitClock
}

type limitClock struct {
	quota.SystemClock
	ahead atomic.Int64
}

func (c *limitClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func newLimitLedger(t *testing.T, s quota.Store) *limitLedger {
	t.Helper()
	b, err := book.Parse("test", []byte(limitBook), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &limitLedger{T: t, clock: &limitClock{}}
	if l.Ledger, err = quota.New(b, s, &quota.Options{Clock: l.clock}); err != nil {
		t.Fatal(err)
	}
	return l
}

// granted counts the grants of a key, until it is refused.
func (l *limitLedger) granted(key string) (n int) {
	l.Helper()
	for {
		_, err := l.Reserve(l.Context(), quota.Call{Family: "client", Key: key})
		switch {
		case errors.Is(err, quota.ErrRefused):
			return n
		case err != nil:
			l.Fatal(err)
		}
		n++
	}
}

func (l *limitLedger) set(key string, n int64) quota.KeyLimit {
	l.Helper()
	set, err := l.Admin().SetLimit(l.Context(), quota.KeyLimit{Family: "client", Key: key, Quota: n, By: "Zoë", Reason: "a larger plan"})
	if err != nil {
		l.Fatal(err)
	}
	return set
}

// stores open a store on the same data at each call.
func limitStores(t *testing.T) map[string]func() quota.Store {
	path := filepath.Join(t.TempDir(), "ledger.db")
	var server *redistest.Server
	memory := memstore.New(nil)
	return map[string]func() quota.Store{
		"sqlite": func() quota.Store {
			s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Families: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
		"memory": func() quota.Store { return memory },
		"redis": func() quota.Store {
			if server == nil {
				var err error
				if server, err = redistest.Start(t.TempDir(), "--save", "", "--appendonly", "no"); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(server.Kill)
			}
			s, err := redisstore.Open("redis://"+server.Addr+"/0", nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
	}
}

func TestKeyLimits(t *testing.T) {
	for name, open := range limitStores(t) {
		t.Run(name, func(t *testing.T) {
			one, other := newLimitLedger(t, open()), newLimitLedger(t, open())
			if got := one.granted("acme"); got != 3 {
				t.Errorf("the price book grants %d, want 3", got)
			}
			set := one.set("acme", 5)
			if set.Version == 0 || set.By != "Zoë" || set.Reason != "a larger plan" || time.Since(set.At).Abs() > time.Hour {
				t.Errorf("set %+v", set)
			}
			if got := one.granted("acme"); got != 2 {
				t.Errorf("in the process that set it, %d more are granted, want 2", got)
			}
			if again := one.set("acme", 6); again.Version <= set.Version {
				t.Errorf("the second change has version %d", again.Version)
			}
			if got := other.granted("acme"); got != 1 { // its first call reads the limits
				t.Errorf("in another process %d more are granted, want 1", got)
			}
			third := one.set("acme", 8).Version
			other.clock.ahead.Add(int64(2 * time.Second))
			if got := other.granted("acme"); got != 2 {
				t.Errorf("2 s later in another process, %d more are granted, want 2", got)
			}
			for i, key := range []string{"bob", "carol", strings.Repeat("d", 100)} { // max_keys is 1
				one.set(key, 4)
				if got := one.granted(key); got != 4 {
					t.Errorf("new key %d: %d granted, want 4", i, got)
				}
			}
			one.set("acme", 0)
			if got := newLimitLedger(t, open()).granted("acme"); got != 0 { // 8 of 3
				t.Errorf("removed, and after a restart: %d granted, want 0", got)
			}
			if one.set("Müller & Söhne", 4); one.granted("Müller & Söhne") != 4 {
				t.Error("a key with letters beyond ASCII has not the limit that was set")
			}
			one.set("eve", 9)
			if got := newLimitLedger(t, open()).granted("eve"); got != 9 {
				t.Errorf("after a restart %d are granted, want 9", got)
			}
			all, err := one.Admin().KeyLimits(t.Context(), third, 100)
			var keys []string
			for i, l := range all {
				keys = append(keys, fmt.Sprintf("%.5s %d", l.Key, l.Quota))
				if before := append([]quota.KeyLimit{{Version: third}}, all...)[i].Version; l.Version <= before {
					t.Errorf("%s has version %d after %d", l.Key, l.Version, before)
				}
			}
			if got, want := strings.Join(keys, ", "), "bob 4, carol 4, ddddd 4, acme 0, Mülle 4, eve 9"; got != want || err != nil {
				t.Errorf("the limits are %s, want %s: %v", got, want, err)
			}
			if l, err := one.Admin().KeyLimit(t.Context(), "client", "eve"); err != nil || l == nil || *l != all[5] {
				t.Errorf("the limit of eve: %+v %v, want %+v", l, err, all[5])
			}
			changes, err := one.Admin().LimitChanges(t.Context(), 3)
			if err != nil || len(changes) != 3 || changes[0] != all[5] || changes[1] != all[4] || changes[1].Reason != "a larger plan" {
				t.Errorf("the last changes are %+v: %v", changes, err)
			}
			if all, err := one.Admin().LimitChanges(t.Context(), 100); err != nil || len(all) != 9 || all[8] != set {
				t.Errorf("all changes are %+v: %v", all, err)
			}
			if l, err := one.Admin().KeyLimit(t.Context(), "client", "mallory"); err != nil || l != nil {
				t.Errorf("the limit of nobody: %+v %v", l, err)
			}
		})
	}
}

// TestALowLimitOfAKeyEnds: a refusal says when the limit ends, and a call that fits then is not impossible.
func TestALowLimitOfAKeyEnds(t *testing.T) {
	l := newLimitLedger(t, memstore.New(nil))
	end := l.clock.Now().Add(10 * time.Second)
	if _, err := l.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: "client", Key: "acme", Quota: 1, By: "Zoë", Until: end}); err != nil {
		t.Fatal(err)
	}
	if got := l.granted("acme"); got != 1 {
		t.Errorf("%d granted, want 1", got)
	}
	for units, want := range map[int64]error{1: quota.ErrRefused, 2: quota.ErrRefused, 4: quota.ErrImpossible} { // the book has 3
		_, err := l.Reserve(t.Context(), quota.Call{Family: "client", Key: "acme", Units: units})
		if !errors.Is(err, want) {
			t.Errorf("%d units: %v, want %v", units, err, want)
		}
		var refused *quota.RefusedError
		if errors.As(err, &refused) && (refused.RetryAfter > 10*time.Second || refused.RetryAfter < time.Second) {
			t.Errorf("%d units may come after %s, want the end of the limit", units, refused.RetryAfter)
		}
	}
	l.clock.ahead.Add(int64(10 * time.Second))
	if got := l.granted("acme"); got != 2 {
		t.Errorf("after the end %d more are granted, want 2", got)
	}
}

func TestKeyLimitsRefuse(t *testing.T) {
	l := newLimitLedger(t, limitStores(t)["sqlite"]())
	for why, k := range map[string]quota.KeyLimit{
		"there is no family \"clint\"": {Family: "clint", Key: "a", Quota: 1, By: "ann"},
		"the key must be":              {Family: "client", Key: "a\n", Quota: 1, By: "ann"},
		"the key must be 1":            {Family: "client", Quota: 1, By: "ann"},
		"the limit must be":            {Family: "client", Key: "a", Quota: -1, By: "ann"},
		"say who":                      {Family: "client", Key: "a", Quota: 1},
		"the reason must be":           {Family: "client", Key: "a", Quota: 1, By: "ann", Reason: strings.Repeat("x", 257)},
		"changes nothing":              {Family: "fixed", Key: "a", Quota: 1, By: "ann"},
		"without a higher revision":    {Family: "client", Key: "a", Quota: 1 << 40, By: "ann"},
		"has no limit":                 {Family: "client", Key: "amce", By: "ann"},
	} {
		if _, err := l.Admin().SetLimit(t.Context(), k); !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), why) {
			t.Errorf("%+v: %v, want %s", k, err, why)
		}
	}
	if all, err := l.Admin().KeyLimits(t.Context(), 0, 10); err != nil || len(all) != 0 {
		t.Errorf("bad input was kept: %v %v", all, err)
	}
	l.set("acme", 1)
	_, err := l.Reserve(t.Context(), quota.Call{Family: "client", Key: "acme", Units: 2})
	if !errors.Is(err, quota.ErrImpossible) || !strings.Contains(err.Error(), "ingestor limits set") {
		t.Errorf("more than the limit that was set: %v", err)
	}
	m := newLimitLedger(t, notKeeping{memstore.New(nil)})
	if _, err := m.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: "client", Key: "a", Quota: 1, By: "ann"}); !errors.Is(err, quota.ErrNoLimits) {
		t.Errorf("in a store that keeps none: %v", err)
	}
	if got := m.granted("acme"); got != 3 {
		t.Errorf("in a store that keeps none, the price book grants %d, want 3", got)
	}
}

// countingLimits counts the reads of limits.
type countingLimits struct {
	quota.Store
	quota.LimitKeeper
	reads atomic.Int64
}

func (c *countingLimits) KeyLimits(ctx context.Context, after int64, most int) ([]quota.KeyLimit, error) {
	c.reads.Add(1)
	return c.LimitKeeper.KeyLimits(ctx, after, most)
}

func (c *countingLimits) KeyLimit(ctx context.Context, family, key string) (*quota.KeyLimit, error) {
	c.reads.Add(1)
	return c.LimitKeeper.KeyLimit(ctx, family, key)
}

// Calls ask for no limits while those that are known are fresh.
func TestKeyLimitsCostNoRoundTrips(t *testing.T) {
	s := limitStores(t)["sqlite"]()
	memory, err := quota.New(newLimitLedger(t, s).Book(), memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, keeper := range map[string]quota.LimitKeeper{"a store that keeps them": s.(quota.LimitKeeper), "one that keeps none": memory.Admin()} {
		c := &countingLimits{Store: s, LimitKeeper: keeper}
		frozen, err := quota.New(memory.Book(), c, &quota.Options{Clock: clockAt{at: time.Now()}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			_, _ = frozen.Reserve(t.Context(), quota.Call{Family: "client", Key: "acme"})
			if i == 0 {
				quota.AwaitLimits(frozen)
			}
		}
		if n := c.reads.Load(); n > 3 { // one of all limits, and its own of each caller meanwhile
			t.Errorf("%s: 50 calls read the limits %d times", name, n)
		}
	}
}

type clockAt struct {
	quota.SystemClock
	at time.Time
}

func (c clockAt) Now() time.Time { return c.at }

// TestAHurriedCallerSkipsNoLimits: a caller that gives up before the limits were read for the
// first time does not let the next one go without them.
func TestAHurriedCallerSkipsNoLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	open := func() quota.Store {
		s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Families: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	newLimitLedger(t, open()).set("bob", 1)
	l := newLimitLedger(t, open())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Reserve(gone, quota.Call{Family: "client", Key: "bob"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was cancelled: %v", err)
	}
	if n := l.granted("bob"); n != 1 {
		t.Errorf("%d calls are granted, want 1 by the limit that was set", n)
	}
}

// fakeLimits keeps limits of one family in memory, as slowly as a test wants.
type fakeLimits struct {
	quota.Store
	mu    sync.Mutex
	all   []quota.KeyLimit
	load  chan struct{} // KeyLimits waits for it
	found chan struct{} // the answer of KeyLimit waits for it
}

func wait(ctx context.Context, c chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeLimits) SetLimit(_ context.Context, l quota.KeyLimit) (quota.KeyLimit, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.Version = int64(len(f.all) + 1)
	f.all = append(f.all, l)
	return l, nil
}

func (f *fakeLimits) KeyLimits(ctx context.Context, after int64, most int) ([]quota.KeyLimit, error) {
	if err := wait(ctx, f.load); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	first := min(max(after, 0), int64(len(f.all)))
	return slices.Clone(f.all[first:min(int(first)+most, len(f.all))]), nil
}

func (f *fakeLimits) KeyLimit(ctx context.Context, family, key string) (found *quota.KeyLimit, err error) {
	f.mu.Lock()
	for _, l := range f.all {
		if l.Family == family && l.Key == key {
			found = &l
		}
	}
	f.mu.Unlock()
	return found, wait(ctx, f.found)
}

func (f *fakeLimits) LimitChanges(context.Context, int) ([]quota.KeyLimit, error) { return nil, nil }

func newFakeLimits() *fakeLimits {
	f := &fakeLimits{Store: memstore.New(nil), load: make(chan struct{}), found: make(chan struct{})}
	close(f.found)
	return f
}

// TestCallersWaitForNoLoad: while a program that has just started reads a million limits, each
// call is decided by the limit of its own key.
func TestCallersWaitForNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		l := newLimitLedger(t, f)
		if _, err := f.SetLimit(t.Context(), quota.KeyLimit{Family: "client", Key: "bob", Quota: 1}); err != nil { // by another process
			t.Fatal(err)
		}
		began := time.Now()
		var granted atomic.Int64
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				if _, err := l.Reserve(t.Context(), quota.Call{Family: "client", Key: "bob"}); err == nil {
					granted.Add(1)
				}
			})
		}
		callers.Wait()
		if n, d := granted.Load(), time.Since(began); n != 1 || d != 0 {
			t.Errorf("%d are granted after %s, want 1 at once", n, d)
		}
		close(f.load)
		synctest.Wait()
	})
}

// TestCallersWaitTogether: callers do not queue for limits that cannot be read.
func TestCallersWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		f.found = make(chan struct{})
		l := newLimitLedger(t, f)
		began := time.Now()
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() { _, _ = l.Reserve(t.Context(), quota.Call{Family: "client", Key: "bob"}) })
		}
		callers.Wait()
		if d := time.Since(began); d != quota.LimitsWithin { // by the test's own clock
			t.Errorf("10 callers waited %s", d)
		}
		_, _ = l.Reserve(t.Context(), quota.Call{Family: "client", Key: "bob"})
		if d := time.Since(began); d != quota.LimitsWithin {
			t.Errorf("the next caller waited again, until %s", d)
		}
		synctest.Wait()
	})
}

// TestLostLimitsAreForgotten: a store that was emptied no longer limits anybody.
func TestLostLimitsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		close(f.load)
		l := newLimitLedger(t, f)
		granted := func(n int) {
			t.Helper()
			for range 2 { // the first call has the limits read again
				time.Sleep(time.Second)
				_, _ = l.Reserve(t.Context(), quota.Call{Family: "client", Key: "someone"})
				synctest.Wait()
			}
			if got := l.granted("bob"); got != n {
				t.Errorf("%d are granted, want %d", got, n)
			}
		}
		l.set("alice", 7)
		l.set("bob", 5)
		granted(5)
		f.mu.Lock()
		f.all = f.all[:1]
		f.mu.Unlock()
		time.Sleep(2 * time.Hour)
		granted(2) // of the price book
		l.set("bob", 5)
		granted(3)
		time.Sleep(2 * time.Hour)
		f.mu.Lock()
		f.all = f.all[:1]
		f.mu.Unlock()
		if _, err := f.SetLimit(t.Context(), quota.KeyLimit{Family: "client", Key: "carol", Quota: 9}); err != nil { // by another process
			t.Fatal(err)
		}
		granted(2)
	})
}

// TestALateAnswerChangesNothing: the answer to a question about one limit comes after the
// limit has changed, and after the change was read.
func TestALateAnswerChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		f.found = make(chan struct{})
		close(f.load)
		l := newLimitLedger(t, f)
		set := func(key string, n int64) {
			if _, err := f.SetLimit(t.Context(), quota.KeyLimit{Family: "client", Key: key, Quota: n}); err != nil { // by another process
				t.Fatal(err)
			}
		}
		reserve := func(key string) { _, _ = l.Reserve(t.Context(), quota.Call{Family: "client", Key: key}) }
		set("bob", 5)
		go reserve("bob") // it asks for its own limit, and hears nothing yet
		synctest.Wait()
		set("bob", 1)
		set("alice", 9)
		time.Sleep(time.Second)
		reserve("someone") // the change is read beside this call
		synctest.Wait()
		close(f.found)
		synctest.Wait()
		time.Sleep(time.Second)
		reserve("someone")
		synctest.Wait()
		if n := l.granted("bob"); n != 0 { // one was granted before
			t.Errorf("%d more are granted, want none by the limit of 1", n)
		}
	})
}
