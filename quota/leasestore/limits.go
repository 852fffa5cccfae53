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

// KeyLimits implements [quota.LimitKeeper].
func (s *Store) KeyLimits(ctx context.Context, after int64, most int) ([]quota.KeyLimit, error) {
	if store, has := s.store.(quota.LimitKeeper); has {
		return store.KeyLimits(ctx, after, most)
	}
	return nil, quota.ErrNoLimits
}

// KeyLimit implements [quota.LimitKeeper].
func (s *Store) KeyLimit(ctx context.Context, family, key string) (*quota.KeyLimit, error) {
	if store, has := s.store.(quota.LimitKeeper); has {
		return store.KeyLimit(ctx, family, key)
	}
	return nil, quota.ErrNoLimits
}

// LimitChanges implements [quota.LimitKeeper].
func (s *Store) LimitChanges(ctx context.Context, most int) ([]quota.KeyLimit, error) {
	if store, has := s.store.(quota.LimitKeeper); has {
		return store.LimitChanges(ctx, most)
	}
	return nil, quota.ErrNoLimits
}

var _ quota.NoteKeeper = (*Store)(nil)

// SwapNote implements [quota.NoteKeeper].
func (s *Store) SwapNote(ctx context.Context, name string, version int64, text string) (quota.Note, bool, error) {
	if store, has := s.store.(quota.NoteKeeper); has {
		return store.SwapNote(ctx, name, version, text)
	}
	return quota.Note{}, false, quota.ErrNoLimits
}
