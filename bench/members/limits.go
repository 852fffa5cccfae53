package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// limited is a ledger with limits that were set at run time: as many as there are members,
// or none.
type limited struct {
	quota.Store
	*quota.Ledger
	fill func(ctx context.Context, n int) error // sets limits, faster than one by one
	end  func()

	set   int           // limits
	first time.Duration // how long the first decision took
	whole time.Duration // until all limits were read
	bytes int64         // what the process keeps of them
	took  []time.Duration
}

var limitedStores = []struct {
	name string
	open func(ctx context.Context, dir string) (*limited, error)
}{
	{"SQLite", openLimitedSQLite},
	{"Redis", openLimitedRedis},
}

// limits measures decisions beside stored limits. Ledgers with and without them take turns.
func limits(ctx context.Context, n, turns int, dir string) error {
	fmt.Printf("\n%d limits set at run time, keys of 32 B, one caller\n\n", n)
	fmt.Printf("%-10s %14s %14s %14s %14s %14s %14s\n", "", "us, none", "us, stored", "ratio", "B in process", "first, ms", "all read, ms")
	for _, store := range limitedStores {
		var both [2]*limited
		for i, stored := range []int{0, n} {
			own := filepath.Join(dir, fmt.Sprint("limits-", store.name, stored))
			if err := os.Mkdir(own, 0o700); err != nil {
				return err
			}
			l, err := store.open(ctx, own)
			if err != nil {
				return err
			}
			defer l.end()
			if err := l.begin(ctx, stored); err != nil {
				return fmt.Errorf("%s: %w", store.name, err)
			}
			for k := range min(n, 1000) { // so that no page is new
				if err := l.decide(ctx, timed(k, n)); err != nil {
					return fmt.Errorf("%s: %w", store.name, err)
				}
			}
			both[i] = l
		}
		var ratios []float64
		for range turns {
			var took [2]time.Duration
			for _, i := range rand.Perm(2) {
				var err error
				if took[i], err = both[i].turn(ctx, n); err != nil {
					return fmt.Errorf("%s: %w", store.name, err)
				}
				both[i].took = append(both[i].took, took[i])
			}
			ratios = append(ratios, float64(took[1])/float64(took[0]))
		}
		none, stored := both[0], both[1]
		slices.Sort(ratios)
		fmt.Printf("%-10s %14.1f %14.1f %14.2f %14.0f %14.0f %14d\n", store.name, none.median(), stored.median(), ratios[len(ratios)/2],
			float64(stored.bytes)/float64(n), float64(stored.first.Milliseconds()), stored.whole.Milliseconds())
	}
	return nil
}

func (l *limited) median() float64 {
	slices.Sort(l.took)
	return float64(l.took[len(l.took)/2].Nanoseconds()) / 1000
}

// begin stores limits, and decides once, which reads them.
func (l *limited) begin(ctx context.Context, n int) error {
	if err := l.fill(ctx, n); err != nil {
		return err
	}
	l.set = n
	costs, err := book.Parse("bench.yaml", []byte("revision: 1\nfamilies: {client: {quota: 1000000, windows: [{per: 1h, algorithm: counter}], max_keys: 2000000}}"), nil)
	if err != nil {
		return err
	}
	store := &readStore{l.Store, l.Store.(quota.LimitKeeper), make(chan struct{}), sync.Once{}}
	if l.Ledger, err = quota.New(costs, store, nil); err != nil {
		return err
	}
	before := inUse()
	began := time.Now()
	if err := l.decide(ctx, 0); err != nil {
		return err
	}
	l.first = time.Since(began)
	select { // no call waits for that
	case <-store.all:
	case <-time.After(5 * time.Minute):
		return errors.New("the ledger did not read all limits in five minutes")
	}
	l.whole = time.Since(began)
	l.bytes = inUse() - before
	return nil
}

// readStore tells when all its limits were read.
type readStore struct {
	quota.Store
	quota.LimitKeeper
	all  chan struct{}
	once sync.Once
}

// KeyLimits implements [quota.LimitKeeper].
func (s *readStore) KeyLimits(ctx context.Context, after int64, most int) ([]quota.KeyLimit, error) {
	some, err := s.LimitKeeper.KeyLimits(ctx, after, most)
	if err == nil && len(some) < most {
		s.once.Do(func() { close(s.all) })
	}
	return some, err
}

// timed returns the number of the ith key that is timed, of at most a thousand.
func timed(i, n int) int { return i * (n / min(n, 1000)) }

// storedQuota is the limit of each key.
const storedQuota = 2_000_000

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func (l *limited) decide(ctx context.Context, i int) error {
	r, err := l.Ledger.Reserve(ctx, quota.Call{Family: "client", Key: key(i)})
	if err == nil && l.set > 0 && r.Limit != storedQuota {
		err = fmt.Errorf("key %d has a limit of %d, want %d", i, r.Limit, storedQuota)
	}
	return err
}

// turn returns the median time of some decisions, each about one of a thousand keys that
// have a limit.
func (l *limited) turn(ctx context.Context, n int) (time.Duration, error) {
	took := make([]time.Duration, 200)
	for k := range took {
		began := time.Now()
		if err := l.decide(ctx, timed(rand.IntN(min(n, 1000)), n)); err != nil {
			return 0, err
		}
		took[k] = time.Since(began)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

func openLimitedSQLite(ctx context.Context, dir string) (*limited, error) {
	path := filepath.Join(dir, "ledger.db")
	s, err := sqlitestore.Open(ctx, path, &sqlitestore.Options{Families: true})
	if err != nil {
		return nil, err
	}
	return &limited{Store: s, end: func() { _ = s.Close() }, fill: func(ctx context.Context, n int) error {
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(60000)")
		if err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, `WITH RECURSIVE numbers (n) AS (SELECT 0 WHERE ?1 > 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1 - 1)
			INSERT INTO limits (family, key, quota, who, why, made, version)
			SELECT 'client', printf('%032d', n), ?2, 'ann', 'a larger plan', ?3, ?3 + n FROM numbers`, n, storedQuota, time.Now().UnixMicro())
		if err == nil { // a million small transactions would leave a small -wal file, too
			_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
		}
		return errors.Join(err, db.Close())
	}}, nil
}

// setLimits stores limits as the store does. See limit_set.lua there.
var setLimits = redis.NewScript(`
for n = ARGV[1], ARGV[2] do
  local field = string.format('client/%032d', n)
  local version = string.format('%.0f', ARGV[3] + n)
  redis.call('HSET', KEYS[1], field, version .. ' ' .. version .. ' {"quota":' .. ARGV[4] .. ',"who":"ann","why":"a larger plan"}')
  redis.call('ZADD', KEYS[2], version, field)
end`)

func openLimitedRedis(ctx context.Context, dir string) (*limited, error) {
	server, err := redistest.Start(dir, "--save", "", "--appendonly", "no")
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	s, err := redisstore.New(client, &redisstore.Options{Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	return &limited{Store: s, end: func() { _ = client.Close(); server.Kill() }, fill: func(ctx context.Context, n int) error {
		const each = 10_000
		now := strconv.FormatInt(time.Now().UnixMicro(), 10)
		for from := 0; from < n; from += each {
			err := setLimits.Run(ctx, client, []string{"headroom:{limits}:set", "headroom:{limits}:versions"}, from, min(from+each, n)-1, now, storedQuota).Err()
			if err != nil && !errors.Is(err, redis.Nil) { // the script returns nothing
				return err
			}
		}
		return nil
	}}, nil
}
