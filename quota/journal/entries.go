package journal

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Admit implements [quota.Journal].
func (j *Journal) Admit(ctx context.Context, e quota.Entry, allowance int64) (a quota.Admission, err error) {
	other := false
	err = j.write(ctx, func(tx *sql.Tx) error {
		stands, err := find(ctx, tx, e.ID)
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
			if err := remove(ctx, tx, e.ID); err != nil {
				return err
			}
			e.Asked = true
		}
		for _, c := range e.Charges {
			if a, err = consider(ctx, tx, c, e.At, allowance); err != nil || !a.OK {
				return err
			}
		}
		return add(ctx, tx, e)
	})
	if err == nil && other {
		err = quota.OtherCharges(e.ID)
	}
	return a, err
}

// consider decides on one charge by what stands in the journal.
func consider(ctx context.Context, tx *sql.Tx, c quota.EntryCharge, now time.Time, allowance int64) (quota.Admission, error) {
	a := quota.Admission{Pool: c.Pool}
	var until int64
	err := tx.QueryRowContext(ctx, `SELECT e.until, e.reason FROM entries e JOIN charges c USING (id)
		WHERE c.upstream = ? AND c.account = ? AND c.pool = ? AND e.until > ? ORDER BY e.until DESC LIMIT 1`,
		c.Pool.Upstream, c.Pool.Account, c.Pool.Name, now.UnixMicro()).Scan(&until, &a.Reason)
	if err == nil {
		a.Blocked = time.UnixMicro(until).UTC()
		return a, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return a, err
	}
	err = tx.QueryRowContext(ctx, `SELECT coalesce(sum(coalesce(c.settled, c.units)), 0) FROM entries e JOIN charges c USING (id)
		WHERE c.upstream = ? AND c.account = ? AND c.pool = ? AND e.until IS NULL`,
		c.Pool.Upstream, c.Pool.Account, c.Pool.Name).Scan(&a.Used)
	a.OK = a.Used+c.Units <= allowance
	return a, err
}

// Settle implements [quota.Journal].
func (j *Journal) Settle(ctx context.Context, id string, units []int64) (stands []int64, err error) {
	err = j.write(ctx, func(tx *sql.Tx) error {
		e, err := find(ctx, tx, id)
		switch {
		case err != nil || e == nil:
			return err
		case e.Settled != nil:
			stands = e.Settled
			return nil
		}
		stands = units
		if !e.Asked && released(units) {
			return remove(ctx, tx, id)
		}
		for n, u := range units {
			if _, err := tx.ExecContext(ctx, `UPDATE charges SET settled = ? WHERE id = ? AND n = ?`, u, id, n); err != nil {
				return err
			}
		}
		return nil
	})
	return stands, err
}

// released reports whether a call was settled to nothing.
func released(settled []int64) bool { return settled != nil && quota.Released(settled) }

// Block implements [quota.Journal].
func (j *Journal) Block(ctx context.Context, e quota.Entry) error {
	return j.write(ctx, func(tx *sql.Tx) error { return add(ctx, tx, e) })
}

// Pending implements [quota.Journal].
func (j *Journal) Pending(ctx context.Context) (ids []string, err error) {
	if j.db == nil {
		return nil, errNotMade
	}
	rows, err := j.db.QueryContext(ctx, `SELECT id FROM entries ORDER BY at, id`)
	if err != nil {
		return nil, j.fault("read", err)
	}
	defer func() { err = errors.Join(err, j.fault("read", rows.Close())) }()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, j.fault("read", err)
		}
		ids = append(ids, id)
	}
	return ids, j.fault("read", rows.Err())
}

// Take implements [quota.Journal].
func (j *Journal) Take(ctx context.Context, id string) (taken quota.Entry, there bool, err error) {
	err = j.write(ctx, func(tx *sql.Tx) error {
		e, err := find(ctx, tx, id)
		if err != nil || e == nil {
			return err
		}
		if !e.Asked {
			if _, err := tx.ExecContext(ctx, `UPDATE entries SET asked = 1 WHERE id = ?`, id); err != nil {
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
		stands, err := find(ctx, tx, e.ID)
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
		return remove(ctx, tx, e.ID)
	})
	return gone, err
}

// find reads an entry, or returns nil.
func find(ctx context.Context, tx *sql.Tx, id string) (found *quota.Entry, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT e.at, e.until, e.asked, e.reason, e.method, e.job, e.region, e.class,
		c.upstream, c.account, c.pool, c.units, c.settled FROM entries e JOIN charges c USING (id) WHERE e.id = ? ORDER BY c.n`, id)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		e := quota.Entry{ID: id}
		var at int64
		var until, settled sql.NullInt64
		var c quota.EntryCharge
		err := rows.Scan(&at, &until, &e.Asked, &e.Reason, &e.Labels.Method, &e.Labels.Job, &e.Labels.Region, &e.Labels.Class,
			&c.Pool.Upstream, &c.Pool.Account, &c.Pool.Name, &c.Units, &settled)
		if err != nil {
			return nil, err
		}
		if found == nil {
			e.At = time.UnixMicro(at).UTC()
			if until.Valid {
				e.Until = time.UnixMicro(until.Int64).UTC()
			}
			found = &e
		}
		found.Charges = append(found.Charges, c)
		if settled.Valid {
			found.Settled = append(found.Settled, settled.Int64)
		}
	}
	return found, rows.Err()
}

// add writes an entry down.
func add(ctx context.Context, tx *sql.Tx, e quota.Entry) error {
	var until any
	if !e.Until.IsZero() {
		until = e.Until.UnixMicro()
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO entries (id, at, until, asked, reason, method, job, region, class)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.ID, e.At.UnixMicro(), until, e.Asked, e.Reason, e.Labels.Method, e.Labels.Job, e.Labels.Region, e.Labels.Class)
	if err != nil {
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

// remove takes an entry out, with its charges.
func remove(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM entries WHERE id = ?`, id)
	return err
}
