package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
	"github.com/headroom-quota/headroom/quota/window"
)

// pool returns a pool of an account.
func pool(account string) quota.Pool {
	return quota.Pool{Upstream: "api", Account: account, Name: "units"}
}

// request asks for units of a pool of 10 an hour.
func request(id, account string, units int64) quota.Request { return requestOf(id, account, units, 10) }

func requestOf(id, account string, units, limit int64) quota.Request {
	spec, err := window.Spec{Per: time.Hour}.Normal()
	if err != nil {
		panic(err)
	}
	return quota.Request{ID: id, Charges: []quota.Charge{{
		Pool: pool(account), Units: units, Windows: []window.Limit{window.NewLimit(spec, limit)}, Revision: 1,
	}}}
}

func openAt(t testing.TB, url string, o *pgstore.Options) *pgstore.Store {
	t.Helper()
	if o == nil {
		o = &pgstore.Options{Timeout: testTimeout}
	}
	s, err := pgstore.Open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// session is a connection of another client.
func session(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func ask[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// held holds the lock of the account a, as another process would.
type held struct {
	t testing.TB
	c *pgx.Conn
	n int64
}

func hold(t testing.TB, url string, s *pgstore.Store) *held {
	t.Helper()
	h := &held{t, session(t, url), pgstore.Lock(s, pool("a"))}
	ask[string](t, h.c, "SELECT pg_advisory_lock($1)::text", h.n)
	return h
}

// waiting waits until so many sessions wait for a lock of an account.
func (h *held) waiting(n int) {
	h.t.Helper()
	sessionsWait(h.t, h.c, "advisory", n)
}

// sessionsWait waits until so many sessions of the database wait for a lock of a type. The test
// holds what they wait for.
func sessionsWait(t testing.TB, c *pgx.Conn, lock string, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		got := ask[int](t, c, "SELECT count(*) FROM pg_locks WHERE locktype = $1 AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())", lock)
		if got == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions wait for a lock, want %d", got, n)
		}
	}
}

func (h *held) free() {
	h.t.Helper()
	if !ask[bool](h.t, h.c, "SELECT pg_advisory_unlock($1)", h.n) {
		h.t.Fatal("the lock was lost")
	}
}

// A caller that leaves a transaction is charged all the same: its id finds it.
func TestACallerThatLeavesIsCharged(t *testing.T) {
	url := pgtest.Shared(t)
	s := openAt(t, url, nil)
	if _, err := s.Reserve(t.Context(), request("", "a", 0)); err != nil {
		t.Fatal(err)
	}
	lock := hold(t, url, s)
	ctx, leave := context.WithCancel(t.Context())
	r := request("left", "a", 3)
	left := make(chan error, 1)
	go func() { _, err := s.Reserve(ctx, r); left <- err }()
	lock.waiting(1)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller got %v", err)
	}
	r.Charges[0].Units = 9 // the caller may use its slices again
	lock.free()
	if v, err := s.Reserve(t.Context(), request("left", "a", 3)); err != nil || !v.Repeat || v.Used != 3 {
		t.Errorf("its id later: %+v, %v; want its charge of 3", v, err)
	}
}

func TestAccountsDoNotWaitForEachOther(t *testing.T) {
	url := pgtest.Shared(t)
	s := openAt(t, url, nil)
	if _, err := s.Reserve(t.Context(), request("", "a", 0)); err != nil {
		t.Fatal(err)
	}
	lock := hold(t, url, s)
	blocked := make(chan error, 1)
	go func() { _, err := s.Reserve(context.Background(), request("a", "a", 1)); blocked <- err }()
	lock.waiting(1)
	if v, err := s.Reserve(t.Context(), request("b", "b", 1)); err != nil || v.Used != 1 {
		t.Errorf("another account: %+v, %v", v, err)
	}
	family := request("", "a", 1)
	family.Charges[0].Pool.Name, family.Charges[0].Pool.Key, family.Charges[0].MaxKeys = "", "k", 10
	if v, err := s.Reserve(t.Context(), family); err != nil || v.Used != 1 {
		t.Errorf("a family: %+v, %v", v, err)
	}
	lock.free()
	if err := <-blocked; err != nil {
		t.Error(err)
	}
}

// The session of a process that was killed does not wait for its lock for ever.
func TestAKilledProcessLeavesNoSession(t *testing.T) {
	url := pgtest.Shared(t)
	s := openAt(t, url, nil)
	if _, err := s.Reserve(t.Context(), request("", "a", 0)); err != nil {
		t.Fatal(err)
	}
	lock := hold(t, url, s)
	c := childtest.Start(t, "spend", url)
	c.Begin()
	lock.waiting(1)
	c.Kill()
	lock.waiting(0)
}

// A caller does not wait for ever for another process, and leaves no session behind that does.
func TestALockThatIsHeldIsAnOutage(t *testing.T) {
	url := pgtest.Shared(t)
	patient, s := openAt(t, url, nil), openAt(t, url, &pgstore.Options{Timeout: 300 * time.Millisecond})
	if _, err := patient.Reserve(t.Context(), request("", "a", 0)); err != nil {
		t.Fatal(err)
	}
	lock := hold(t, url, s)
	_, err := s.Reserve(t.Context(), request("a", "a", 1))
	if err == nil || errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), "did not answer in time, 300ms at most") {
		t.Errorf("got %v, want an outage", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Reserve(ctx, request("b", "a", 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the caller's deadline", err)
	}
	lock.waiting(0)
	lock.free()
	if v, err := patient.Reserve(t.Context(), request("c", "a", 1)); err != nil || !v.Allowed {
		t.Errorf("when it is free: %+v, %v", v, err)
	}
}
