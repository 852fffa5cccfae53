package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

var _ quota.Identified = (*Store)(nil)

// Identity implements [quota.Identified]. A file has one, which the transaction that
// makes the tables makes with them.
func (s *Store) Identity(ctx context.Context, _, _ string) (id string, err error) {
	err = s.view(ctx, func(v *sql.Tx) error {
		return v.QueryRowContext(ctx, `SELECT id FROM identity`).Scan(&id)
	})
	return id, err
}

// CopyOf returns the path of another ledger with the same identity: the one that this
// file was copied from, or empty if there is none. Neither counts what is spent of the
// other. A file that was moved is no copy.
func (s *Store) CopyOf(ctx context.Context) (path string, err error) {
	real, err := realPath(s.path)
	if err != nil {
		return "", err
	}
	var id, was string
	err = s.view(ctx, func(v *sql.Tx) error {
		return v.QueryRowContext(ctx, `SELECT id, path FROM identity`).Scan(&id, &was)
	})
	if err != nil || was == real {
		return "", err
	}
	if was != "" {
		var other string
		err := sqlitefile.Untouched(was, func(db *sql.DB) error {
			return db.QueryRowContext(ctx, `SELECT id FROM identity`).Scan(&other)
		})
		if err == nil && other == id { // what cannot be read is no ledger any more
			return was, nil
		}
	}
	return "", s.transact(ctx, func(t *tx) error { return t.exec(identityMove, real) })
}

// Canonical returns the one way to write where a ledger is: its path without symbolic
// links. The file need not be there, its directory must.
func Canonical(path string) (string, error) {
	real, err := realPath(path)
	return "sqlite:" + real, err
}

// realPath is the absolute path of a file, which need not be there.
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
		return "", fmt.Errorf("find %s: %w", path, errors.Join(err, failed))
	}
	return filepath.Join(dir, filepath.Base(whole)), nil
}
