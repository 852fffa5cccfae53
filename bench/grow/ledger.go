package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/storekit"
)

var storeNames = []string{"memory", "SQLite", "Redis", "PostgreSQL"}

// A ledger is a store of its own: in a file, a server or a database that nobody else uses.
type ledger struct {
	quota.Store
	bytes func(ctx context.Context) (int64, error) // what it takes by now
	end   func()
	copy  func(ctx context.Context, copies int, client bool) error // copies the first account or client so often; nil: it cannot
}

// openers open a new ledger. The directory is empty.
var openers = map[string]func(ctx context.Context, dir string) (*ledger, error){
	"memory": openMemory, "SQLite": openSQLite, "Redis": openRedis, "PostgreSQL": openPostgres,
}

// heap is what the process keeps in memory.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func openMemory(context.Context, string) (*ledger, error) {
	s := memstore.New(&memstore.Options{ReceiptBytes: 1 << 40})
	return &ledger{Store: s, end: func() { runtime.KeepAlive(s) }, bytes: func(context.Context) (int64, error) { return heap(), nil }}, nil
}

func openSQLite(ctx context.Context, dir string) (*ledger, error) {
	path := filepath.Join(dir, "ledger.db")
	s, err := sqlitestore.Open(ctx, path, &sqlitestore.Options{Families: true, Wait: time.Minute})
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(60000)")
	if err != nil {
		return nil, err
	}
	return &ledger{
		Store: s,
		end:   func() { _ = db.Close(); _ = s.Close() },
		bytes: func(ctx context.Context) (n int64, err error) {
			err = db.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&n)
			return n, err
		},
		copy: func(ctx context.Context, copies int, client bool) error {
			if client {
				return copySQLite(ctx, db, copyMembers, copies)
			}
			return copySQLite(ctx, db, copyRows, copies)
		},
	}, nil
}

func openRedis(ctx context.Context, dir string) (*ledger, error) {
	server, err := redistest.Start(dir, "--save", "", "--appendonly", "no")
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: crowds[len(crowds)-1]})
	births := &copied{known: map[string]storekit.Birth{}}
	s, err := redisstore.New(client, &redisstore.Options{Births: births, Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	return &ledger{
		Store: s,
		end:   func() { _ = client.Close(); server.Kill() },
		copy:  func(ctx context.Context, copies int, _ bool) error { return births.copyPools(ctx, client, copies) },
		bytes: func(ctx context.Context) (int64, error) {
			text, err := client.Info(ctx, "memory").Result()
			_, text, _ = strings.Cut(text, "used_memory:")
			text, _, _ = strings.Cut(text, "\r")
			if err != nil {
				return 0, err
			}
			return strconv.ParseInt(text, 10, 64)
		},
	}, nil
}

// postgres is one server for all ledgers, because starting one takes a while. It ends with
// the process.
var postgres = sync.OnceValues(func() (*pgtest.Server, error) { return pgtest.Open() })

func openPostgres(ctx context.Context, dir string) (*ledger, error) {
	server, err := postgres()
	if err != nil {
		return nil, err
	}
	name := "grow" + filepath.Base(dir)
	if err := server.Exec("CREATE DATABASE " + name); err != nil {
		return nil, err
	}
	s, err := pgstore.Open(server.URL(name), &pgstore.Options{Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	db, err := pgx.Connect(ctx, server.URL(name))
	if err != nil {
		return nil, err
	}
	return &ledger{
		Store: s,
		end: func() {
			_ = db.Close(ctx)
			_ = s.Close()
			_ = server.Exec("DROP DATABASE " + name + " WITH (FORCE)")
		},
		bytes: func(ctx context.Context) (n int64, err error) {
			err = db.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&n)
			return n, err
		},
	}, nil
}

// errRefused says that a limit that no call comes near was reached.
var errRefused = errors.New("a reservation was refused")
