package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
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
	b := s.server
	ctx, cancel := b.bound(ctx)
	defer cancel()
	if err = b.open(ctx); err == nil {
		n, swapped, err = b.swapNote(ctx, name, version, text)
	}
	if err != nil {
		return quota.Note{}, false, b.fault("write to", err)
	}
	return n, swapped, nil
}

// swapNote writes first, and reads only what it could not write: a write that waits for another
// one sees the version that the other one left.
func (b *server) swapNote(ctx context.Context, name string, version int64, text string) (n quota.Note, swapped bool, err error) {
	query, args := "note_find", []any{name}
	if version >= 0 {
		query, args = "note_swap", []any{name, version, text}
	}
	for range 2 {
		var now window.Instant
		err = b.pool.QueryRow(ctx, b.sql[query], args...).Scan(&n.Text, &n.Version, (*int64)(&now))
		if query == "note_swap" && errors.Is(err, pgx.ErrNoRows) {
			query, args = "note_find", []any{name}
			continue
		}
		if n.Now = now.Time(); b.clock != nil {
			n.Now = b.clock.Now().UTC()
		}
		break
	}
	return n, query == "note_swap" && err == nil, err
}
