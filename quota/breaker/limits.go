package breaker

import (
	"context"

	"github.com/headroom-quota/headroom/quota"
)

func (s *Store) SetLimit(ctx context.Context, l quota.KeyLimit) (quota.KeyLimit, error) {
	return through(ctx, s, nil, func(ctx context.Context) (quota.KeyLimit, error) { return s.store.SetLimit(ctx, l) })
}

func (s *Store) KeyLimits(ctx context.Context, after int64, most int) ([]quota.KeyLimit, error) {
	s.probeLimits()
	return through(ctx, s, nil, func(ctx context.Context) ([]quota.KeyLimit, error) { return s.store.KeyLimits(ctx, after, most) })
}

func (s *Store) KeyLimit(ctx context.Context, family, key string) (*quota.KeyLimit, error) {
	s.probeLimits()
	return through(ctx, s, nil, func(ctx context.Context) (*quota.KeyLimit, error) { return s.store.KeyLimit(ctx, family, key) })
}

func (s *Store) LimitChanges(ctx context.Context, most int) ([]quota.KeyLimit, error) {
	return through(ctx, s, nil, func(ctx context.Context) ([]quota.KeyLimit, error) { return s.store.LimitChanges(ctx, most) })
}

func (s *Store) SwapNote(ctx context.Context, name string, version int64, text string) (quota.Note, bool, error) {
	type answer struct {
		note    quota.Note
		swapped bool
	}
	a, err := through(ctx, s, nil, func(ctx context.Context) (a answer, err error) { // it may run on behind the caller
		a.note, a.swapped, err = s.store.SwapNote(ctx, name, version, text)
		return a, err
	})
	return a.note, a.swapped, err
}

// probeLimits probes if it is time to. A ledger that has not read its limits yet asks for nothing
// else, so without this it would never find out that the store is back.
func (s *Store) probeLimits() {
	s.probe(func(ctx context.Context) error {
		_, err := s.store.KeyLimits(ctx, -1, 1)
		return err
	})
}
