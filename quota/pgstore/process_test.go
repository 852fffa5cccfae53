package pgstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// children are what a process can be told to do with the ledger at a URL.
var children = map[string]childtest.Task{
	"spend": spend,
}

// callersOf is how many callers a child has.
const callersOf = 4

// limitOf bounds what the children of a test spend together.
const limitOf = 400

// spend reserves, with several callers at once, until nothing is left, and writes each id
// that was granted. It goes on while the server is down.
func spend(url string, begin func() bool, out io.Writer) error {
	s, err := pgstore.Open(url, &pgstore.Options{Timeout: testTimeout})
	if err != nil {
		return err
	}
	if !begin() {
		return nil
	}
	var mu sync.Mutex
	lines := bufio.NewWriter(out)
	var callers sync.WaitGroup
	for c := range callersOf {
		callers.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("%d-%d-%d", os.Getpid(), c, n)
				v, err := s.Reserve(context.Background(), requestOf(id, "a", 1, limitOf))
				for err != nil { // the same call again, until the server is back
					v, err = s.Reserve(context.Background(), requestOf(id, "a", 1, limitOf))
				}
				if !v.Allowed {
					return
				}
				mu.Lock()
				fmt.Fprintln(lines, id)
				err = lines.Flush()
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	callers.Wait()
	return s.Close()
}

// sum adds up what a ledger has of its pool.
func sum(t *testing.T, s *pgstore.Store) (units int64, calls int64) {
	t.Helper()
	spent, err := s.Spend(t.Context(), quota.SpendQuery{Upstream: "api", Account: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range spent {
		units, calls = units+one.Units, calls+one.Calls
	}
	return units, calls
}

// used returns the units in the window.
func used(t *testing.T, s *pgstore.Store) int64 {
	t.Helper()
	states, err := s.Look(t.Context(), requestOf("", "a", 0, limitOf).Charges)
	if err != nil {
		t.Fatal(err)
	}
	return states[0].Windows[0].Used
}

// checkIDs checks that each granted id is known, and that no unit was granted twice.
func checkIDs(t *testing.T, s *pgstore.Store, granted []string, lost int64) {
	t.Helper()
	for _, id := range granted {
		if v, err := s.Reserve(t.Context(), requestOf(id, "a", 1, limitOf)); err != nil || !v.Repeat {
			t.Errorf("%s was granted, and is not known: %+v, %v", id, v, err)
			return
		}
	}
	if slices.Sort(granted); len(slices.Compact(granted)) != len(granted) {
		t.Error("an id was granted twice")
	}
	units, calls := sum(t, s)
	if n := int64(len(granted)); used(t, s) != limitOf || units != limitOf || calls != limitOf || n > limitOf || n < limitOf-lost {
		t.Errorf("%d of %d units used, %d units in %d calls spent, %d granted", used(t, s), limitOf, units, calls, n)
	}
}

// Processes that are killed like kill -9 lose no grant, and none is granted over the limit.
func TestKilledClientsLoseNothing(t *testing.T) {
	url := pgtest.Shared(t)
	s := openAt(t, url, nil)
	var mu sync.Mutex
	var granted []string
	killed := int64(0)
	for range 3 { // generations of four processes, each with one that is killed
		var all []*childtest.Child
		for range 4 {
			all = append(all, childtest.Start(t, "spend", url))
		}
		for _, c := range all {
			c.Begin()
		}
		first := all[0].Line()
		keep := func(lines ...string) {
			mu.Lock()
			defer mu.Unlock()
			granted = append(granted, slices.DeleteFunc(lines, func(id string) bool { return id == "" })...)
		}
		keep(first)
		if killed < 2*callersOf {
			for _, c := range all {
				keep(c.Kill()...)
				killed += callersOf
			}
			continue
		}
		for _, c := range all {
			keep(c.Rest()...)
		}
	}
	// A grant in a process that was killed may not have been written.
	checkIDs(t, s, granted, killed)
}

// A server that is killed like kill -9 loses no grant. Callers repeat what had no answer,
// under its id.
func TestKilledServerLosesNothing(t *testing.T) {
	server := pgtest.Start(t)
	url := server.URL("postgres")
	s := openAt(t, url, nil)
	c := childtest.Start(t, "spend", url)
	c.Begin()
	var granted []string
	for _, end := range []func(){server.Kill, server.Crash, server.Stop} {
		for range 50 {
			granted = append(granted, c.Line())
		}
		end()
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	granted = append(granted, c.Rest()...)
	checkIDs(t, s, granted, 0)
}

// A connection that was idle when the server restarted costs no call.
func TestRestartCostsNoCall(t *testing.T) {
	server := pgtest.Start(t, pgtest.Fast...)
	s := openAt(t, server.URL("postgres"), nil)
	if _, err := s.Reserve(t.Context(), request("a", "a", 1)); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	_, err := s.Reserve(t.Context(), request("b", "a", 1))
	if err == nil || errors.Is(err, quota.ErrBadInput) {
		t.Errorf("while it is down: %v", err)
	}
	if _, err := s.Look(t.Context(), request("", "a", 0).Charges); err == nil {
		t.Error("it looked at a server that is down")
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Reserve(t.Context(), request("a", "a", 1)); err != nil || !v.Repeat {
		t.Errorf("afterwards: %+v, %v", v, err)
	}
	server.Crash()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Reserve(t.Context(), request("c", "a", 1)); err != nil || v.Used != 2 {
		t.Errorf("after a crash: %+v, %v", v, err)
	}
}

// Processes that start together make one schema.
func TestOneProcessMakesTheSchema(t *testing.T) {
	url := pgtest.Shared(t)
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		s := openAt(t, url, nil)
		all.Go(func() { _, errs[i] = s.Reserve(context.Background(), request(fmt.Sprint("id", i), "a", 1)) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	c := session(t, url)
	if n := ask[int](t, c, "SELECT count(*) FROM headroom_ledger.identity"); n != 1 {
		t.Errorf("%d identities", n)
	}
}

// A program works with a later schema, unless the schema says that it does not.
func TestVersionsSideBySide(t *testing.T) {
	url := pgtest.Shared(t)
	if _, err := openAt(t, url, nil).Reserve(t.Context(), request("a", "a", 1)); err != nil {
		t.Fatal(err)
	}
	c := session(t, url)
	set := func(version, least int) {
		if _, err := c.Exec(t.Context(), "UPDATE headroom_ledger.schema_version SET version = $1, min_program = $2", version, least); err != nil {
			t.Fatal(err)
		}
	}
	set(pgstore.Steps+1, pgstore.Steps)
	if v, err := openAt(t, url, nil).Reserve(t.Context(), request("a", "a", 1)); err != nil || !v.Repeat {
		t.Errorf("beside a program of the next version: %+v, %v", v, err)
	}
	set(pgstore.Steps+1, pgstore.Steps+1)
	_, err := openAt(t, url, nil).Reserve(t.Context(), request("a", "a", 1))
	if err == nil || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("a schema that this program is too old for: %v", err)
	}
}

func TestLease(t *testing.T) {
	url := pgtest.Shared(t)
	one, other := openAt(t, url, nil), openAt(t, url, nil)
	first, err := one.TakeLease(t.Context(), "job", "one", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.TakeLease(t.Context(), "job", "other", time.Minute); err == nil || !strings.Contains(err.Error(), "held by one") {
		t.Errorf("taken twice: %v", err)
	}
	if held, err := other.KeepLease(t.Context(), "job", first+1, time.Minute); held || err != nil {
		t.Errorf("kept under a token that nobody has: %t, %v", held, err)
	}
	if held, err := one.KeepLease(t.Context(), "job", first, 0); !held || err != nil {
		t.Errorf("given back: %t, %v", held, err)
	}
	second, err := other.TakeLease(t.Context(), "job", "other", time.Minute)
	if err != nil || second <= first {
		t.Errorf("token %d after %d, %v", second, first, err)
	}
	if held, err := one.KeepLease(t.Context(), "job", first, time.Minute); held || err != nil {
		t.Errorf("kept by a holder that was overtaken: %t, %v", held, err)
	}
}

// TestLeaseIsNotTakenFromWhoWasFirst: a process that asked before another got the lease, and had to wait for it, would
// have had the lease until earlier. That makes the other's no lease of a clock that was far ahead.
func TestLeaseIsNotTakenFromWhoWasFirst(t *testing.T) {
	url := pgtest.Shared(t)
	other, c := openAt(t, url, &pgstore.Options{Timeout: time.Minute}), session(t, url)
	if token, err := other.TakeLease(t.Context(), "job", "other", time.Minute); err != nil {
		t.Fatal(err)
	} else if _, err := other.KeepLease(t.Context(), "job", token, 0); err != nil {
		t.Fatal(err)
	}
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM headroom_ledger.leases WHERE name = 'job' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	go func() {
		_, err := other.TakeLease(t.Context(), "job", "other", time.Minute)
		asked <- err
	}()
	for waits := false; !waits; {
		if err := tx.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND transactionid = pg_current_xact_id()::xid)").Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	var taken bool
	if err := tx.QueryRow(t.Context(), pgstore.Statement("lease_take"), "job", "one", time.Minute.Microseconds()).Scan(&taken, nil, nil, nil); err != nil || !taken {
		t.Fatalf("who was first: %t, %v", taken, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-asked; err == nil || !strings.Contains(err.Error(), "held by one") {
		t.Errorf("who waited took it: %v", err)
	}
}
