package sqlitestore

import (
	"context"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
)

var _ quota.NoteKeeper = (*Store)(nil)

// SwapNote implements [quota.NoteKeeper].
func (s *Store) SwapNote(ctx context.Context, name string, version int64, text string) (n quota.Note, swapped bool, err error) {
	if err := s.ready(ctx); err != nil {
		return n, false, err
	}
	if err := quota.CheckNote(name, version, text); err != nil {
		return n, false, err
	}
	if version < 0 {
		return s.readNote(ctx, name)
	}
	err = s.Beside(ctx, func(of pagestore.Tx) error {
		t := of.(*tx)
		r, err := t.one("note_find", name)
		if err != nil {
			return err
		}
		n = quota.Note{Text: r.Text(0), Version: r.Int(1), Now: t.now.UTC()}
		if swapped = n.Version == version; !swapped {
			return nil
		}
		n.Text, n.Version = text, version+1
		return t.exec("note_put", name, text, n.Version)
	})
	return n, swapped && err == nil, err
}

// readNote reads a note without waiting for those who write.
func (s *Store) readNote(ctx context.Context, name string) (n quota.Note, _ bool, err error) {
	t, err := s.file.view(ctx)
	if err != nil {
		return n, false, err
	}
	r, err := t.one("note_find", name)
	if err == nil {
		n = quota.Note{Text: r.Text(0), Version: r.Int(1), Now: t.now.UTC()}
	}
	return n, false, t.End(err)
}
