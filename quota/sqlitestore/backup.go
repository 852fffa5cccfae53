package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

// Backup copies the ledger at path, as it is at one instant, to a path without a file.
// Processes may use the ledger meanwhile.
func Backup(ctx context.Context, path, to string) error {
	path, err := realPath(path)
	if err != nil {
		return err
	}
	if to, err = filepath.Abs(to); err != nil {
		return err
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = errors.New("there is a file already; name another one")
		}
		return fmt.Errorf("back up to %s: %w", to, err)
	}
	part := to + ".part"
	if err := copyLedger(ctx, path, part); err != nil {
		return errors.Join(files.Fault("back up", path, err), removed(part))
	}
	// unlike a rename, a link replaces no file
	if err := os.Link(part, to); err != nil {
		return errors.Join(fmt.Errorf("back up to %s: %w", to, err), removed(part))
	}
	return errors.Join(os.Remove(part), sqlitefile.Synced(filepath.Dir(to)))
}

// Lack is the spend of a pool that a restored ledger does not know.
type Lack struct {
	Pool  quota.Pool
	Since time.Time // the backup knows the spend until then; zero if it does not know the pool
	Units int64     // that the replaced ledger counted since then
}

// Restore replaces the ledger at path by a backup. It returns the spend that the replaced
// ledger knows and the backup lacks. It fails if a process uses the ledger.
func Restore(ctx context.Context, backup, path string) ([]Lack, error) {
	backup, err := realPath(backup)
	if err != nil {
		return nil, err
	}
	if path, err = realPath(path); err != nil { // a link to it stays a link
		return nil, err
	}
	part := path + ".restored"
	if err := copyLedger(ctx, backup, part); err != nil {
		return nil, errors.Join(files.Fault("restore", backup, err), removed(part))
	}
	lack, err := lacking(ctx, part, path)
	if err == nil {
		err = alone(path)
	}
	const shared = 0o660
	if info, there := os.Stat(path); err == nil && there == nil && info.Mode()&shared == shared {
		err = os.Chmod(part, shared) // a group shares it
	}
	if err != nil {
		return nil, errors.Join(files.Fault("restore over", path, err), removed(part))
	}
	return lack, errors.Join(os.Rename(part, path), sqlitefile.Synced(filepath.Dir(path)))
}

// copyLedger copies a file. The file must be a sound ledger.
func copyLedger(ctx context.Context, from, to string) error {
	err := sqlitefile.Untouched(ctx, from, func(s *sqlitefile.Session) error {
		if err := files.LookAt(s); err != nil {
			return err
		}
		tables, err := s.Number(`SELECT count(*) FROM sqlite_schema WHERE name IN ('births', 'pools', 'reservations')`)
		if err != nil {
			return err
		}
		if tables != 3 {
			return errors.New("it is no ledger")
		}
		row, err := s.One("PRAGMA quick_check(1)")
		if err == nil && row.Text(0) != "ok" {
			err = fmt.Errorf("it is damaged: %s", row.Text(0))
		}
		return err
	})
	if err == nil {
		err = sqlitefile.Snapshot(ctx, from, to)
	}
	if err == nil {
		err = sqlitefile.Synced(to)
	}
	return err
}

// lacking compares a backup with the ledger at path. It returns nothing if that ledger is
// missing or cannot be read.
func lacking(ctx context.Context, backup, path string) (all []Lack, err error) {
	err = sqlitefile.Untouched(ctx, path, func(s *sqlitefile.Session) (err error) {
		all = nil
		if _, err := s.Exec(`ATTACH ? AS backup`, backup); err != nil {
			return err
		}
		return s.Rows(`SELECT b.upstream, b.account, b.pool, coalesce(was.written, 0), sum(r.units)
			FROM births AS b JOIN reservations AS r ON r.pool_id = b.id
			LEFT JOIN backup.pools AS was USING (upstream, account, pool)
			WHERE r.at > coalesce(was.written, 0) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3`, nil, func(r sqlitefile.Row) error {
			var l Lack
			err := r.Scan(&l.Pool.Upstream, &l.Pool.Account, &l.Pool.Name, &l.Since, &l.Units)
			all = append(all, l)
			return err
		})
	})
	if errors.Is(err, fs.ErrNotExist) || sqlitefile.Code(err) != 0 && !sqlitefile.Busy(err) {
		return nil, nil
	}
	return all, err
}

// alone makes sure that no process has the file at path open, and that no -wal or -shm is
// beside it. SQLite leaves the WAL mode only then.
func alone(path string) (err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return errors.Join(removed(path+"-wal"), removed(path+"-shm")) // they are useless without the file
	}
	s, err := sqlitefile.Raw(context.Background(), path, map[string][]string{"mode": {"rw"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	row, err := s.One(`PRAGMA journal_mode = DELETE`)
	switch {
	case sqlitefile.Busy(err), err == nil && row.Text(0) != "delete":
		return fmt.Errorf("a process uses it; stop every process that does (lsof %s shows them), then try again", path)
	case err != nil: // it is damaged, and is perhaps replaced for that reason
		return errors.Join(removed(path+"-wal"), removed(path+"-shm"))
	}
	return nil
}

func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
