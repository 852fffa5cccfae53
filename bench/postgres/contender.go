package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// A contender answers after its commit. Each call must be granted or refused as it is meant
// to.
type contender struct {
	name   string
	open   open
	judged bool // by the goals
}

// open opens a database that other processes have open too. It returns what is timed, for
// so many callers at once, and what ends it.
type open func(ctx context.Context, url string, callers int) (do func(context.Context) error, end func(), err error)

// contenders are compared with the first.
var contenders = []contender{
	{name: "bare UPDATE of one row", open: bare},
	{name: "ours: 1 window, receipt, spend", open: reserves(1, roomy), judged: true},
	{name: "ours: 2 windows, receipt, spend", open: reserves(2, roomy), judged: true},
	{name: "ours: 2 windows, refused", open: reserves(2, 0)},
}

// roomy is a limit that no timed call comes near.
const roomy = 1<<31 - 1

// reserves reserves as a ledger does for a transport: with an id that is fresh.
func reserves(windows int, limit int64) open {
	return func(_ context.Context, url string, _ int) (func(context.Context) error, func(), error) {
		s, err := pgstore.Open(url, &pgstore.Options{Timeout: time.Minute})
		if err != nil {
			return nil, nil, err
		}
		pacific, err := time.LoadLocation("America/Los_Angeles")
		if err != nil {
			return nil, nil, err
		}
		c := quota.Charge{
			Pool:  quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"},
			Units: 3, Revision: 1, Zone: pacific,
		}
		for _, spec := range []window.Spec{{Per: 24 * time.Hour}, {Period: window.Day, Zone: pacific}}[:windows] {
			spec, err := spec.Normal()
			if err != nil {
				return nil, nil, err
			}
			c.Windows = append(c.Windows, window.NewLimit(spec, limit))
		}
		var n atomic.Int64
		return func(ctx context.Context) error {
			v, err := s.Reserve(ctx, quota.Request{
				ID: fmt.Sprintf("%08x%08x", os.Getpid(), n.Add(1)), Charges: []quota.Charge{c}, Fresh: true,
				Labels: quota.Labels{Method: "videos.list", Job: "trending", Region: "DE", Class: "backfill"},
			})
			if err == nil && v.Allowed != (limit > 0) {
				err = errors.New("granted what it should have refused, or the other way round")
			}
			return err
		}, func() { _ = s.Close() }, nil
	}
}

// bare is what a counter in PostgreSQL costs at least: one prepared statement, which is its
// own transaction, on a connection for each caller.
func bare(ctx context.Context, url string, callers int) (func(context.Context) error, func(), error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = int32(callers)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	_, err = pool.Exec(ctx, `SELECT pg_advisory_xact_lock(1); CREATE TABLE IF NOT EXISTS bare (id int PRIMARY KEY, n bigint);
		INSERT INTO bare VALUES (1, 0) ON CONFLICT DO NOTHING`)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) error {
		_, err := pool.Exec(ctx, "UPDATE bare SET n = n + 1 WHERE id = 1")
		return err
	}, pool.Close, nil
}
