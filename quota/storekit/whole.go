package storekit

import (
	"context"

	"github.com/headroom-quota/headroom/quota"
)

// Whole is a store with everything that a store may do, for stores around another one.
type Whole interface {
	quota.Store
	quota.Identified
	quota.KeyLister
	quota.LimitKeeper
	quota.NoteKeeper
}

// Complete returns a store with answers for what it cannot do: it has no identity, lists no
// keys, and returns [quota.ErrNoLimits] and [quota.ErrNoNotes]. It returns nil for no store.
func Complete(s quota.Store) Whole {
	if s == nil {
		return nil
	}
	return completed{
		s, can[quota.Identified](s, unable{}), can[quota.KeyLister](s, unable{}), can[quota.LimitKeeper](s, unable{}), can[quota.NoteKeeper](s, unable{}),
	}
}

// can returns the store as what it may do, or else the answers of one that cannot.
func can[T any](s quota.Store, otherwise T) T {
	if able, ok := s.(T); ok {
		return able
	}
	return otherwise
}

type completed struct {
	quota.Store
	quota.Identified
	quota.KeyLister
	quota.LimitKeeper
	quota.NoteKeeper
}

// unable is what a store cannot do.
type unable struct{}

func (unable) Identity(context.Context, string, string) (string, error) { return "", nil }

func (unable) Keys(context.Context, quota.Pool, int) ([]string, int, error) { return nil, 0, nil }

func (unable) SetLimit(_ context.Context, l quota.KeyLimit) (quota.KeyLimit, error) {
	return l, quota.ErrNoLimits
}

func (unable) KeyLimits(context.Context, int64, int) ([]quota.KeyLimit, error) {
	return nil, quota.ErrNoLimits
}

func (unable) KeyLimit(context.Context, string, string) (*quota.KeyLimit, error) {
	return nil, quota.ErrNoLimits
}

func (unable) LimitChanges(context.Context, int) ([]quota.KeyLimit, error) {
	return nil, quota.ErrNoLimits
}

func (unable) SwapNote(context.Context, string, int64, string) (quota.Note, bool, error) {
	return quota.Note{}, false, quota.ErrNoNotes
}
