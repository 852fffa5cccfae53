package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

var _ quota.LimitKeeper = (*Store)(nil)

// SetLimit implements [quota.LimitKeeper].
func (s *Store) SetLimit(ctx context.Context, l quota.KeyLimit) (set quota.KeyLimit, err error) {
	if err := s.ready(ctx); err != nil {
		return l, err
	}
	b := s.server
	ctx, cancel := b.bound(ctx)
	defer cancel()
	if err = b.open(ctx); err == nil {
		err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, b.sql["limits_lock"]); err != nil {
				return err
			}
			var now *int64 // the server's
			if b.clock != nil {
				at := b.clock.Now().UnixMicro()
				now = &at
			}
			into, read := limitInto(&set)
			if err := tx.QueryRow(ctx, b.sql["limit_set"], l.Family, l.Key, l.Quota, l.By, l.Reason, int64(quota.MaxLimitChanges), now).Scan(into...); err != nil {
				return err
			}
			read()
			return nil
		})
	}
	if err != nil {
		return l, b.fault("write to", err)
	}
	return set, nil
}

// KeyLimits implements [quota.LimitKeeper].
func (s *Store) KeyLimits(ctx context.Context, after int64, most int) (all []quota.KeyLimit, err error) {
	return s.limits(ctx, "limits_after", after, int64(most))
}

// KeyLimit implements [quota.LimitKeeper].
func (s *Store) KeyLimit(ctx context.Context, family, key string) (*quota.KeyLimit, error) {
	if !valid(family) || !valid(key) {
		return nil, nil
	}
	all, err := s.limits(ctx, "limit_find", family, key)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// LimitChanges implements [quota.LimitKeeper].
func (s *Store) LimitChanges(ctx context.Context, most int) ([]quota.KeyLimit, error) {
	return s.limits(ctx, "limit_changes", int64(most))
}

func (s *Store) limits(ctx context.Context, query string, args ...any) (all []quota.KeyLimit, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	t, err := s.server.view(ctx)
	if err != nil {
		return nil, err
	}
	var one quota.KeyLimit
	into, read := limitInto(&one)
	err = t.read(query, args, into, func() error {
		read()
		all = append(all, one)
		return nil
	})
	return all, t.End(err)
}

// limitInto returns where the columns of a limit go, and what completes it after that.
func limitInto(l *quota.KeyLimit) (into []any, read func()) {
	made := new(window.Instant)
	return []any{&l.Family, &l.Key, &l.Quota, &l.By, &l.Reason, (*int64)(made), &l.Version}, func() { l.At = made.Time().UTC() }
}
