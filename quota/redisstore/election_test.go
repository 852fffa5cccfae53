package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

// A Cluster elects a replica when a master dies. From then on each caller loses one
// call at most, whoever made the client, and whether or not somebody asked while there
// was no master.
func TestNewMasterIsFoundAtOnce(t *testing.T) {
	c, err := redistest.StartCluster(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	for _, end := range []struct {
		name string
		how  func(*testing.T, *redistest.Server)
	}{
		{"of one that dies", func(_ *testing.T, s *redistest.Server) { s.Kill() }},
		{"of one that hangs", func(t *testing.T, s *redistest.Server) {
			signal(t, s, syscall.SIGSTOP)
			t.Cleanup(s.Kill)
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			ctx := patient(t)
			const tag = "{api/default}" // of what reserve reserves
			owner, err := c.Owner(ctx, tag)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.AddReplica(ctx, owner); err != nil {
				t.Fatal(err)
			}
			replica := c.Replicas[0]
			all := storesOf(t, c)
			for _, s := range all {
				s.each(func() error { return s.call(1) }) // so that each caller has a connection
			}
			if err := replica.CatchUp(ctx, owner); err != nil {
				t.Fatal(err)
			}
			if err := c.Lose(ctx, owner, func() { end.how(t, owner) }); err != nil {
				t.Fatal(err)
			}
			elected := make(chan struct{})
			var meanwhile sync.WaitGroup
			for _, s := range all {
				if s.busy {
					meanwhile.Go(func() { s.callUntil(elected) })
				}
			}
			now, err := c.Owner(ctx, tag)
			close(elected)
			meanwhile.Wait()
			if err != nil || now != replica {
				t.Fatalf("%v owns the slot, %v; want the replica", now, err)
			}
			var callers sync.WaitGroup
			for _, s := range all {
				callers.Go(func() { s.callAfter(20) })
			}
			callers.Wait()
		})
	}
}

// The same behind Sentinel, where the client asks for the master when it connects.
func TestNewMasterBehindSentinelIsFoundAtOnce(t *testing.T) {
	sentinel := startSentinel(t, 1, 1)
	s := &calledStore{TB: t, Store: open(t, dialSentinel(t, sentinel), prefix()), name: "behind Sentinel"}
	s.each(func() error { return s.call(1) })
	if err := sentinel.Replicas[0].CatchUp(patient(t), sentinel.Master); err != nil {
		t.Fatal(err)
	}
	failover(t, sentinel)
	s.callAfter(20)
}

// calledStore is a store with several callers.
type calledStore struct {
	testing.TB
	*redisstore.Store
	name string
	busy bool // it is asked while there is no master
}

func storesOf(t testing.TB, c *redistest.Cluster) (all []*calledStore) {
	for _, busy := range []bool{false, true} {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
		t.Cleanup(func() { client.Close() })
		opened, err := redisstore.Open("redis://"+c.Addrs()[0]+"?addr="+strings.Join(c.Addrs()[1:], "&addr="), &redisstore.Options{Prefix: prefix()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { opened.Close() })
		all = append(all,
			&calledStore{t, open(t, client, prefix()), fmt.Sprintf("a user's client (busy: %t)", busy), busy},
			&calledStore{t, opened, fmt.Sprintf("a URL (busy: %t)", busy), busy})
	}
	return all
}

// call takes units without an id: sent twice, it would be charged twice.
func (s *calledStore) call(units int64) error {
	_, err := reserve(s, "", units)
	mustBeOutage(s, err)
	return err
}

// each runs callers at once.
func (s *calledStore) each(do func() error) {
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			if err := do(); err != nil {
				s.Errorf("%s: %v", s.name, err)
			}
		})
	}
	wg.Wait()
}

// callUntil calls for nothing while there is no master.
func (s *calledStore) callUntil(elected <-chan struct{}) {
	s.each(func() error {
		for {
			select {
			case <-elected:
				return nil
			default:
				_ = s.call(0)
			}
		}
	})
}

// callAfter checks that each caller loses one of n calls at most, and that what was
// granted was charged once. A call without an answer may have been charged.
func (s *calledStore) callAfter(n int64) {
	var total atomic.Int64
	s.each(func() error {
		var lost []error
		for range n {
			if err := s.call(1); err != nil {
				lost = append(lost, err)
			}
			if len(lost) > 1 {
				return fmt.Errorf("a caller lost a second call after the election: %w", errors.Join(lost...))
			}
		}
		total.Add(int64(len(lost)))
		return nil
	})
	if s.Failed() {
		return
	}
	calls := streams * (1 + n)
	s.Logf("%s: %d of %d calls lost", s.name, total.Load(), calls)
	if got := used(s, s.Store); got > calls || got < calls-total.Load() {
		s.Errorf("%s: %d units used by %d calls, of which %d were lost", s.name, got, calls, total.Load())
	}
}
