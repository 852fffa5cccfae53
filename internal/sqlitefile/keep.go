package sqlitefile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"modernc.org/sqlite"

	"github.com/headroom-quota/headroom/internal/pattern"
)

// ErrNoRoom says that the disk has no room for a copy of a file whose schema is to change. See [Fits].
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
	if err := Fits(path); err != nil {
		return "", err
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

// Fits returns [ErrNoRoom] if a disk has no room to change the schema of these files, or an error that is [ReadOnly] if it
// is mounted for reading only. Files in one folder are on one disk.
func Fits(paths ...string) error {
	need := map[string]int64{}
	for _, path := range paths {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		dir := filepath.Dir(path)
		// The copy needs the room of the file, and the change may write each page once more.
		need[dir] += 2 * (size(path) + size(path+"-wal"))
	}
	for dir, need := range need {
		if readOnly(dir) {
			return fmt.Errorf("the schema of the files in %s cannot be changed: their file system is mounted for reading only; mount it for writing: %w", dir, syscall.EROFS)
		}
		if left, known := free(dir); known && left < need {
			return fmt.Errorf("%w to change the schema of the files in %s: a copy of each is kept first, which needs %d MB more; make room and start again", ErrNoRoom, dir, (need-left)>>20+1)
		}
	}
	return nil
}

// How many copies of a file stay, and how long before the file was last written they may have
// been made.
const (
	keptCopies = 2
	keptFor    = 90 * 24 * time.Hour
)

// forget removes copies that are too old. If one was just made, it also removes all but the newest
// ones, and those that were never finished. One that it cannot remove is no reason to refuse the
// file.
func forget(path, made string) {
	all, _ := Kept(path)
	all = slices.DeleteFunc(all, func(name string) bool { return name == made })
	end := func(name string) string { return name[strings.LastIndexByte(name, '.'):] } // when it was written
	slices.SortFunc(all, func(a, b string) int { return -cmp.Compare(end(a), end(b)) })
	oldest := written(path).Add(-keptFor)
	others := 0
	for _, name := range all {
		whole := end(name) != ".part"
		if info, err := os.Stat(name); err == nil && info.ModTime().Before(oldest) || made != "" && (!whole || others == keptCopies-1) {
			_ = os.Remove(name)
		} else if whole {
			others++
		}
	}
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

// Snapshot copies the file at path, as it is at one instant, to a path without a file. Only
// its owner can read the copy.
// Other processes may write to the file meanwhile. Snapshot changes no file at path, and
// creates none beside it.
func Snapshot(ctx context.Context, path, to string) error {
	return Untouched(ctx, path, func(s *Session) error {
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) { // from an earlier try
			return err
		}
		if err := Create(to); err != nil {
			return err
		}
		_, err := s.Exec("VACUUM INTO ?", to)
		return err
	})
}

// tries is the number of times to read a file that other processes open meanwhile.
const tries = 3

// Untouched runs do on a read-only session of the file at path. It changes no data, and needs no permission to write
// and no room on the disk. A file that no process has open is read without a lock. If a process changes it meanwhile,
// do is called again.
func Untouched(ctx context.Context, path string, do func(*Session) error) error {
	real, err := filepath.EvalSymlinks(path) // SQLite puts its files beside the real one
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		before := data(real)
		shared := false
		q := url.Values{"mode": {"ro"}}
		switch {
		case before.wal.size == 0: // all data is in the file; an open that failed may have left an empty -wal
			q.Set("immutable", "1")
		case size(real+"-shm") < sharedIndex: // a process crashed; SQLite would make a -shm, so it indexes the -wal in memory
			q["vfs"], q["_pragma"] = []string{noLocks()}, []string{"locking_mode(exclusive)"}
		default:
			shared = true
		}
		err = reading(ctx, real, q, do)
		again := data(real) != before
		if shared { // a -shm that a crash has left does not fit on a full disk again
			again = err != nil && size(real+"-shm") < sharedIndex
		}
		if try == tries || !again {
			return err
		}
	}
}

// sharedIndex is the least size of a -shm through which processes use a file.
const sharedIndex = 32 << 10

// noLocks is the name of SQLite's interface to the system that takes no locks.
func noLocks() string {
	if runtime.GOOS == "windows" {
		return "win32-none"
	}
	return "unix-none"
}

// stamp changes with the data of a file. It is zero for an empty or missing file.
type stamp struct{ size, nanos int64 }

// data returns the stamps of the file at path and of its -wal.
func data(path string) (is struct{ file, wal stamp }) {
	for name, s := range map[string]*stamp{path: &is.file, path + "-wal": &is.wal} {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			*s = stamp{info.Size(), info.ModTime().UnixNano()}
		}
	}
	return is
}

// reading runs do once, on a session with these parameters.
func reading(ctx context.Context, path string, q url.Values, do func(*Session) error) (err error) {
	s, err := Raw(ctx, path, q)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.conn.(sqlite.FileControl).FileControlPersistWAL("main", 1); err != nil { // or Close may delete the -wal
		return err
	}
	return do(s)
}
