package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/window"
	"github.com/jackc/pgx/v5"
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
			ends := int64(0)
			if !l.Until.IsZero() {
				ends = l.Until.UnixMicro()
			}
			into, read := limitInto(&set)
			if err := tx.QueryRow(ctx, b.sql["limit_set"], l.Family, l.Key, l.Quota, l.By, l.Reason, int64(quota.MaxLimitChanges), now, ends).Scan(into...); err != nil {
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
	var made, ends int64
	return []any{&l.Family, &l.Key, &l.Quota, &l.By, &l.Reason, &made, &l.Version, &ends}, func() {
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
	b := s.server
	ctx, cancel := b.bound(ctx)
	defer cancel()
	if err = b.open(ctx); err == nil {
		n, swapped, err = b.swapNote(ctx, name, version, text)
	}
	if err != nil {
		return quota.Note{}, false, b.fault("write to", err)
	}
	return n, swapped, nil
}

// swapNote writes first, and reads only what it could not write: a write that waits for another
// one sees the version that the other one left.
func (b *server) swapNote(ctx context.Context, name string, version int64, text string) (n quota.Note, swapped bool, err error) {
	query, args := "note_find", []any{name}
	if version >= 0 {
		query, args = "note_swap", []any{name, version, text}
	}
	for range 2 {
		var now window.Instant
		err = b.pool.QueryRow(ctx, b.sql[query], args...).Scan(&n.Text, &n.Version, (*int64)(&now))
		if query == "note_swap" && errors.Is(err, pgx.ErrNoRows) {
			query, args = "note_find", []any{name}
			continue
		}
		if n.Now = now.Time(); b.clock != nil {
			n.Now = b.clock.Now().UTC()
		}
		break
	}
	return n, query == "note_swap" && err == nil, err
}

var _ lease.Server = (*Store)(nil)

// TakeLease gives the lease of a name to a holder for a time, by the server's clock. The
// token is above all that were given before. If another has it, the error is a
// [lease.ErrHeld], and says who has it and until when. [lease.Shared] locks with it.
func (s *Store) TakeLease(ctx context.Context, name, holder string, life time.Duration) (token int64, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	b := s.server
	ctx, cancel := b.bound(ctx)
	defer cancel()
	var taken bool
	var has string
	var until time.Time
	if err = b.open(ctx); err == nil {
		take := func() error {
			return b.pool.QueryRow(ctx, b.sql["lease_take"], name, holder, life.Microseconds()).Scan(&taken, &token, &has, &until)
		}
		if err = take(); errors.Is(err, pgx.ErrNoRows) { // another process took it at the same moment
			err = take()
		}
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("lease %s: %w: %w", name, quota.ErrOutage, b.fault("write to", err))
	case !taken:
		return 0, fmt.Errorf("%w: %s is held by %s, until %s UTC at the latest if it has died", lease.ErrHeld, name, has, until.UTC().Format(time.TimeOnly))
	}
	return token, nil
}

// KeepLease prolongs a lease from now on, or gives it back if life is 0. It reports
// whether the lease was still held under this token.
func (s *Store) KeepLease(ctx context.Context, name string, token int64, life time.Duration) (held bool, err error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	b := s.server
	ctx, cancel := b.bound(ctx)
	defer cancel()
	if err := b.open(ctx); err != nil {
		return false, b.fault("write to", err)
	}
	tag, err := b.pool.Exec(ctx, b.sql["lease_keep"], name, token, life.Microseconds())
	return tag.RowsAffected() == 1, b.fault("write to", err)
}
