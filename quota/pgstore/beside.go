package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/jackc/pgx/v5"
)

var _ quota.LimitKeeper = (*Store)(nil)

// SetLimit implements [quota.LimitKeeper].
func (s *Store) SetLimit(ctx context.Context, l quota.KeyLimit) (set quota.KeyLimit, err error) {
	err = s.beside(ctx, func(ctx context.Context, b *server) error {
		return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, b.sql["limits_lock"]); err != nil {
				return err
			}
			var now *int64 // the server's
			if b.clock != nil {
				now = new(b.clock.Now().UnixMicro())
			}
			ends := int64(0)
			if !l.Until.IsZero() {
				ends = l.Until.UnixMicro()
			}
			into, read := limitInto(&set)
			if err := tx.QueryRow(ctx, b.sql["limit_set"], l.Family, l.Key, l.Quota, l.By, l.Reason, int64(quota.MaxLimitChanges), now, ends, l.Headroom).Scan(into...); err != nil {
				return err
			}
			read()
			return nil
		})
	})
	if err != nil {
		return l, err
	}
	return set, nil
}

// beside writes beside the pages, within the store's timeout.
func (s *Store) beside(ctx context.Context, do func(context.Context, *server) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	b := s.server
	ctx, cancel := b.bound(ctx)
	defer cancel()
	err := b.open(ctx)
	if err == nil {
		err = do(ctx, b)
	}
	return b.fault("write to", err)
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
	var made, ends int64
	var headroom *int64
	return []any{&l.Family, &l.Key, &l.Quota, &l.By, &l.Reason, &made, &l.Version, &ends, &headroom}, func() {
		l.Headroom = headroom
		if l.At, l.Until = time.UnixMicro(made).UTC(), (time.Time{}); ends != 0 {
			l.Until = time.UnixMicro(ends).UTC()
		}
	}
}

var _ quota.NoteKeeper = (*Store)(nil)

// SwapNote implements [quota.NoteKeeper].
func (s *Store) SwapNote(ctx context.Context, name string, version int64, text string) (n quota.Note, swapped bool, err error) {
	if err := s.ready(ctx); err != nil {
		return n, false, err
	}
	if err := quota.CheckNote(name, version, text); err != nil {
		return n, false, err
	}
	err = s.beside(ctx, func(ctx context.Context, b *server) error {
		var now int64
		err := pgx.ErrNoRows
		// A write that waits for another one sees the version that the other one left. So what could not be written is read.
		if version >= 0 {
			err = b.pool.QueryRow(ctx, b.sql["note_swap"], name, version, text).Scan(&n.Text, &n.Version, &now)
			swapped = err == nil
		}
		if errors.Is(err, pgx.ErrNoRows) {
			err = b.pool.QueryRow(ctx, b.sql["note_find"], name).Scan(&n.Text, &n.Version, &now)
		}
		n.Now = b.now(now).UTC()
		return err
	})
	if err != nil {
		return quota.Note{}, false, err
	}
	return n, swapped, nil
}

var _ lease.Server = (*Store)(nil)

// TakeLease implements [lease.Server], by the server's clock. [lease.Shared] locks with it.
func (s *Store) TakeLease(ctx context.Context, name, holder string, life time.Duration) (token int64, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	var taken bool
	var has string
	var until time.Time
	err = s.beside(ctx, func(ctx context.Context, b *server) (err error) {
		err = pgx.ErrNoRows // as if another process had just taken it
		for tries := 0; tries < 5 && errors.Is(err, pgx.ErrNoRows); tries++ {
			err = b.pool.QueryRow(ctx, b.sql["lease_take"], name, holder, life.Microseconds()).Scan(&taken, &token, &has, &until)
		}
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, fmt.Errorf("%w: %s is changing hands; try again", lease.ErrHeld, name)
	case err != nil:
		return 0, fmt.Errorf("lease %s: %w: %w", name, quota.ErrOutage, err)
	case !taken:
		return 0, fmt.Errorf("%w: %s is held by %s, until %s UTC at the latest if it has died", lease.ErrHeld, name, has, until.UTC().Format(time.TimeOnly))
	}
	return token, nil
}

// KeepLease implements [lease.Server].
func (s *Store) KeepLease(ctx context.Context, name string, token int64, life time.Duration) (held bool, err error) {
	err = s.beside(ctx, func(ctx context.Context, b *server) error {
		tag, err := b.pool.Exec(ctx, b.sql["lease_keep"], name, token, life.Microseconds())
		held = tag.RowsAffected() == 1
		return err
	})
	return held, err
}
