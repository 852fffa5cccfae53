package sqlitefile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Identity tells whether the files at a path are still the ones that were opened. It looks
// at them only by name: opening and closing the database's file would drop the locks that
// SQLite holds on it.
type Identity []part

type part struct {
	path string
	file FileID
}

// Identify remembers the files at path. Call it after the first write.
func Identify(path string) (Identity, error) {
	real, err := filepath.EvalSymlinks(path) // SQLite puts its files beside the real one
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	id := Identity{{path: path}, {path: real + "-wal"}, {path: real + "-shm"}}
	for i := range id {
		if id[i].file, err = FileAt(id[i].path); err != nil {
			return nil, fmt.Errorf("open %s: look at %s: %w", path, id[i].path, err)
		}
	}
	return id, nil
}

// Was returns a [*MovedError] unless the database's file is the one from before it was
// opened.
func (id Identity) Was(before FileID) error {
	if !id[0].file.same(before) {
		return &MovedError{Path: id[0].path, How: replaced}
	}
	return nil
}

// Check returns a [*MovedError] if any of the files is not the one that was opened. The zero
// Identity accepts everything.
func (id Identity) Check() error {
	for _, p := range id {
		file, err := FileAt(p.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &MovedError{Path: p.path, How: "was deleted"}
		case err != nil:
			return &MovedError{Path: p.path, How: "cannot be seen any more", Err: err}
		case !file.same(p.file):
			return &MovedError{Path: p.path, How: replaced}
		}
	}
	return nil
}

const replaced = "was replaced by another file"

// MovedError says that a file was moved or deleted under a running process, which loses
// everything that the process writes afterwards.
type MovedError struct {
	Path, How string
	Err       error // nil if the file is there
}

// Error implements error.
func (e *MovedError) Error() string {
	s := fmt.Sprintf("%s %s while this process was using it; put it back, stop every process that uses it, and start again", e.Path, e.How)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns why the file cannot be seen.
func (e *MovedError) Unwrap() error { return e.Err }
