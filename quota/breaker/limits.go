package breaker

import (
	"context"

	"github.com/headroom-quota/headroom/quota"
)

// SetLimit implements [quota.LimitKeeper].
func (s *Store) SetLimit(ctx context.Context, l quota.KeyLimit) (quota.KeyLimit, error) {
	store, err := s.limits()
	if err != nil {
		return l, err
	}
	if store == nil {
		return l, quota.ErrNoLimits
	}
	return through(ctx, s, nil, func(ctx context.Context) (quota.KeyLimit, error) { return store.SetLimit(ctx, l) })
}

// KeyLimits implements [quota.LimitKeeper]; a store that keeps no limits has none.
func (s *Store) KeyLimits(ctx context.Context, after int64, most int) ([]quota.KeyLimit, error) {
	store, err := s.limits()
	if store == nil {
		return nil, err
	}
	return through(ctx, s, nil, func(ctx context.Context) ([]quota.KeyLimit, error) { return store.KeyLimits(ctx, after, most) })
}

// KeyLimit implements [quota.LimitKeeper]; a store that keeps no limits has none.
func (s *Store) KeyLimit(ctx context.Context, family, key string) (*quota.KeyLimit, error) {
	store, err := s.limits()
	if store == nil {
		return nil, err
	}
	return through(ctx, s, nil, func(ctx context.Context) (*quota.KeyLimit, error) { return store.KeyLimit(ctx, family, key) })
}

// limits returns the store behind the breaker if it keeps limits, or nil.
func (s *Store) limits() (quota.LimitKeeper, error) {
	if s == nil || s.store == nil {
		return nil, errNotMade
	}
	store, _ := s.store.(quota.LimitKeeper)
	return store, nil
}
