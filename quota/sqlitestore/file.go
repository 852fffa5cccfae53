package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/headroom-quota/headroom/quota"
)

// identity tells whether the files at the ledger's path are the ones that were
// opened. They are only ever looked at by name: opening the database's file and
// closing it again would drop the locks that SQLite holds on it.
type identity []part

type part struct {
	path string
	file fileID
}

// identify remembers the files at path, once they are open.
func identify(path string) (identity, error) {
	real, err := filepath.EvalSymlinks(path) // SQLite puts its files beside the real one
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	id := identity{{path: path}, {path: real + "-wal"}, {path: real + "-shm"}}
	for i := range id {
		if id[i].file, err = fileAt(id[i].path); err != nil {
			return nil, fmt.Errorf("open %s: look at %s: %w", path, id[i].path, err)
		}
	}
	return id, nil
}

// check returns an error if any of the files is not the one that was opened.
func (id identity) check() error {
	for _, p := range id {
		file, err := fileAt(p.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &movedError{path: p.path, how: "was deleted"}
		case err != nil:
			return &movedError{path: p.path, how: "cannot be seen any more", err: err}
		case !file.same(p.file):
			return &movedError{path: p.path, how: "was replaced by another file"}
		}
	}
	return nil
}

// movedError says that the ledger was taken away under a running process. It
// matches [quota.ErrOutage].
type movedError struct {
	path, how string
	err       error
}

func (e *movedError) Error() string {
	s := fmt.Sprintf("the ledger's file %s %s while this process was using it: what is spent is unknown; "+
		"put the file back, stop every process that uses it, and start again", e.path, e.how)
	if e.err != nil {
		s += ": " + e.err.Error()
	}
	return s
}

func (e *movedError) Is(target error) bool { return target == quota.ErrOutage }

func (e *movedError) Unwrap() error { return e.err }
