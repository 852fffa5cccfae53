package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Notes are in the hash prefix{notes}, by their names. They never expire.

var _ quota.NoteKeeper = (*Store)(nil)

// SwapNote implements [quota.NoteKeeper].
func (s *Store) SwapNote(ctx context.Context, name string, version int64, text string) (n quota.Note, swapped bool, err error) {
	if err := s.ready(ctx); err != nil {
		return n, false, err
	}
	if err := quota.CheckNote(name, version, text); err != nil {
		return n, false, err
	}
	reply, err := s.eval(ctx, s.scripts.noteSwap, []string{s.prefix + "{notes}"}, []any{name, version, text})
	if err != nil {
		return n, false, err
	}
	if len(reply) != 3 {
		return n, false, fmt.Errorf("write a note: redis answered %v", reply)
	}
	first, body, _ := strings.Cut(fmt.Sprint(reply[1]), " ")
	n.Text = body
	if n.Version, err = strconv.ParseInt(first, 10, 64); err != nil {
		return quota.Note{}, false, fmt.Errorf("read the note %s: %w", name, err)
	}
	now, err := strconv.ParseInt(fmt.Sprint(reply[2]), 10, 64)
	n.Now = time.UnixMicro(now).UTC()
	return n, fmt.Sprint(reply[0]) == "1", err
}
