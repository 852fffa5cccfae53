package breaker

import (
	"context"
	"errors"

	"github.com/sony/gobreaker/v2"

	"github.com/headroom-quota/headroom/quota"
)

// SetLimit implements [quota.LimitKeeper].
func (s *Store) SetLimit(ctx context.Context, l quota.KeyLimit) (quota.KeyLimit, error) {
	store, err := s.limits()
	if err != nil {
		return l, err
	}
	return through(ctx, s, nil, func(ctx context.Context) (quota.KeyLimit, error) { return store.SetLimit(ctx, l) })
}

// KeyLimits implements [quota.LimitKeeper].
func (s *Store) KeyLimits(ctx context.Context, after int64, most int) ([]quota.KeyLimit, error) {
	store, err := s.limits()
	if err != nil {
		return nil, err
	}
	s.probeLimits(store)
	return through(ctx, s, nil, func(ctx context.Context) ([]quota.KeyLimit, error) { return store.KeyLimits(ctx, after, most) })
}

// KeyLimit implements [quota.LimitKeeper].
func (s *Store) KeyLimit(ctx context.Context, family, key string) (*quota.KeyLimit, error) {
	store, err := s.limits()
	if err != nil {
		return nil, err
	}
	s.probeLimits(store)
	return through(ctx, s, nil, func(ctx context.Context) (*quota.KeyLimit, error) { return store.KeyLimit(ctx, family, key) })
}

// LimitChanges implements [quota.LimitKeeper].
func (s *Store) LimitChanges(ctx context.Context, most int) ([]quota.KeyLimit, error) {
	store, err := s.limits()
	if err != nil {
		return nil, err
	}
	return through(ctx, s, nil, func(ctx context.Context) ([]quota.KeyLimit, error) { return store.LimitChanges(ctx, most) })
}

// probeLimits probes if it is time to. A ledger that has not read its limits yet asks for nothing
// else, so without this it would never find out that the store is back.
func (s *Store) probeLimits(store quota.LimitKeeper) {
	if s.breaker.State() != gobreaker.StateHalfOpen {
		return
	}
	s.probe(func(ctx context.Context) error {
		if _, err := store.KeyLimits(ctx, -1, 1); !errors.Is(err, quota.ErrNoLimits) {
			return err
		}
		return nil
	})
}

// limits returns the store behind the breaker, which must keep limits.
func (s *Store) limits() (quota.LimitKeeper, error) {
	if s == nil || s.store == nil {
		return nil, errNotMade
	}
	if store, has := s.store.(quota.LimitKeeper); has {
		return store, nil
	}
	return nil, quota.ErrNoLimits
}
