package leasestore

import (
	"context"

	"github.com/headroom-quota/headroom/quota"
)

var _ quota.LimitKeeper = (*Store)(nil)

// SetLimit implements [quota.LimitKeeper].
func (s *Store) SetLimit(ctx context.Context, l quota.KeyLimit) (quota.KeyLimit, error) {
	if store, has := s.store.(quota.LimitKeeper); has {
		return store.SetLimit(ctx, l)
	}
	return l, quota.ErrNoLimits
}

// KeyLimits implements [quota.LimitKeeper]; a store that keeps no limits has none.
func (s *Store) KeyLimits(ctx context.Context, after int64, most int) ([]quota.KeyLimit, error) {
	if store, has := s.store.(quota.LimitKeeper); has {
		return store.KeyLimits(ctx, after, most)
	}
	return nil, nil
}

// KeyLimit implements [quota.LimitKeeper]; a store that keeps no limits has none.
func (s *Store) KeyLimit(ctx context.Context, family, key string) (*quota.KeyLimit, error) {
	if store, has := s.store.(quota.LimitKeeper); has {
		return store.KeyLimit(ctx, family, key)
	}
	return nil, nil
}
