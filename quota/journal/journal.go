// Package journal is a small SQLite file that the processes of one machine share
// while their ledger is elsewhere. Calls that are admitted in an outage stand in it
// before they are sent, with the blocks that were met; they are put into the ledger
// when it is back. What stands in it uncharged is the part of the allowance that is
// used, so a process that crashes and starts again gets no fresh one. It also
// remembers when the pages in use were born, so that a ledger that lost its memory
// is found out.
package journal

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/headroom-quota/headroom/quota"
)

//go:embed schema.sql
var schema string

// Journal is a [quota.Journal] and a [quota.Births]. It is safe for concurrent use,
// by several processes too.
type Journal struct {
	db   *sql.DB
	path string
}

var (
	_ quota.Journal = (*Journal)(nil)
	_ quota.Births  = (*Journal)(nil)
)

// Open opens the journal at path, and makes it if there is none. Its folder must be
// there, on a local disk.
func Open(ctx context.Context, path string) (*Journal, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("open journal %s: make its folder first: mkdir -p %s: %w", path, filepath.Dir(path), err)
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	j := &Journal{db: db, path: path}
	if err := j.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal %s: %w", path, err), db.Close())
	}
	return j, nil
}

// prepare makes the tables, and reads back that what is committed is on the disk.
func (j *Journal) prepare(ctx context.Context) error {
	var synchronous int
	if err := j.db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return err
	}
	if synchronous != 2 {
		return fmt.Errorf("synchronous is %d, not 2: an admitted call would not survive a power cut", synchronous)
	}
	_, err := j.db.ExecContext(ctx, schema)
	return err
}

// Close closes the file.
func (j *Journal) Close() error { return j.db.Close() }

// Path is where the file is.
func (j *Journal) Path() string { return j.path }

// Admit implements [quota.Journal].
func (j *Journal) Admit(ctx context.Context, e quota.Entry, allowance int64) (a quota.Admission, err error) {
	err = j.write(ctx, func(tx *sql.Tx) error {
		var stands bool
		if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM entries WHERE id = ?)`, e.ID).Scan(&stands); err != nil {
			return err
		}
		if stands { // asked again after a lost answer
			a = quota.Admission{OK: true}
			return nil
		}
		for _, c := range e.Charges {
			if a, err = consider(ctx, tx, c, e.At, allowance); err != nil || !a.OK {
				return err
			}
		}
		return add(ctx, tx, e)
	})
	return a, err
}

// consider decides on one charge by what stands in the journal.
func consider(ctx context.Context, tx *sql.Tx, c quota.EntryCharge, now time.Time, allowance int64) (quota.Admission, error) {
	a := quota.Admission{Pool: c.Pool}
	var until sql.NullInt64
	var reason sql.NullString
	err := tx.QueryRowContext(ctx, `SELECT e.until, e.reason FROM entries e JOIN charges c USING (id)
		WHERE c.upstream = ? AND c.account = ? AND c.pool = ? AND e.until > ? ORDER BY e.until DESC LIMIT 1`,
		c.Pool.Upstream, c.Pool.Account, c.Pool.Name, now.UnixMicro()).Scan(&until, &reason)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return a, err
	}
	if until.Valid {
		a.Blocked, a.Reason = time.UnixMicro(until.Int64).UTC(), reason.String
		return a, nil
	}
	err = tx.QueryRowContext(ctx, `SELECT coalesce(sum(c.units), 0) FROM entries e JOIN charges c USING (id)
		WHERE c.upstream = ? AND c.account = ? AND c.pool = ? AND e.until IS NULL`,
		c.Pool.Upstream, c.Pool.Account, c.Pool.Name).Scan(&a.Used)
	a.OK = a.Used+c.Units <= allowance
	return a, err
}

// add writes an entry down; one that stands already stays as it is.
func add(ctx context.Context, tx *sql.Tx, e quota.Entry) error {
	var until any
	if !e.Until.IsZero() {
		until = e.Until.UnixMicro()
	}
	res, err := tx.ExecContext(ctx, `INSERT INTO entries (id, at, until, reason, method, job, region, class)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		e.ID, e.At.UnixMicro(), until, e.Reason, e.Labels.Method, e.Labels.Job, e.Labels.Region, e.Labels.Class)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	for n, c := range e.Charges {
		_, err := tx.ExecContext(ctx, `INSERT INTO charges (id, n, upstream, account, pool, units) VALUES (?, ?, ?, ?, ?, ?)`,
			e.ID, n, c.Pool.Upstream, c.Pool.Account, c.Pool.Name, c.Units)
		if err != nil {
			return err
		}
	}
	return nil
}

