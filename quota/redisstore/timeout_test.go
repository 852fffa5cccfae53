package redisstore_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
)

// operation is one of a store's, on the pool api/units.
type operation struct {
	name string
	do   func(context.Context, *redisstore.Store) error
}

// operations are all operations of a store, on the data that prepare has left. Some tests
// ignore their results and check only that they return.
func operations(token quota.Token) []operation {
	return []operation{
		{"reserve", func(ctx context.Context, s *redisstore.Store) error {
			_, err := s.Reserve(ctx, quota.Request{Charges: []quota.Charge{units(1, 100)}})
			return err
		}},
		{"reserve what is refused", func(ctx context.Context, s *redisstore.Store) error {
			_, err := s.Reserve(ctx, quota.Request{Charges: []quota.Charge{units(100, 100)}})
			return err
		}},
		{"settle", func(ctx context.Context, s *redisstore.Store) error {
			_, err := s.Settle(ctx, token, quota.Units{"units": 1})
			return err
		}},
		{"record", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Record(ctx, quota.Request{Charges: []quota.Charge{units(1, 100)}}))
		}},
		{"block", func(ctx context.Context, s *redisstore.Store) error {
			return s.Block(ctx, quota.BlockRequest{Charges: []quota.Charge{units(0, 100)}, For: time.Microsecond})
		}},
		{"look", func(ctx context.Context, s *redisstore.Store) error {
			_, err := s.Look(ctx, []quota.Charge{units(0, 100)})
			return err
		}},
		{"spend", func(ctx context.Context, s *redisstore.Store) error {
			_, err := s.Spend(ctx, quota.SpendQuery{Upstream: "api", Account: quota.DefaultAccount})
			return err
		}},
		{"reserve for a family's member", func(ctx context.Context, s *redisstore.Store) error {
			c := units(1, 100)
			c.Pool, c.MaxKeys = quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: "10.0.0.1"}, 10
			_, err := s.Reserve(ctx, quota.Request{Charges: []quota.Charge{c}})
			return err
		}},
		{"check", func(ctx context.Context, s *redisstore.Store) error {
			_, err := s.Check(ctx)
			return err
		}},
	}
}

// prepare leaves a reservation of two units, whose token it returns.
func prepare(t testing.TB, s quota.Store) quota.Token {
	t.Helper()
	v, err := reserve(s, "prepared", 2)
	if err != nil || !v.Allowed {
		t.Fatalf("%+v, %v", v, err)
	}
	return quota.Token{Upstream: "api", Account: quota.DefaultAccount, ID: "prepared", Nonce: v.Nonce}
}

// returns runs what must come back although no answer does.
func returns(t *testing.T, what string, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience / 6):
		t.Fatalf("%s: hangs with its server", what)
		return nil
	}
}

// A client that waits for ever shows who keeps the time: no duration is measured.
func TestTimeIsKeptWhateverTheClient(t *testing.T) {
	single := start(t)
	clients := map[string]struct {
		client  redis.UniversalClient
		servers []*redistest.Server
	}{
		"a single server": {
			redis.NewClient(&redis.Options{Addr: single.Addr, ReadTimeout: -1, WriteTimeout: -1}),
			[]*redistest.Server{single},
		},
		"a cluster": {
			dialCluster(t, redis.ClusterOptions{ReadTimeout: -1, WriteTimeout: -1}),
			startedCluster(t).Masters,
		},
	}
	for name, c := range clients {
		t.Cleanup(func() { c.client.Close() })
		p := prefix()
		ops := operations(prepare(t, open(t, c.client, p)))
		stopped := func(t *testing.T) {
			for _, s := range c.servers {
				signal(t, s, syscall.SIGSTOP)
				t.Cleanup(func() { signal(t, s, syscall.SIGCONT) })
			}
		}
		t.Run(name+"/the store's", func(t *testing.T) {
			s := openWith(t, c.client, redisstore.Options{Prefix: p, Timeout: 20 * time.Millisecond})
			stopped(t)
			for _, op := range ops {
				err := returns(t, op.name, func() error { return op.do(bg, s) })
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: got %v, want that it took too long", op.name, err)
				}
				mustBeOutage(t, err)
			}
		})
		t.Run(name+"/the caller's", func(t *testing.T) {
			s := openWith(t, c.client, redisstore.Options{Prefix: p, Timeout: time.Hour})
			stopped(t)
			for _, op := range ops {
				ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
				defer cancel()
				err := returns(t, op.name, func() error { return op.do(ctx, s) })
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: got %v, want that it took too long", op.name, err)
				}
			}
			ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
			defer cancel()
			if _, err := ledger(t, s, 100).Reserve(ctx, quota.Call{Charges: map[string]int64{"units": 1}}); errors.Is(err, quota.ErrOutage) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the ledger: got %v, want the caller's own deadline", err)
			}
		})
		t.Run(name+"/the store's, for a caller that gives up", func(t *testing.T) {
			stopped(t)
			for _, op := range ops {
				var err error
				for timeout := 100 * time.Millisecond; timeout < patience/6; timeout *= 4 { // on a busy machine the caller may give up too late
					s := openWith(t, c.client, redisstore.Options{Prefix: p, Timeout: timeout})
					ctx, cancel := context.WithCancel(bg)
					time.AfterFunc(time.Millisecond, cancel)
					if err = returns(t, op.name, func() error { return op.do(ctx, s) }); errors.Is(err, context.Canceled) {
						break
					}
				}
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s: got %v, want that it was cancelled", op.name, err)
				}
			}
		})
	}
}

func TestNothingIsSentTwice(t *testing.T) {
	single := start(t)
	for name, c := range map[string]struct {
		servers []*redistest.Server
		dial    func(map[string]*redistest.Proxy) redis.UniversalClient
	}{
		"a single server": {[]*redistest.Server{single}, func(proxies map[string]*redistest.Proxy) redis.UniversalClient {
			return dial(t, proxies[single.Addr].Addr)
		}},
		"a cluster": {startedCluster(t).Masters, func(proxies map[string]*redistest.Proxy) redis.UniversalClient {
			return dialCluster(t, redis.ClusterOptions{Dialer: through(proxies)})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			proxies := make(map[string]*redistest.Proxy)
			next := func(f redistest.Fault) {
				for _, p := range proxies {
					p.Once(f)
				}
			}
			for _, s := range c.servers {
				p, err := redistest.StartProxy(s.Addr, 1, 0)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(p.Close)
				proxies[s.Addr] = p
			}
			store := open(t, c.dial(proxies), prefix())
			for _, op := range operations(prepare(t, store)) {
				if err := op.do(bg, store); err != nil { // a connection that works
					t.Fatalf("%s: %v", op.name, err)
				}
				if len(proxies) > 1 && op.name == "check" {
					continue // the replies that would be lost are the client's, which asks for the cluster's state first
				}
				var err error
				for try := 0; err == nil && try < 5; try++ { // the client may ask for the cluster's state meanwhile, and lose that reply
					next(redistest.Reset)
					err = op.do(bg, store)
					next("")
				}
				if err == nil {
					t.Errorf("%s: no error, though the first reply was lost: it was sent again", op.name)
				}
			}
		})
	}
}
