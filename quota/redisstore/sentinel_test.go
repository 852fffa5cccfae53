package redisstore_test

import (
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota/storetest"
)

func startSentinel(t testing.TB, replicas, sentinels int) *redistest.Sentinel {
	t.Helper()
	s, err := redistest.StartSentinel(t.TempDir(), replicas, sentinels)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

func failover(t testing.TB, s *redistest.Sentinel) {
	t.Helper()
	if err := s.Failover(patient(t)); err != nil {
		t.Fatal(err)
	}
}

func dialSentinel(t testing.TB, s *redistest.Sentinel) *redis.Client {
	t.Helper()
	c := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: s.Addrs(), MasterName: redistest.MasterName, PoolTimeout: patience})
	t.Cleanup(func() { c.Close() })
	return c.(*redis.Client)
}

// A failover changes nothing: a store behind Sentinel keeps every promise of the
// suite on a replica that has taken the place of a master killed before.
func TestStoreBehindSentinel(t *testing.T) {
	s := startSentinel(t, 2, 3)
	c := dialSentinel(t, s)
	if got := askedServer(t, c); got != s.Master.Addr {
		t.Fatalf("%s answers, the master is %s", got, s.Master.Addr)
	}
	failover(t, s)
	h := harness(t, c)
	h.Operations = scaled(600, 20_000) // TestStore makes more with the same scripts
	storetest.Run(t, h)
	if got := askedServer(t, c); got != s.Master.Addr {
		t.Errorf("%s answered, the promoted replica is %s", got, s.Master.Addr)
	}
}

// A failover in the middle of a stream of reservations: until a replica has taken
// the master's place, calls are outages, and never refusals. Every grant whose
// write the replica has stands, is counted once, and is told again to who asks
// again. Redis replicates after it has answered, so the last grants before the
// crash may be forgotten; they are then on no page, receipt or day of spend. That is
// noticed, and is an outage until somebody puts back what was spent, here a unit.
func TestFailoverInMidStream(t *testing.T) {
	for name, deaf := range map[string]int{
		"to a replica that hears the master":                   0,
		"to a replica that did not hear of the last 20 grants": 20,
	} {
		t.Run(name, func(t *testing.T) {
			sentinel := startSentinel(t, 1, 1)
			s := newStream(t, dialSentinel(t, sentinel), 0, scaled(400, 10_000))
			s.answered("id-1")
			if err := sentinel.Replicas[0].CatchUp(patient(t), sentinel.Master); err != nil {
				t.Fatal(err)
			}
			var noticed sync.Once
			var back int64
			s.putBack = func() {
				noticed.Do(func() {
					back = 1
					r := s.request("back")
					r.Restore = true
					until(t, func() (struct{}, error) { return struct{}{}, errOf(s.store.Record(bg, r)) })
				})
			}
			crash := s.once(func() func() {
				if err := sentinel.Crash(patient(t)); err != nil {
					t.Error(err)
				}
				return func() {
					if err := sentinel.Promoted(patient(t)); err != nil {
						t.Error(err)
					}
				}
			})
			s.run(func(i int) func() {
				if deaf != 0 && i == s.n/2-deaf {
					deafen(t, sentinel.Master)
				}
				return crash(i)
			})
			before := used(t, s.store) - back
			if units, calls := spent(t, s.store, "units"); units-back != before || calls-back != before {
				t.Errorf("%d units used, and %d of %d calls booked as spent", before, units-back, calls-back)
			}
			var survived int64
			for id, first := range s.answers {
				v, err := s.store.Reserve(bg, s.request(id))
				switch {
				case err != nil || !v.Allowed:
					t.Errorf("%s again: %+v, %v", id, v, err)
				case v.Repeat && v.Token() == first.Token():
					survived++
				case v.Repeat:
					t.Errorf("%s was granted with %+v, and then with %+v", id, first, v)
				}
			}
			t.Logf("%d calls failed; of %d grants %d survived", s.failures.Load(), s.n, survived)
			if before != survived {
				t.Errorf("%d units used, %d grants survived", before, survived)
			}
			switch lost := int64(s.n) - survived; {
			case deaf != 0 && (back == 0 || lost == 0):
				t.Errorf("%d grants were lost, and nobody noticed", lost)
			case back != 0 && lost == 0:
				t.Error("nothing was lost, and somebody noticed it")
			}
			if n := used(t, s.store) - back; n != int64(s.n) {
				t.Errorf("%d units used when those that were lost were asked for again, want %d", n, s.n)
			}
		})
	}
}

// askedServer is the address of whoever answers a client.
func askedServer(t testing.TB, c *redis.Client) string {
	t.Helper()
	port, err := c.ConfigGet(patient(t), "port").Result()
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + port["port"]
}
