package redisstore_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// machine is where a machine remembers the pages that its processes use.
func machine(t testing.TB) storekit.BirthKeeper {
	t.Helper()
	j, err := journal.Open(bg, filepath.Join(t.TempDir(), "journal.db"), "redis://test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// line is a client's way to a server, which may become another one.
type line struct{ addr atomic.Value }

func lineTo(s *redistest.Server) *line {
	l := new(line)
	l.to(s)
	return l
}

func (l *line) to(s *redistest.Server) { l.addr.Store(s.Addr) }

func (l *line) client(t testing.TB) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, l.addr.Load().(string))
		},
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// A server that has lost a pool's page, however that came about, has an outage, on
// every machine that had used the pool: nothing is granted there, neither to a
// process that saw the loss nor to one that starts after it, not even when
// somebody who had never used the pool has made a new page meanwhile. It is over
// when a person says what was spent; the pool then counts that, and what was spent
// on the new page.
func TestLossIsNoticedOnEveryMachine(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(t *testing.T) (_ redis.UniversalClient, lose func())
	}{
		{"flushall", func(t *testing.T) (redis.UniversalClient, func()) {
			sv := start(t)
			return dial(t, sv.Addr), func() { run(t, sv, "flushall") }
		}},
		{"restart_without_persistence", func(t *testing.T) (redis.UniversalClient, func()) {
			sv := start(t)
			return dial(t, sv.Addr), func() { sv.Kill(); restart(t, sv) }
		}},
		{"restart_from_a_snapshot_before_it", func(t *testing.T) (redis.UniversalClient, func()) {
			sv := start(t, "--save", "3600 1", "--appendonly", "no")
			run(t, sv, "save")
			return dial(t, sv.Addr), func() { sv.Kill(); restart(t, sv) }
		}},
		{"a_replica_that_had_not_heard_of_it_is_promoted", func(t *testing.T) (redis.UniversalClient, func()) {
			master, replica := start(t), start(t)
			follow(t, replica, master)
			lead(t, replica) // it hears no more
			l := lineTo(master)
			return l.client(t), func() { master.Kill(); l.to(replica) }
		}},
		{"sentinels_promote_a_replica_that_had_not_heard_of_it", func(t *testing.T) (redis.UniversalClient, func()) {
			s := startSentinel(t, 1, 1)
			deafen(t, s.Master)
			return dialSentinel(t, s), func() { failover(t, s) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, lose := c.lose(t)
			prefix := prefix()
			process := func(on storekit.BirthKeeper) *redisstore.Store {
				return openWith(t, client, redisstore.Options{Prefix: prefix, Births: on})
			}
			one, two := machine(t), machine(t)
			a, b := process(one), process(two)
			mustReserve(t, a, "id-1", 3)
			mustReserve(t, b, "id-2", 4)
			lose()

			mustRefuse := func(when string) {
				t.Helper()
				for who, s := range map[string]quota.Store{
					"who was there": a, "another machine": b,
					"who starts after it": process(one), "another machine's": process(two),
				} {
					for id, n := range map[string]int64{"id-1": 3, "id-3": 1, "": 1} { // granted before it, or not
						forgotten(t, when+", "+who+" reserves "+id, s, quota.Request{ID: id, Charges: []quota.Charge{units(n, 100)}})
					}
					_, err := s.Look(bg, []quota.Charge{units(0, 100)})
					mustHaveForgotten(t, when+", "+who+" looks", err)
					_, err = ledger(t, s, 100).Reserve(bg, quota.Call{Method: "get"})
					if mustHaveForgotten(t, when+", "+who+" reserves", err); errors.Is(err, quota.ErrRefused) {
						t.Errorf("%v is passed off as a refusal", err)
					}
				}
			}
			mustRefuse("when the page is gone")
			if n := mustReserve(t, process(nil), "id-4", 5); n != 5 {
				t.Errorf("who had never used the pool has %d used, want the 5 that it took", n)
			}
			mustRefuse("when the page is reborn")

			_, err := a.Record(bg, quota.Request{Restore: true, Charges: []quota.Charge{units(7, 100)}})
			if err != nil {
				t.Fatalf("put back what was spent: %v", err)
			}
			for who, s := range map[string]quota.Store{
				"who was there": a, "another machine": b,
				"who starts after it": process(one), "another machine's": process(two),
			} {
				if n := used(t, s); n != 12 {
					t.Errorf("%s has %d used, want the 7 that were put back and 5", who, n)
				}
			}
			if n := mustReserve(t, b, "id-5", 1); n != 13 {
				t.Errorf("%d used, want 13", n)
			}
		})
	}
}

// A loss in the middle of a stream of reservations: none that begins after it is
// granted.
func TestNothingIsGrantedAfterALoss(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(*redistest.Server)
	}{
		{"flushall", func(sv *redistest.Server) { run(t, sv, "flushall") }},
		{"restart_without_persistence", func(sv *redistest.Server) { sv.Kill(); restart(t, sv) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			sv := start(t)
			s := open(t, dial(t, sv.Addr), prefix())
			mustReserve(t, s, "first", 1)
			var lost atomic.Bool
			var late atomic.Int64
			var wg sync.WaitGroup
			for range streams {
				wg.Go(func() {
					for late.Load() < int64(scaled(100, 5_000)) {
						was := lost.Load()
						v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{units(1, 1<<20)}})
						var forgotten *quota.ForgottenError
						switch {
						case was && err == nil:
							t.Errorf("after the loss: granted with %d used", v.Used)
							return
						case err == nil && !v.Allowed, errors.Is(err, quota.ErrBadInput):
							t.Errorf("around the loss: %+v, %v", v, err)
						case was && errors.As(err, &forgotten):
							late.Add(1)
						}
					}
				})
			}
			c.lose(sv)
			lost.Store(true)
			wg.Wait()
		})
	}
}

func follow(t testing.TB, replica, master *redistest.Server) {
	t.Helper()
	if err := replica.Follow(patient(t), master); err != nil {
		t.Fatal(err)
	}
}

func lead(t testing.TB, replica *redistest.Server) {
	t.Helper()
	if err := replica.Lead(patient(t)); err != nil {
		t.Fatal(err)
	}
}

// deafen cuts replicas off for good: they follow still, and hear nothing more.
func deafen(t testing.TB, master *redistest.Server) {
	t.Helper()
	run(t, master, "acl", "setuser", "default", "-psync", "-sync")
	run(t, master, "client", "kill", "type", "replica")
}
