package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/storetest"
	"github.com/headroom-quota/headroom/quota/window"
)

// server is shared by the tests that do not hurt it.
var server *redistest.Server

func TestMain(m *testing.M) {
	if childtest.Do(children) {
		return
	}
	logging.Disable() // connections are lost here all the time
	dir, err := os.MkdirTemp("", "redisstore")
	if err == nil {
		server, err = redistest.Start(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	masters = &lazyCluster{dir: dir}
	code := m.Run()
	server.Kill()
	masters.kill()
	os.RemoveAll(dir)
	os.Exit(code)
}

// start starts a server that a test may hurt. Without args it keeps nothing on
// disk.
func start(t testing.TB, args ...string) *redistest.Server {
	t.Helper()
	s, err := redistest.Start(t.TempDir(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// prefixes keep the tests on one server apart.
var prefixes atomic.Int64

func prefix() string { return fmt.Sprintf("test%d:", prefixes.Add(1)) }

func dial(t testing.TB, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, PoolTimeout: patience})
	t.Cleanup(func() { c.Close() })
	return c
}

func open(t testing.TB, c redis.UniversalClient, prefix string) *redisstore.Store {
	t.Helper()
	return openWith(t, c, redisstore.Options{Prefix: prefix})
}

func openWith(t testing.TB, c redis.UniversalClient, o redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(c, &o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// scaled returns the reduced count, or the full one in a soak.
func scaled(reduced, full int) int {
	if os.Getenv("HEADROOM_SOAK") == "1" {
		return full
	}
	return reduced
}

var bg = context.Background()

// patience bounds what would otherwise hang. Nothing here depends on how long
// things take.
const patience = time.Minute

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(bg, patience)
	t.Cleanup(cancel)
	return ctx
}

// units is a charge of the pool api/units, which has two windows of this limit.
func units(n, limit int64) quota.Charge { return pool("units", n, limit) }

func pool(name string, n, limit int64) quota.Charge {
	c := quota.Charge{Pool: quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: name}, Units: n, Revision: 1}
	for _, per := range []time.Duration{24 * time.Hour, 48 * time.Hour} {
		s, err := window.Spec{Per: per}.Normal()
		if err != nil {
			panic(err)
		}
		c.Windows = append(c.Windows, window.NewLimit(s, limit))
	}
	return c
}

// ledger spends from the pools api/units and api/more, which have this limit.
func ledger(t testing.TB, s quota.Store, limit int64) *quota.Ledger {
	t.Helper()
	costs, err := book.Parse("costs.yaml", fmt.Appendf(nil, `
revision: 1
upstreams:
  api:
    pools:
      units: {quota: %d, headroom: 0, windows: [{per: 24h}, {per: 48h}]}
      more: {quota: %[1]d, headroom: 0, windows: [{per: 24h}, {per: 48h}]}
    methods: {get: {pool: units, cost: 1}, both: {charge: {units: 1, more: 1}}}
`, limit), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := quota.New(costs, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// reserve takes units of api/units, whose limit is 100.
func reserve(s quota.Store, id string, n int64) (quota.Verdict, error) {
	return s.Reserve(bg, quota.Request{ID: id, Charges: []quota.Charge{units(n, 100)}})
}

// mustReserve is reserve where it must be granted; it returns what is used then.
func mustReserve(t testing.TB, s quota.Store, id string, n int64) int64 {
	t.Helper()
	v, err := reserve(s, id, n)
	if err != nil {
		t.Fatalf("reserve %s: %v", id, err)
	}
	if !v.Allowed {
		t.Fatalf("reserve %s: refused: %+v", id, v)
	}
	return v.Used
}

// used is what api/units counts.
func used(t testing.TB, s quota.Store) int64 {
	t.Helper()
	pages, err := s.Look(bg, []quota.Charge{units(0, 100)})
	if err != nil {
		t.Fatalf("look: %v", err)
	}
	return pages[0].Windows[0].Used
}

// until tries again and again until there is an answer: the same call, by its id.
func until[T any](t testing.TB, try func() (T, error)) T {
	t.Helper()
	var got T
	err := redistest.Await(patient(t), func() (err error) {
		got, err = try()
		mustBeOutage(t, err)
		return err
	})
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return got
}

// mustBeOutage checks that a store's error says that it failed, and nothing about
// the question or about what is spent.
func mustBeOutage(t testing.TB, err error) {
	t.Helper()
	var forgotten *quota.ForgottenError
	for _, wrong := range []error{quota.ErrBadInput, quota.ErrStaleBook, quota.ErrRefused, quota.ErrImpossible} {
		if errors.Is(err, wrong) {
			t.Errorf("%v is not %v", err, wrong)
		}
	}
	if errors.As(err, &forgotten) {
		t.Errorf("nothing was forgotten: %v", err)
	}
}

// mustHaveForgotten checks that a loss is noticed.
func mustHaveForgotten(t testing.TB, what string, err error) {
	t.Helper()
	var forgotten *quota.ForgottenError
	if !errors.As(err, &forgotten) || !errors.Is(err, quota.ErrOutage) {
		t.Errorf("%s: got %v, want that the ledger has forgotten", what, err)
	}
}

// run runs a command on a server, beside the stores.
func run(t testing.TB, s *redistest.Server, args ...any) any {
	t.Helper()
	var got any
	err := s.With(func(c *redis.Client) (err error) {
		got, err = c.Do(patient(t), args...).Result()
		return err
	})
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return got
}

// signal stops a server, or lets it go on.
func signal(t testing.TB, s *redistest.Server, sig syscall.Signal) {
	t.Helper()
	if err := s.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// restart starts a server that has ended.
func restart(t testing.TB, s *redistest.Server) {
	t.Helper()
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
}

// harness runs the suite in what client is connected to, on a moved clock.
func harness(t *testing.T, client redis.UniversalClient) storetest.Harness {
	clock := storetest.NewClock()
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	prefixOf := make(map[quota.Store]string)
	again := func(t testing.TB, s quota.Store) quota.Store {
		other := openWith(t, client, redisstore.Options{Prefix: prefixOf[s], Timeout: patience}) // a busy machine is no outage
		prefixOf[other] = prefixOf[s]
		return other
	}
	return storetest.Harness{
		Open: func(t testing.TB) quota.Store {
			p := prefix()
			s := openWith(t, client, redisstore.Options{Prefix: p, Timeout: patience})
			prefixOf[s] = p
			return s
		},
		SetClock: clock.Move,
		Share:    again,
		Reopen:   again,
		Size:     func(t testing.TB, s quota.Store) int64 { return size(t, client, prefixOf[s]) },
		Families: true,
		Members: func(t testing.TB, s quota.Store) (n int) {
			eachPage(t, client, prefixOf[s], func(ctx context.Context, c *redis.Client, key string) error {
				switch page := c.Get(ctx, key); {
				case strings.Contains(key, ":log"), page.Err() != nil:
				case strings.Contains(key, ":page::key:") && !redisstore.MemberUntil(page.Val()).After(clock.Now()):
					// it has expired, by the clock that the scripts see
				case strings.Contains(key, ":page::key:"), strings.Contains(key, ":page:tokens:key:"):
					n++
				}
				return nil
			})
			return n
		},

		Age:        func(t testing.TB, s quota.Store, d time.Duration) { age(t, client, prefixOf[s], d) },
		Operations: scaled(3_000, 100_000),
	}
}

// size is what the pages of a store take; receipts and spend have bounds of their
// own.
func size(t testing.TB, client redis.UniversalClient, prefix string) (n int64) {
	eachPage(t, client, prefix, func(ctx context.Context, c *redis.Client, key string) error {
		bytes, err := c.MemoryUsage(ctx, key).Result()
		n += bytes
		return err
	})
	return n
}

// eachPage does something with the key of each page and log of a store, one by one.
func eachPage(t testing.TB, client redis.UniversalClient, prefix string, do func(context.Context, *redis.Client, string) error) {
	t.Helper()
	var mu sync.Mutex // the masters of a cluster are asked at once
	each := func(ctx context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		keys, err := c.Keys(ctx, prefix+"*:page:*").Result()
		for _, key := range keys {
			if err := do(ctx, c, key); err != nil {
				return err
			}
		}
		return err
	}
	var err error
	switch c := client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(bg, each)
	case *redis.Client:
		err = each(bg, c)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	storetest.Run(t, harness(t, dial(t, server.Addr)))
}

// errOf is the error of a call whose answer does not matter.
func errOf[T any](_ T, err error) error { return err }
