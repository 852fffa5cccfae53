package journal

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// Admit implements [quota.Journal].
func (j *Journal) Admit(ctx context.Context, e quota.Entry, allowance int64) (a quota.Admission, err error) {
	other := false
	err = j.write(ctx, func(tx *sql.Tx) error {
		stands, err := j.find(ctx, tx, e.ID)
		if err != nil {
			return err
		}
		if stands != nil {
			other = !slices.Equal(stands.Charges, e.Charges)
			if other || !released(stands.Settled) {
				a = quota.Admission{OK: !other, Repeat: true}
				return nil
			}
			// That call never left; this one is another try, under an id that the ledger may know.
			if err := j.remove(ctx, tx, e.ID); err != nil {
				return err
			}
			e.Asked = true
		}
		if err := j.identify(ctx, tx, &e); err != nil {
			return err
		}
		for _, c := range e.Charges {
			if a, err = j.consider(ctx, tx, e.Identity, c, e.At, allowance); err != nil || !a.OK {
				return err
			}
		}
		return j.add(ctx, tx, e)
	})
	if err == nil && other {
		err = storekit.OtherCharges(e.ID)
	}
	return a, err
}

// ours are the debts of the ledger that is there: ?1 is its address, ?2 its identity.
const ours = `debts d JOIN debt_charges c USING (ledger, id)
	WHERE d.ledger = ?1 AND (?2 = '' OR d.identity IN ('', ?2)) AND c.upstream = ?3 AND c.account = ?4 AND c.pool = ?5`

// consider decides on one charge by what stands in the journal. A block shuts a key by
// itself, and all keys of a pool share its allowance.
func (j *Journal) consider(ctx context.Context, tx *sql.Tx, identity string, c quota.EntryCharge, now time.Time, allowance int64) (quota.Admission, error) {
	a := quota.Admission{Pool: c.Pool}
	args := []any{j.ledger, identity, c.Pool.Upstream, c.Pool.Account, c.Pool.Name}
	var until int64
	err := tx.QueryRowContext(ctx, `SELECT d.until, d.reason FROM `+ours+` AND d.until > ?6 AND c.key = ?7 ORDER BY d.until DESC LIMIT 1`,
		append(args, now.UnixMicro(), c.Pool.Key)...).Scan(&until, &a.Reason)
	if err == nil {
		a.Blocked = instant(until)
		return a, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return a, err
	}
	err = tx.QueryRowContext(ctx, `SELECT coalesce(sum(coalesce(c.settled, c.units)), 0) FROM `+ours+` AND d.until IS NULL`, args...).Scan(&a.Used)
	a.OK = a.Used+c.Units <= allowance
	return a, err
}

// identify notes which ledger an entry is for, if nobody has said so: the one that was
// there when a page of its account was last remembered.
func (j *Journal) identify(ctx context.Context, tx *sql.Tx, e *quota.Entry) error {
	if e.Identity != "" {
		return nil
	}
	pool := e.Charges[0].Pool
	err := tx.QueryRowContext(ctx, `SELECT identity FROM births WHERE ledger = ? AND upstream = ? AND account = ?
		ORDER BY latest DESC LIMIT 1`, j.ledger, pool.Upstream, pool.Account).Scan(&e.Identity)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return err
}

// Settle implements [quota.Journal].
func (j *Journal) Settle(ctx context.Context, id string, units []int64) (stands []int64, err error) {
	err = j.write(ctx, func(tx *sql.Tx) error {
		e, err := j.find(ctx, tx, id)
		switch {
		case err != nil || e == nil:
			return err
		case e.Settled != nil:
			stands = e.Settled
			return nil
		}
		stands = units
		if !e.Asked && released(units) {
			return j.remove(ctx, tx, id)
		}
		for n, u := range units {
			if _, err := tx.ExecContext(ctx, `UPDATE debt_charges SET settled = ? WHERE ledger = ? AND id = ? AND n = ?`, u, j.ledger, id, n); err != nil {
				return err
			}
		}
		return nil
	})
	return stands, err
}

// released reports whether a call was settled to nothing.
func released(settled []int64) bool { return settled != nil && storekit.Released(settled) }

// Block implements [quota.Journal].
func (j *Journal) Block(ctx context.Context, e quota.Entry) error {
	return j.write(ctx, func(tx *sql.Tx) error {
		if err := j.identify(ctx, tx, &e); err != nil {
			return err
		}
		return j.add(ctx, tx, e)
	})
}

// Pending implements [quota.Journal].
func (j *Journal) Pending(ctx context.Context) ([]quota.Entry, error) {
	if !j.made() {
		return nil, errNotMade
	}
	all, err := j.entries(ctx, j.db, `d.ledger = ? ORDER BY d.at, d.id, c.n`, j.ledger)
	return all, j.fault("read", err)
}