// Settle implements [quota.Journal].
func (j *Journal) Settle(ctx context.Context, id string, units []int64) (there bool, err error) {
	err = j.write(ctx, func(tx *sql.Tx) error {
		var left int64
		for n, u := range units {
			res, err := tx.ExecContext(ctx, `UPDATE charges SET units = ? WHERE id = ? AND n = ?`, u, id, n)
			if err != nil {
				return err
			}
			rows, err := res.RowsAffected()
			if err != nil {
				return err
			}
			there = there || rows > 0
			left += u
		}
		if left > 0 {
			return nil
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM entries WHERE id = ?`, id)
		return err
	})
	return there, err
}

// Block implements [quota.Journal].
func (j *Journal) Block(ctx context.Context, e quota.Entry) error {
	return j.write(ctx, func(tx *sql.Tx) error { return add(ctx, tx, e) })
}

// Pending implements [quota.Journal].
func (j *Journal) Pending(ctx context.Context) (all []quota.Entry, err error) {
	rows, err := j.db.QueryContext(ctx, `SELECT e.id, e.at, e.until, e.reason, e.method, e.job, e.region, e.class,
		c.upstream, c.account, c.pool, c.units FROM entries e JOIN charges c USING (id) ORDER BY e.at, e.id, c.n`)
	if err != nil {
		return nil, j.fault("read", err)
	}
	defer func() { err = errors.Join(err, j.fault("read", rows.Close())) }()
	for rows.Next() {
		var e quota.Entry
		var at int64
		var until sql.NullInt64
		var c quota.EntryCharge
		err := rows.Scan(&e.ID, &at, &until, &e.Reason, &e.Labels.Method, &e.Labels.Job, &e.Labels.Region, &e.Labels.Class,
			&c.Pool.Upstream, &c.Pool.Account, &c.Pool.Name, &c.Units)
		if err != nil {
			return nil, j.fault("read", err)
		}
		if n := len(all); n == 0 || all[n-1].ID != e.ID {
			e.At = time.UnixMicro(at).UTC()
			if until.Valid {
				e.Until = time.UnixMicro(until.Int64).UTC()
			}
			all = append(all, e)
		}
		last := &all[len(all)-1]
		last.Charges = append(last.Charges, c)
	}
	return all, j.fault("read", rows.Err())
}

// Done implements [quota.Journal].
func (j *Journal) Done(ctx context.Context, id string) error {
	return j.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM entries WHERE id = ?`, id)
		return err
	})
}

// Recall implements [quota.Births].
func (j *Journal) Recall(ctx context.Context, page string) (quota.Birth, error) {
	var born, until int64
	err := j.db.QueryRowContext(ctx, `SELECT born, until FROM births WHERE page = ?`, page).Scan(&born, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return quota.Birth{}, nil
	}
	return quota.Birth{Born: time.UnixMicro(born).UTC(), Until: time.UnixMicro(until).UTC()}, j.fault("read", err)
}

// Remember implements [quota.Births].
func (j *Journal) Remember(ctx context.Context, page string, b quota.Birth) error {
	return j.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO births (page, born, until) VALUES (?, ?, ?)
			ON CONFLICT (page) DO UPDATE SET born = excluded.born,
			until = CASE born WHEN excluded.born THEN max(until, excluded.until) ELSE excluded.until END`, // processes overtake each other
			page, b.Born.UnixMicro(), b.Until.UnixMicro())
		return err
	})
}

// write runs a transaction: all of it or nothing.
func (j *Journal) write(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := j.db.BeginTx(ctx, nil)
	if err != nil {
		return j.fault("write to", err)
	}
	if err := do(tx); err != nil {
		return j.fault("write to", errors.Join(err, tx.Rollback()))
	}
	return j.fault("write to", tx.Commit())
}

func (j *Journal) fault(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s journal %s: %w", verb, j.path, err)
}
