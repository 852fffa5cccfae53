package memstore

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headroom-quota/headroom/quota"
)

// limits are the limits of keys that were set while the program runs, and the notes.
type limits struct {
	change  atomic.Int64 // counts the changes
	mu      sync.Mutex
	set     map[limitKey]quota.KeyLimit
	changes []quota.KeyLimit // by their versions: the limits in force, and the last changes
	notes   map[string]quota.Note
}

type limitKey struct{ family, key string }

var _ quota.LimitKeeper = (*Store)(nil)

// beside calls do with the limits and the notes, which nobody else uses meanwhile.
func (s *Store) beside(ctx context.Context, do func(*limits)) error {
	if s == nil || s.backend == nil {
		return quota.BadInput("this store was not made by memstore.New")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	k := &s.backend.limits
	k.mu.Lock()
	defer k.mu.Unlock()
	do(k)
	return nil
}

// SetLimit implements [quota.LimitKeeper].
func (s *Store) SetLimit(ctx context.Context, l quota.KeyLimit) (quota.KeyLimit, error) {
	err := s.beside(ctx, func(k *limits) {
		l.At = s.backend.clock.Now().UTC()
		l.Version = l.At.UnixMicro()
		if n := len(k.changes); n > 0 {
			l.Version = max(l.Version, k.changes[n-1].Version+1)
		}
		if k.set == nil {
			k.set = make(map[limitKey]quota.KeyLimit)
		}
		k.change.Add(1)
		k.set[limitKey{l.Family, l.Key}] = l
		k.changes = append(k.changes, l)
		if n := len(k.changes); n > 2*(len(k.set)+quota.MaxLimitChanges) {
			old := k.changes[:n-quota.MaxLimitChanges]
			old = slices.DeleteFunc(old, func(c quota.KeyLimit) bool { return !k.holds(&c) })
			k.changes = append(old, k.changes[n-quota.MaxLimitChanges:]...)
		}
	})
	return l, err
}

// LimitChange returns a number that is another one after each change of a limit, and 0 before the first.
func (s *Store) LimitChange() int64 {
	if s == nil || s.backend == nil {
		return 0
	}
	return s.backend.limits.change.Load()
}

// holds reports whether a change is the last one of its key.
func (k *limits) holds(c *quota.KeyLimit) bool {
	return k.set[limitKey{c.Family, c.Key}].Version == c.Version
}

// KeyLimits implements [quota.LimitKeeper].
func (s *Store) KeyLimits(ctx context.Context, after int64, most int) (all []quota.KeyLimit, err error) {
	err = s.beside(ctx, func(k *limits) {
		first, _ := slices.BinarySearchFunc(k.changes, after, func(c quota.KeyLimit, after int64) int {
			return cmp.Or(cmp.Compare(c.Version, after), -1)
		})
		for i := first; i < len(k.changes) && len(all) < most; i++ {
			if k.holds(&k.changes[i]) {
				all = append(all, k.changes[i])
			}
		}
	})
	return all, err
}

// KeyLimit implements [quota.LimitKeeper].
func (s *Store) KeyLimit(ctx context.Context, family, key string) (found *quota.KeyLimit, err error) {
	err = s.beside(ctx, func(k *limits) {
		if l, known := k.set[limitKey{family, key}]; known {
			found = &l
		}
	})
	return found, err
}

// LimitChanges implements [quota.LimitKeeper].
func (s *Store) LimitChanges(ctx context.Context, most int) (last []quota.KeyLimit, err error) {
	err = s.beside(ctx, func(k *limits) {
		last = slices.Clone(k.changes[max(0, len(k.changes)-min(most, quota.MaxLimitChanges)):])
		slices.Reverse(last)
	})
	return last, err
}

var _ quota.NoteKeeper = (*Store)(nil)

// SwapNote implements [quota.NoteKeeper].
func (s *Store) SwapNote(ctx context.Context, name string, version int64, text string) (n quota.Note, swapped bool, err error) {
	var bad error
	err = s.beside(ctx, func(k *limits) {
		if bad = quota.CheckNote(name, version, text); bad != nil {
			return
		}
		n = k.notes[name]
		if swapped = n.Version == version; swapped {
			if k.notes == nil {
				k.notes = make(map[string]quota.Note)
			}
			n = quota.Note{Text: text, Version: version + 1}
			k.notes[name] = n
		}
		n.Now = s.backend.clock.Now().UTC()
	})
	return n, swapped, cmp.Or(err, bad)
}