// Waiting is how many calls and blocks wait for a ledger.
type Waiting struct {
	Ledger string // its address; empty for what an older version wrote, until a ledger adopts it
	Calls  int
}

// Others returns what waits in the file for other ledgers than this one.
func (j *Journal) Others(ctx context.Context) (all []Waiting, err error) {
	err = j.each(ctx, func(rows *sql.Rows) error {
		var w Waiting
		err := rows.Scan(&w.Ledger, &w.Calls)
		all = append(all, w)
		return err
	}, `SELECT ledger, count(*) FROM debts WHERE ledger <> ? GROUP BY ledger ORDER BY ledger`, j.Ledger())
	return all, err
}

// Take implements [quota.Journal].
func (j *Journal) Take(ctx context.Context, id string) (taken quota.Entry, there bool, err error) {
	err = j.write(ctx, func(tx *sql.Tx) error {
		e, err := j.find(ctx, tx, id)
		if err != nil || e == nil {
			return err
		}
		if !e.Asked {
			if _, err := tx.ExecContext(ctx, `UPDATE debts SET asked = 1 WHERE ledger = ? AND id = ?`, j.ledger, id); err != nil {
				return err
			}
			e.Asked = true
		}
		taken, there = *e, true
		return nil
	})
	return taken, there, err
}

// Done implements [quota.Journal].
func (j *Journal) Done(ctx context.Context, e quota.Entry) (gone bool, err error) {
	err = j.write(ctx, func(tx *sql.Tx) error {
		stands, err := j.find(ctx, tx, e.ID)
		switch {
		case err != nil:
			return err
		case stands == nil: // another process was faster
			gone = true
			return nil
		case !slices.Equal(stands.Settled, e.Settled):
			return nil
		}
		gone = true
		return j.remove(ctx, tx, e.ID)
	})
	return gone, err
}

// find reads an entry, or returns nil.
func (j *Journal) find(ctx context.Context, tx *sql.Tx, id string) (*quota.Entry, error) {
	all, err := j.entries(ctx, tx, `d.ledger = ? AND d.id = ? ORDER BY c.n`, j.ledger, id)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// querier is a database, or a transaction in it.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// entries reads entries, whose charges must come one after the other.
func (j *Journal) entries(ctx context.Context, q querier, where string, args ...any) (all []quota.Entry, err error) {
	rows, err := q.QueryContext(ctx, `SELECT d.id, d.identity, d.at, d.until, d.asked, d.reason, d.method, d.job, d.region, d.class,
		c.n, c.upstream, c.account, c.pool, c.key, c.units, c.settled FROM debts d JOIN debt_charges c USING (ledger, id) WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var e quota.Entry
		var at, n int64
		var until, settled sql.NullInt64
		var c quota.EntryCharge
		err := rows.Scan(&e.ID, &e.Identity, &at, &until, &e.Asked, &e.Reason, &e.Labels.Method, &e.Labels.Job, &e.Labels.Region, &e.Labels.Class,
			&n, &c.Pool.Upstream, &c.Pool.Account, &c.Pool.Name, &c.Pool.Key, &c.Units, &settled)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			e.At = instant(at)
			if until.Valid {
				e.Until = instant(until.Int64)
			}
			all = append(all, e)
		}
		last := &all[len(all)-1]
		last.Charges = append(last.Charges, c)
		if settled.Valid {
			last.Settled = append(last.Settled, settled.Int64)
		}
	}
	return all, rows.Err()
}

// add writes an entry down.
func (j *Journal) add(ctx context.Context, tx *sql.Tx, e quota.Entry) error {
	var until any
	if !e.Until.IsZero() {
		until = e.Until.UnixMicro()
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO debts (ledger, id, identity, at, until, asked, reason, method, job, region, class)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		j.ledger, e.ID, e.Identity, e.At.UnixMicro(), until, e.Asked, e.Reason, e.Labels.Method, e.Labels.Job, e.Labels.Region, e.Labels.Class)
	if err != nil {
		return err
	}
	for n, c := range e.Charges {
		_, err := tx.ExecContext(ctx, `INSERT INTO debt_charges (ledger, id, n, upstream, account, pool, key, units) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			j.ledger, e.ID, n, c.Pool.Upstream, c.Pool.Account, c.Pool.Name, c.Pool.Key, c.Units)
		if err != nil {
			return err
		}
	}
	return nil
}

// remove takes an entry out, with its charges.
func (j *Journal) remove(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM debts WHERE ledger = ? AND id = ?`, j.ledger, id)
	return err
}
