// Members measures what the members of a large family cost in each store: the time of a
// decision about a new key and about a known one, and the bytes of each. Keys have 32
// bytes. The window is the estimate from two counters. Then it measures whether as many
// limits that were set at run time slow a decision.
//
//	go run ./members
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/window"
)

func main() {
	n := flag.Int("n", 1_000_000, "members")
	callers := flag.Int("callers", 16, "how many call at once; in memory one does")
	only := flag.String("only", "", "stores whose names hold this; \"limits\" measures only the limits")
	turns := flag.Int("turns", 15, "turns of ledgers with and without limits, of which the median counts")
	flag.Parse()
	if err := run(context.Background(), *n, *callers, *turns, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench-members:", err)
		os.Exit(1)
	}
}

// A subject is what keeps members.
type subject struct {
	name string
	// open returns a call for a member, what it takes by now in bytes, and how long the
	// server was busy, if there is one.
	open func(ctx context.Context, dir string) (*opened, error)
	one  bool // one caller
}

type opened struct {
	call  func(ctx context.Context, i int) error
	bytes func(ctx context.Context) (int64, error)
	busy  func(ctx context.Context) (float64, error) // microseconds; nil without a server
	end   func()
}

func run(ctx context.Context, n, callers, turns int, only string) error {
	dir, err := os.MkdirTemp("", "bench-members")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fmt.Printf("%d members, keys of 32 B, two counters of an hour, %d callers\n\n", n, callers)
	fmt.Printf("%-22s %8s %12s %12s %14s %14s\n", "", "B each", "us, new", "us, known", "server, new", "server, known")
	for _, s := range []subject{
		{"memory", openMemory, true},
		{"SQLite", openSQLite, false},
		{"Redis", openRedis(ours), false},
		{"Redis: SET with PX", openRedis(bare), false},
	} {
		if !strings.Contains(s.name, only) {
			continue
		}
		calling := callers
		if s.one {
			calling = 1
		}
		if err := measure(ctx, s, filepath.Join(dir, s.name), n, calling); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if only != "" && only != "limits" {
		return nil
	}
	return limits(ctx, n, turns, dir)
}

func measure(ctx context.Context, s subject, dir string, n, callers int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	o, err := s.open(ctx, dir)
	if err != nil {
		return err
	}
	defer o.end()
	if err := o.call(ctx, n); err != nil { // what is there only once
		return err
	}
	before, err := o.bytes(ctx)
	if err != nil {
		return err
	}
	var took [2]time.Duration
	var busy [2]float64
	var bytes int64
	for pass := range took {
		if took[pass], busy[pass], err = fill(ctx, o, n, callers); err != nil {
			return err
		}
		if pass == 0 {
			if bytes, err = o.bytes(ctx); err != nil {
				return err
			}
		}
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }
	fmt.Printf("%-22s %8.0f %12.2f %12.2f", s.name, float64(bytes-before)/float64(n), each(took[0]), each(took[1]))
	if o.busy != nil {
		fmt.Printf(" %14.2f %14.2f", busy[0]/float64(n), busy[1]/float64(n))
	}
	fmt.Println()
	return nil
}

// fill calls once for each member.
func fill(ctx context.Context, o *opened, n, callers int) (took time.Duration, busy float64, err error) {
	var before float64
	if o.busy != nil {
		if before, err = o.busy(ctx); err != nil {
			return 0, 0, err
		}
	}
	began := time.Now()
	var all sync.WaitGroup
	errs := make([]error, callers)
	for w := range callers {
		all.Go(func() {
			for i := w; i < n && errs[w] == nil; i += callers {
				errs[w] = o.call(ctx, i)
			}
		})
	}
	all.Wait()
	took = time.Since(began)
	for _, err := range errs {
		if err != nil {
			return 0, 0, err
		}
	}
	if o.busy != nil {
		if busy, err = o.busy(ctx); err != nil {
			return 0, 0, err
		}
	}
	return took, busy - before, nil
}

func key(i int) string { return fmt.Sprintf("%032d", i) }

// ledger returns a call that reserves for a member.
func ledger(s quota.Store) func(context.Context, int) error {
	spec, err := window.Spec{Per: time.Hour, Algorithm: window.Estimate}.Normal()
	if err != nil {
		panic(err) // it is a constant
	}
	windows := []window.Limit{window.NewLimit(spec, 1000)}
	return func(ctx context.Context, i int) error {
		c := quota.Charge{
			Pool:  quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: key(i)},
			Units: 1, Windows: windows, Revision: 1, MaxKeys: 2_000_000,
		}
		v, err := s.Reserve(ctx, quota.Request{Charges: []quota.Charge{c}})
		if err == nil && (!v.Allowed || v.Overflow) {
			err = fmt.Errorf("member %d: %+v", i, v)
		}
		return err
	}
}

func openMemory(context.Context, string) (*opened, error) {
	s := memstore.New(nil)
	return &opened{call: ledger(s), end: func() { runtime.KeepAlive(s) }, bytes: func(context.Context) (int64, error) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc), nil
	}}, nil
}

func openSQLite(ctx context.Context, dir string) (*opened, error) {
	s, err := sqlitestore.Open(ctx, filepath.Join(dir, "ledger.db"), &sqlitestore.Options{Families: true})
	if err != nil {
		return nil, err
	}
	return &opened{call: ledger(s), end: func() { _ = s.Close() }, bytes: func(context.Context) (sum int64, err error) {
		files, err := os.ReadDir(dir)
		for _, f := range files {
			if info, err := f.Info(); err == nil && !strings.HasSuffix(f.Name(), "-shm") && !strings.HasSuffix(f.Name(), "-wal") {
				sum += info.Size()
			}
		}
		return sum, err
	}}, nil
}

func ours(client *redis.Client) (func(context.Context, int) error, error) {
	s, err := redisstore.New(client, &redisstore.Options{Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	return ledger(s), nil
}

// bare keeps a number for each member, and no limit.
func bare(client *redis.Client) (func(context.Context, int) error, error) {
	return func(ctx context.Context, i int) error {
		return client.Set(ctx, "headroom:{client/default}:"+key(i), 1, 2*time.Hour).Err()
	}, nil
}

func openRedis(with func(*redis.Client) (func(context.Context, int) error, error)) func(context.Context, string) (*opened, error) {
	return func(ctx context.Context, dir string) (*opened, error) {
		server, err := redistest.Start(dir)
		if err != nil {
			return nil, err
		}
		client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 64})
		call, err := with(client)
		if err != nil {
			return nil, err
		}
		info := func(ctx context.Context, section string, fields ...string) (float64, error) {
			text, err := client.Info(ctx, section).Result()
			for _, field := range fields {
				var found bool
				if _, text, found = strings.Cut(text, field); !found {
					return 0, err
				}
			}
			return strconv.ParseFloat(text[:strings.IndexAny(text, ",\r")], 64)
		}
		return &opened{
			call: call,
			end:  func() { _ = client.Close(); server.Kill() },
			bytes: func(ctx context.Context) (int64, error) {
				n, err := info(ctx, "memory", "used_memory:")
				return int64(n), err
			},
			busy: func(ctx context.Context) (float64, error) {
				scripts, err := info(ctx, "commandstats", "cmdstat_evalsha:", "usec=")
				if err != nil || scripts > 0 {
					return scripts, err
				}
				return info(ctx, "commandstats", "cmdstat_set:", "usec=")
			},
		}, nil
	}
}
