package redisstore_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
)

// Scripts that the server forgets are sent again: nobody notices, and nothing is
// charged twice.
func TestScriptFlushInMidStream(t *testing.T) {
	sv := start(t)
	s := newStream(t, dial(t, sv.Addr), patience, scaled(400, 10_000))
	s.run(func(i int) func() {
		if i%10 == 0 {
			run(t, sv, "script", "flush")
		}
		return nil
	})
	if n := s.failures.Load(); n != 0 {
		t.Errorf("%d calls failed", n)
	}
	s.settled()
}

// A server that hangs for longer than the timeouts is an outage while it hangs. When it
// resumes, it may still run old requests whose callers have given up. Retries with the
// same ids are charged once.
func TestStoppedServer(t *testing.T) {
	sv := start(t)
	s := newStream(t, dialImpatient(t, sv.Addr), impatience, scaled(200, 2_000))
	s.run(s.once(func() func() {
		signal(t, sv, syscall.SIGSTOP)
		return func() {
			defer signal(t, sv, syscall.SIGCONT)
			s.awaitFailures(2 * streams)
		}
	}))
	s.store = open(t, dial(t, sv.Addr), s.prefix) // a patient one: nothing hangs any more, but the machine may be busy
	s.settled()
}

// A server that keeps its log (appendonly yes, appendfsync always) forgets nothing
// that it has answered when it is killed and started again.
func TestRestartWithPersistence(t *testing.T) {
	sv := start(t, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	s := newStream(t, dialImpatient(t, sv.Addr), impatience, scaled(200, 2_000))
	s.run(s.once(func() func() {
		sv.Kill()
		return func() {
			s.awaitFailures(streams)
			restart(t, sv)
		}
	}))
	s.store = open(t, dial(t, sv.Addr), s.prefix)
	s.settled()
	sv.Kill()
	restart(t, sv)
	s.store = open(t, dial(t, sv.Addr), s.prefix)
	s.settled()
}

// A connection that the server cuts off while it holds calls up is an outage for
// these calls, and no more than that: the same ids tried again are charged once.
func TestClientsKilledInMidStream(t *testing.T) {
	sv := start(t)
	s := newStream(t, dial(t, sv.Addr), patience, scaled(400, 10_000))
	rounds := 0
	s.run(func(i int) func() {
		if i%(s.n/4) != 0 || i == s.n {
			return nil
		}
		rounds++
		run(t, sv, "client", "pause", patience.Milliseconds(), "write") // so that there are calls to cut off
		return func() {
			err := redistest.Await(patient(t), func() error {
				if held, _ := strconv.Atoi(info(t, sv, "clients", "blocked_clients")); held < streams-1 {
					return fmt.Errorf("%d calls are held up, of %d", held, streams-1)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			run(t, sv, "client", "kill", "type", "normal")
			run(t, sv, "client", "unpause")
		}
	})
	if n := s.failures.Load(); n < int64(rounds*(streams-1)) {
		t.Errorf("%d calls failed, want %d at each of %d times", n, streams-1, rounds)
	}
	s.settled()
}

// A full server that evicts nothing (maxmemory-policy noeviction) is an outage,
// and says why: a call is charged whole or not at all, what was granted before
// stands, and reading still works. When there is memory again, so is everything.
func TestMemoryIsFull(t *testing.T) {
	sv := start(t, "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction")
	store := open(t, dial(t, sv.Addr), prefix())
	l := ledger(t, store, 1<<20)
	call := func(i int) quota.Call { return quota.Call{Method: "both", ID: fmt.Sprint("id-", i)} }
	first, err := l.Reserve(bg, call(0)) // the scripts take memory too
	if err != nil {
		t.Fatal(err)
	}
	run(t, sv, "set", "junk", strings.Repeat("x", 1<<20))
	var full int
	if _, err := fmt.Sscan(info(t, sv, "memory", "used_memory"), &full); err != nil {
		t.Fatal(err)
	}
	run(t, sv, "config", "set", "maxmemory", full+1<<19)

	mustBeFull := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, quota.ErrOutage) || errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), "maxmemory") {
			t.Fatalf("%s: got %v, want an outage that names maxmemory", what, err)
		}
	}
	tried, granted := 1, 1
	for failed := 0; failed < 20; tried++ {
		if tried == 100_000 {
			t.Fatal("the server does not get full")
		}
		if _, err := l.Reserve(bg, call(tried)); err == nil {
			granted++
		} else {
			failed++
			mustBeFull("reserve", err)
		}
	}
	_, err = first.Settle(bg, quota.Units{"units": 0, "more": 0})
	mustBeFull("release", err)
	both := []quota.Charge{units(0, 1<<20), pool("more", 0, 1<<20)}
	mustCount := func(want int) {
		t.Helper()
		pages, err := store.Look(bg, both)
		if err != nil {
			t.Fatalf("look: %v", err)
		}
		for _, p := range pages {
			for _, w := range p.Windows {
				if w.Used != int64(want) {
					t.Errorf("%s counts %d in %s, %d were granted", p.Pool, w.Used, w.Window, want)
				}
			}
		}
		for _, c := range both {
			if units, calls := spent(t, store, c.Pool.Name); units != int64(want) || calls != int64(want) {
				t.Errorf("%d units of %s of %d calls are booked as spent, %d were granted", units, c.Pool, calls, want)
			}
		}
	}
	mustCount(granted)
	t.Logf("%d granted until the memory was full", granted)

	run(t, sv, "del", "junk")
	for i := range tried { // those that were granted are known, the others are free to be
		if _, err := l.Reserve(bg, call(i)); err != nil {
			t.Fatalf("reservation %d, when there is memory again: %v", i, err)
		}
	}
	mustCount(tried)
	if _, err := first.Settle(bg, quota.Units{"units": 0, "more": 0}); err != nil {
		t.Fatalf("release, when there is memory again: %v", err)
	}
	mustCount(tried - 1)
}

// info is a field of what a server says of itself.
func info(t testing.TB, s *redistest.Server, section, name string) string {
	t.Helper()
	text, _ := run(t, s, "info", section).(string)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	t.Fatalf("the server says nothing of %s", name)
	return ""
}
