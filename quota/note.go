package quota

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// Note is a small text that a store keeps beside its pages. It is read and written as a whole.
type Note struct {
	Text    string
	Version int64     // how often it was written; 0: never
	Now     time.Time // the store's clock when it was read or written
}

const maxNoteName = 1024

// MaxNote is the most bytes of a note.
const MaxNote = 16 << 10

// NoteKeeper is a store that keeps notes. All processes that share the store share them, and
// they survive a restart.
type NoteKeeper interface {
	// SwapNote writes a note if its version is still the given one, and reports whether it did. It
	// returns the note as it then is. To read it, give the version -1. To forget it, write "".
	// Its name is 1 to 1,024 bytes of printable text.
	SwapNote(ctx context.Context, name string, version int64, text string) (Note, bool, error)
}

// ErrNoNotes is returned by stores that keep no notes.
var ErrNoNotes = BadInput("this store keeps no notes; limits that are learned need a store that does")

// CheckNote checks what [NoteKeeper] is given. Stores call it first.
func CheckNote(name string, version int64, text string) error {
	switch {
	case name == "" || !printable(name, maxNoteName):
		return BadInput("the name of a note must be 1 to %d bytes of printable text", maxNoteName)
	case version < -1:
		return BadInput("the version of a note is 0 or more, or -1 to read it, not %d", version)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return BadInput("a note must be text in UTF-8")
	case len(text) > MaxNote:
		return BadInput("a note takes at most %d bytes, not %d", MaxNote, len(text))
	}
	return nil
}

// readNote reads the state in a note. One that cannot be read was written by hand, or by a version to
// come: it begins anew.
func readNote[S any](n Note) (s S) {
	if err := json.Unmarshal([]byte(n.Text), &s); err != nil {
		return *new(S)
	}
	return s
}

// Note changes a note that the processes of a ledger share. Change gets its text, and returns the new one,
// and whether to write it. It is called again if another process has written meanwhile. Names begin
// with what the note is for, and a space.
func (l *Ledger) Note(ctx context.Context, name string, change func(text string) (string, bool)) error {
	if l.current() == nil {
		return errNotMade
	}
	keeper, can := l.store.(NoteKeeper)
	if !can {
		return ErrNoNotes
	}
	n, done, err := keeper.SwapNote(ctx, name, -1, "")
	for tries := 0; err == nil && !done && tries < mostSwaps; tries++ {
		text, write := change(n.Text)
		if !write {
			return nil
		}
		n, done, err = keeper.SwapNote(ctx, name, n.Version, text)
	}
	if err == nil && !done {
		err = errors.New("others have written it each time")
	}
	if err != nil {
		return l.storeError(ctx, "write the note "+name, err)
	}
	return nil
}
