package sqlitefile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/pattern"
)

// ErrNoRoom says that the disk has no room for a copy of a file whose schema is to change.
var ErrNoRoom = errors.New("the disk is too full")

// free is [Room]. It is a variable for tests, which have no full disk.
var free = Room

// copyName is the end of the name of a copy: its schema, and when the file was last written, or
// part while it is made.
var copyName = pattern.Of(`\.schema-\d+\.(\d{8}T\d{6}Z|part)$`)

// keep copies the file at path if it has an older schema than this program's, and returns where
// the copy is, or "". It makes no copy of a copy. The caller is in the transaction in which it then calls migrate, so
// no other process changes the file meanwhile, or copies it too.
func (k *Kind) keep(ctx context.Context, path string, s *Session) (kept string, err error) {
	m, err := k.read(s)
	if err != nil || !k.older(m) || copyName().MatchString(path) {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	// The copy needs the room of the file, and the change may write each page once more.
	need := 2 * (size(path) + size(path+"-wal"))
	if left, known := free(filepath.Dir(path)); known && left < need {
		return "", fmt.Errorf("%w to change it from schema %d to %d: a copy is kept first, so %d MB are needed in %s, and %d are free; make room and start again: nothing was changed",
			ErrNoRoom, m.version, len(k.Steps), need>>20+1, filepath.Dir(path), left>>20)
	}
	kept = fmt.Sprintf("%s.schema-%d.%s", path, m.version, written(path).UTC().Format("20060102T150405Z"))
	part := fmt.Sprintf("%s.schema-%d.part", path, m.version) // of an earlier try, too
	if err = Snapshot(ctx, path, part); err == nil {
		err = errors.Join(Synced(part), os.Rename(part, kept), Synced(filepath.Dir(path)))
	}
	if err != nil {
		return "", fmt.Errorf("keep a copy before the schema changes: %w", errors.Join(err, os.RemoveAll(part)))
	}
	return kept, nil
}

// Kept returns the copies that Open made of the file at path, also those that it did not
// finish.
func Kept(path string) (all []string, err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(filepath.Dir(path))
	for _, f := range files {
		if end, ours := strings.CutPrefix(f.Name(), filepath.Base(path)); ours && end != "" && copyName().FindString(end) == end {
			all = append(all, filepath.Join(filepath.Dir(path), f.Name()))
		}
	}
	return all, err
}

// written is when the file at path was last written.
func written(path string) (last time.Time) {
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// size is that of a file, or 0 if it is missing.
func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Synced makes the disk keep a file, or the names in a folder.
func Synced(path string) error {
	if runtime.GOOS == "windows" {
		return nil // it has no way to, for one who reads
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
