package sqlitestore

import (
	"context"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

var _ quota.NoteKeeper = (*Store)(nil)

// SwapNote implements [quota.NoteKeeper].
func (s *Store) SwapNote(ctx context.Context, name string, version int64, text string) (n quota.Note, swapped bool, err error) {
	if err := quota.CheckNote(name, version, text); err != nil {
		return n, false, err
	}
	if err := s.ready(ctx); err != nil {
		return n, false, err
	}
	err = s.file.alone(ctx, func(w *sqlitefile.Session) error {
		r, err := w.One("note_find", name)
		if err != nil {
			return err
		}
		n = quota.Note{Text: r.Text(0), Version: r.Int(1), Now: s.file.clock.Now().UTC()}
		if swapped = n.Version == version; !swapped {
			return nil
		}
		n.Text, n.Version = text, version+1
		_, err = w.Exec("note_put", name, text, n.Version)
		return err
	})
	return n, swapped && err == nil, err
}
