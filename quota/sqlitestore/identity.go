package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
)

var _ quota.Identified = (*Store)(nil)

// Identity implements [quota.Identified]. The transaction that creates the tables also
// creates the identity.
func (s *Store) Identity(ctx context.Context, _, _ string) (id string, err error) {
	id, _, err = s.file.identity(ctx)
	return id, err
}

func (f *file) identity(ctx context.Context) (id, path string, err error) {
	t, err := f.view(ctx)
	if err != nil {
		return "", "", err
	}
	r, err := t.one("identity_find")
	if err == nil && r != nil {
		id, path = r.Text(0), r.Text(1)
	}
	return id, path, t.End(err)
}

// CopyOf returns the path of the ledger that this file was copied from, or "" if it is no
// copy. The two ledgers have the same identity, and neither counts the spend of the other.
// A file that was moved is no copy.
func (s *Store) CopyOf(ctx context.Context) (path string, err error) {
	id, was, err := s.file.identity(ctx)
	if err != nil {
		return "", err
	}
	real, err := realPath(s.file.Path)
	if err != nil || was == real {
		return "", err
	}
	if was != "" {
		var other string
		err := sqlitefile.Untouched(ctx, was, func(s *sqlitefile.Session) error {
			row, err := s.One("SELECT id FROM identity")
			if row != nil {
				other = row.Text(0)
			}
			return err
		})
		if err == nil && other == id { // a file that cannot be read is no ledger any more
			return was, nil
		}
	}
	return "", s.Beside(ctx, func(of pagestore.Tx) error { return of.(*tx).exec("identity_move", real) })
}

// Canonical returns the canonical address of a ledger: its path without symbolic links. The
// file need not exist. Its directory must.
func Canonical(path string) (string, error) {
	real, err := realPath(path)
	return "sqlite:" + real, err
}

// realPath returns the absolute path of a file without symbolic links. The file need not
// exist: a link to a deleted file still says where the file was.
func realPath(path string) (string, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(whole)
	if err == nil {
		return real, nil
	}
	dir, failed := filepath.EvalSymlinks(filepath.Dir(whole))
	if failed != nil {
		if _, err := files.Path(whole); err != nil { // it says what to make
			return "", err
		}
		return "", fmt.Errorf("find %s: %w", path, errors.Join(err, failed))
	}
	real = filepath.Join(dir, filepath.Base(whole))
	if to, none := os.Readlink(real); none == nil && errors.Is(err, fs.ErrNotExist) {
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		return realPath(to)
	}
	return real, nil
}
