package main

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headroom-quota/headroom/bench/duel"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore"
)

// contenders are compared with the first.
var contenders = slices.Concat([]duel.Contender{{Name: "bare UPDATE of one row", Open: bare}}, duel.Ours(
	func(_ context.Context, url string) (quota.Store, func() error, error) {
		s, err := pgstore.Open(url, &pgstore.Options{Timeout: time.Minute})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	},
))

// bare is what a counter in PostgreSQL costs at least: one prepared statement, which is its
// own transaction, on a connection for each caller.
func bare(ctx context.Context, url string, callers int) (func(context.Context) error, func() error, error) {
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
	}, func() error { pool.Close(); return nil }, nil
}
