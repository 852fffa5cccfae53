package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
)

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
