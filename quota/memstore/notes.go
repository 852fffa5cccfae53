package memstore

import (
	"context"

	"github.com/headroom-quota/headroom/quota"
)

var _ quota.NoteKeeper = (*Store)(nil)

// SwapNote implements [quota.NoteKeeper].
func (s *Store) SwapNote(ctx context.Context, name string, version int64, text string) (quota.Note, bool, error) {
	k, err := s.limits(ctx)
	if err != nil {
		return quota.Note{}, false, err
	}
	if err := quota.CheckNote(name, version, text); err != nil {
		return quota.Note{}, false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.notes[name]
	swapped := n.Version == version
	if swapped {
		if k.notes == nil {
			k.notes = make(map[string]quota.Note)
		}
		n = quota.Note{Text: text, Version: version + 1}
		k.notes[name] = n
	}
	n.Now = s.backend.clock.Now().UTC()
	return n, swapped, nil
}
