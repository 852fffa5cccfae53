package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

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
	reply, err := s.eval(ctx, s.scripts.leaseTake, []string{leaseKey(s.prefix, name)}, []any{holder, life.Microseconds()})
	switch {
	case err != nil:
		return 0, fmt.Errorf("lease %s: %w: %w", name, quota.ErrOutage, err)
	case len(reply) < 2:
		return 0, fmt.Errorf("lease %s: redis answered %v", name, reply)
	case integer(reply[0]) == 0 && len(reply) > 2:
		until := time.UnixMicro(integer(reply[2])).UTC().Format(time.TimeOnly)
		return 0, fmt.Errorf("%w: %s is held by %v, until %s UTC at the latest if it has died", lease.ErrHeld, name, reply[1], until)
	}
	return strconv.ParseInt(fmt.Sprint(reply[1]), 10, 64) // a script of ours wrote it
}

// KeepLease prolongs a lease from now on, or gives it back if life is 0. It reports
// whether the lease was still held under this token.
func (s *Store) KeepLease(ctx context.Context, name string, token int64, life time.Duration) (held bool, err error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	reply, err := s.eval(ctx, s.scripts.leaseKeep, []string{leaseKey(s.prefix, name)}, []any{token, life.Microseconds()})
	if err != nil {
		return false, err
	}
	return integer(reply[0]) == 1, nil
}
