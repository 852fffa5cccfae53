package redisstore_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// setbacks are ways in which a server gets a page as it was some time ago: keep marks
// the time, and back goes there.
var setbacks = []struct {
	name string
	has  func(t *testing.T) (_ redis.UniversalClient, keep, back func())
}{
	{"restart_from_an_old_snapshot", func(t *testing.T) (redis.UniversalClient, func(), func()) {
		sv := start(t, "--save", "3600 1", "--appendonly", "no")
		return dial(t, sv.Addr), func() { run(t, sv, "save") }, func() { sv.Kill(); restart(t, sv) }
	}},
	{"a_replica_that_is_behind_is_promoted", func(t *testing.T) (redis.UniversalClient, func(), func()) {
		master, replica := start(t), start(t)
		follow(t, replica, master)
		l := lineTo(master)
		keep := func() {
			if err := replica.CatchUp(patient(t), master); err != nil {
				t.Fatal(err)
			}
			lead(t, replica) // it hears no more
		}
		return l.client(t), keep, func() { master.Kill(); l.to(replica) }
	}},
	{"sentinels_promote_a_replica_that_is_behind", func(t *testing.T) (redis.UniversalClient, func(), func()) {
		s := startSentinel(t, 1, 1)
		keep := func() {
			if err := s.Replicas[0].CatchUp(patient(t), s.Master); err != nil {
				t.Fatal(err)
			}
			deafen(t, s.Master)
		}
		return dialSentinel(t, s), keep, func() { failover(t, s) }
	}},
}

// A page of the same birth from which the last of what a process saw there is missing
// is a loss: nothing is granted to that process until a person has put the spend back,
// wherever that is done.
func TestPageThatIsSetBack(t *testing.T) {
	one := []quota.Charge{units(1, 100)}
	for _, c := range setbacks {
		t.Run(c.name, func(t *testing.T) {
			client, keep, back := c.has(t)
			prefix := prefix()
			s, other, idle := open(t, client, prefix), open(t, client, prefix), open(t, client, prefix)
			mustReserve(t, s, "id-1", 3)
			mustReserve(t, idle, "id-2", 1)
			keep()
			mustReserve(t, s, "id-3", 80)
			mustReserve(t, other, "id-4", 10)
			back()

			for id, n := range map[string]int64{"id-1": 3, "id-3": 80, "id-5": 1, "": 1, "id-6": 99} {
				for who, s := range map[string]quota.Store{"one": s, "another": other} {
					forgotten(t, "94 of 100 units are spent, the page knows of 4, "+who+" reserves "+id, s,
						quota.Request{ID: id, Charges: []quota.Charge{units(n, 100)}})
				}
			}
			_, err := s.Look(bg, one)
			mustHaveForgotten(t, "look", err)
			mustHaveForgotten(t, "record", errOf(s.Record(bg, quota.Request{Charges: one})))
			mustHaveForgotten(t, "block", s.Block(bg, quota.BlockRequest{Charges: one, For: time.Hour}))
			_, err = ledger(t, s, 100).Reserve(bg, quota.Call{Method: "get"})
			if mustHaveForgotten(t, "reserve", err); errors.Is(err, quota.ErrRefused) {
				t.Errorf("%v is passed off as a refusal", err)
			}

			if _, err := open(t, client, prefix).Record(bg, quota.Request{Restore: true, Charges: []quota.Charge{units(90, 100)}}); err != nil {
				t.Fatalf("put back what was spent: %v", err)
			}
			for i, s := range []quota.Store{s, other, idle} {
				if n := mustReserve(t, s, "", 1); n != int64(95+i) {
					t.Errorf("%d used, want %d", n, 95+i)
				}
			}
		})
	}
}

// A process that used a page in any way notices when the page was set back. It can then
// put the spend back.
func TestWhatIsSetBack(t *testing.T) {
	sv := start(t, "--save", "3600 1", "--appendonly", "no")
	one := []quota.Charge{units(1, 100)}
	for _, deed := range []struct {
		name string
		do   func(s quota.Store, token quota.Token) error
	}{
		{"a reservation of two pools", func(s quota.Store, _ quota.Token) error {
			_, err := s.Reserve(bg, both(1))
			return err
		}},
		{"settle", func(s quota.Store, token quota.Token) error {
			_, err := s.Settle(bg, token, quota.Units{"units": 20})
			return err
		}},
		{"record", func(s quota.Store, _ quota.Token) error { return errOf(s.Record(bg, quota.Request{Charges: one})) }},
		{"block", func(s quota.Store, _ quota.Token) error {
			return s.Block(bg, quota.BlockRequest{Charges: one, For: time.Hour})
		}},
		{"look at what others did", func(s quota.Store, _ quota.Token) error {
			_, err := s.Look(bg, one)
			return err
		}},
	} {
		t.Run(deed.name, func(t *testing.T) {
			c, p := dial(t, sv.Addr), prefix()
			s := open(t, c, p)
			v, err := reserve(s, "id-1", 3)
			if err != nil {
				t.Fatal(err)
			}
			run(t, sv, "save")
			mustReserve(t, open(t, c, p), "id-2", 10)
			if err := deed.do(s, quota.Token{Upstream: "api", Account: quota.DefaultAccount, ID: "id-1", Nonce: v.Nonce}); err != nil {
				t.Fatal(err)
			}
			sv.Kill()
			restart(t, sv)
			forgotten(t, "the page is set back", s, quota.Request{Charges: one})
			if _, err := s.Record(bg, quota.Request{Restore: true, Charges: []quota.Charge{units(10, 100)}}); err != nil {
				t.Fatal(err)
			}
			if n := mustReserve(t, s, "", 1); n != 14 {
				t.Errorf("%d used, want 14", n)
			}
		})
	}
}

// A page that is where it was is no loss, whatever way it took there: its clock steps
// forth and back, it is re-based, it is laid out anew, others write it, and replies
// overtake each other.
func TestPageThatIsNotSetBack(t *testing.T) {
	clock := storetest.NewClock()
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	c, p := dial(t, server.Addr), prefix()
	stores := []*redisstore.Store{open(t, c, p), open(t, c, p)}
	began := clock.Now()
	layouts := pool("units", 1, 1<<30).Windows
	var revision atomic.Int64
	mustNotBeLost := func(what string, err error) {
		if err != nil && !errors.Is(err, quota.ErrStaleBook) { // who is overtaken by a higher revision is told so
			t.Errorf("%s: %v", what, err)
		}
	}
	var wg sync.WaitGroup
	for i := range streams {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for range scaled(200, 5_000) {
				charge := units(1, 1<<30)
				switch random.IntN(12) {
				case 0:
					clock.Set(began.Add(time.Duration(random.IntN(1000)) * time.Hour)) // more than a window forth or back
				case 1, 2:
					clock.Set(clock.Now().Add(time.Duration(random.IntN(7200)-3600) * time.Second))
				case 3:
					revision.Add(1)
				}
				charge.Revision += revision.Load()
				charge.Windows = layouts[charge.Revision%2:] // each revision has another layout
				s := stores[random.IntN(len(stores))]
				if random.IntN(4) == 0 {
					_, err := s.Look(bg, []quota.Charge{charge})
					mustNotBeLost("look", err)
				} else {
					_, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{charge}})
					mustNotBeLost("reserve", err)
				}
			}
		})
	}
	wg.Wait()
}
