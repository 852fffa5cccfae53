package sqlitestore

import (
	"context"
	"database/sql/driver"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
)

var _ quota.LimitKeeper = (*Store)(nil)

// SetLimit implements [quota.LimitKeeper].
func (s *Store) SetLimit(ctx context.Context, l quota.KeyLimit) (quota.KeyLimit, error) {
	err := s.Beside(ctx, func(of pagestore.Tx) error {
		t := of.(*tx)
		var headroom driver.Value
		if l.Headroom != nil {
			headroom = *l.Headroom
		}
		if err := t.exec("limit_set", l.Family, l.Key, l.Quota, l.By, l.Reason, t.now, l.Until, headroom); err != nil {
			return err
		}
		if err := t.exec("limit_note", l.Family, l.Key); err != nil {
			return err
		}
		r, err := t.one("limit_find", l.Family, l.Key)
		if err != nil {
			return err
		}
		if l = limitOf(r); l.Version%pruneEvery == 0 {
			return t.exec("limit_changes_prune", int64(quota.MaxLimitChanges))
		}
		return nil
	})
	return l, err
}

// pruneEvery is how seldom old changes are looked for, which takes as long as there are many.
const pruneEvery = 256

// KeyLimits implements [quota.LimitKeeper].
func (s *Store) KeyLimits(ctx context.Context, after int64, most int) ([]quota.KeyLimit, error) {
	return s.limits(ctx, "limits_after", after, int64(most))
}

// KeyLimit implements [quota.LimitKeeper].
func (s *Store) KeyLimit(ctx context.Context, family, key string) (*quota.KeyLimit, error) {
	all, err := s.limits(ctx, "limit_find", family, key)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// LimitChanges implements [quota.LimitKeeper].
func (s *Store) LimitChanges(ctx context.Context, most int) ([]quota.KeyLimit, error) {
	return s.limits(ctx, "limit_changes", int64(most))
}

func (s *Store) limits(ctx context.Context, query string, args ...driver.Value) (all []quota.KeyLimit, err error) {
	t, err := s.file.view(ctx)
	if err != nil {
		return nil, err
	}
	err = t.read(query, args, func(r sqlitefile.Row) error {
		all = append(all, limitOf(r))
		return nil
	})
	return all, t.End(err)
}

func limitOf(r sqlitefile.Row) quota.KeyLimit {
	l := quota.KeyLimit{Family: r.Text(0), Key: r.Text(1), Quota: r.Int(2), By: r.Text(3), Reason: r.Text(4), At: r.Time(5), Version: r.Int(6), Until: r.Time(7)}
	if r[8] != nil {
		l.Headroom = new(r.Int(8))
	}
	return l
}

var _ quota.NoteKeeper = (*Store)(nil)

// SwapNote implements [quota.NoteKeeper].
func (s *Store) SwapNote(ctx context.Context, name string, version int64, text string) (n quota.Note, swapped bool, err error) {
	if s.file == nil {
		return n, false, errNotMade
	}
	if err := quota.CheckNote(name, version, text); err != nil {
		return n, false, err
	}
	find := func(t *tx) error {
		r, err := t.one("note_find", name)
		if err == nil {
			n = quota.Note{Text: r.Text(0), Version: r.Int(1), Now: t.now.UTC()}
		}
		return err
	}
	if version < 0 { // without waiting for those who write
		t, err := s.file.view(ctx)
		if err == nil {
			err = t.End(find(t))
		}
		return n, false, err
	}
	err = s.Beside(ctx, func(of pagestore.Tx) error {
		t := of.(*tx)
		if err := find(t); err != nil {
			return err
		}
		if swapped = n.Version == version; !swapped {
			return nil
		}
		n.Text, n.Version = text, version+1
		return t.exec("note_put", name, text, n.Version)
	})
	return n, swapped && err == nil, err
}
