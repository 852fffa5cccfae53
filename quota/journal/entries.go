package journal

import (
	"context"
	"database/sql/driver"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

func (j *Journal) Admit(ctx context.Context, e quota.Entry, allowance int64) (a quota.Admission, err error) {
	other := false
	err = j.write(ctx, func(tx *sqlitefile.Session) error {
		stands, err := j.find(tx, e.ID)
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
			if err := j.remove(tx, e.ID); err != nil {
				return err
			}
			e.Asked = true
		}
		if err := j.identify(tx, &e); err != nil {
			return err
		}
		for _, c := range e.Charges {
			if a, err = j.consider(tx, e.Identity, c, e.At, allowance); err != nil || !a.OK {
				return err
			}
		}
		return j.add(tx, e)
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
func (j *Journal) consider(tx *sqlitefile.Session, identity string, c quota.EntryCharge, now time.Time, allowance int64) (quota.Admission, error) {
	a := quota.Admission{Pool: c.Pool}
	args := []driver.Value{j.ledger, identity, c.Pool.Upstream, c.Pool.Account, c.Pool.Name}
	r, err := tx.One(`SELECT d.until, d.reason FROM `+ours+` AND d.until > ?6 AND c.key = ?7 ORDER BY d.until DESC LIMIT 1`,
		append(args, now, c.Pool.Key)...)
	if r != nil {
		a.Blocked, a.Reason = r.Time(0), r.Text(1)
	}
	if err != nil || r != nil {
		return a, err
	}
	r, err = tx.One(`SELECT coalesce(sum(coalesce(c.settled, c.units)), 0) FROM `+ours+` AND d.until IS NULL`, args...)
	if err == nil {
		a.Used = r.Int(0)
		a.OK = a.Used+c.Units <= allowance
	}
	return a, err
}

// identify notes which ledger an entry is for, if nobody has said so: the one that was
// there when a page of its account was last remembered.
func (j *Journal) identify(tx *sqlitefile.Session, e *quota.Entry) error {
	if e.Identity != "" {
		return nil
	}
	pool := e.Charges[0].Pool
	r, err := tx.One(`SELECT identity FROM births WHERE ledger = ? AND upstream = ? AND account = ?
		ORDER BY latest DESC LIMIT 1`, j.ledger, pool.Upstream, pool.Account)
	if r != nil {
		e.Identity = r.Text(0)
	}
	return err
}

func (j *Journal) Settle(ctx context.Context, id string, units []int64) (stands []int64, err error) {
	err = j.write(ctx, func(tx *sqlitefile.Session) error {
		e, err := j.find(tx, id)
		switch {
		case err != nil || e == nil:
			return err
		case e.Settled != nil:
			stands = e.Settled
			return nil
		}
		stands = units
		if !e.Asked && released(units) {
			return j.remove(tx, id)
		}
		for n, u := range units {
			if _, err := tx.Exec(`UPDATE debt_charges SET settled = ? WHERE ledger = ? AND id = ? AND n = ?`, u, j.ledger, id, n); err != nil {
				return err
			}
		}
		return nil
	})
	return stands, err
}

// released reports whether a call was settled to nothing.
func released(settled []int64) bool { return settled != nil && storekit.Released(settled) }

func (j *Journal) Block(ctx context.Context, e quota.Entry) error {
	return j.write(ctx, func(tx *sqlitefile.Session) error {
		if err := j.identify(tx, &e); err != nil {
			return err
		}
		return j.add(tx, e)
	})
}

func (j *Journal) Pending(ctx context.Context) (all []quota.Entry, err error) {
	err = j.read(ctx, entry(&all), entries+`d.ledger = ? ORDER BY d.at, d.id, c.n`, j.Ledger())
	return all, err
}

// Waiting is how many calls and blocks wait for a ledger.
type Waiting struct {
	Ledger string // its address; empty for what an older version wrote, until a ledger adopts it
	Calls  int
}

// Others returns what waits in the file for other ledgers than this one.
func (j *Journal) Others(ctx context.Context) (all []Waiting, err error) {
	err = j.read(ctx, func(r sqlitefile.Row) error {
		all = append(all, Waiting{r.Text(0), int(r.Int(1))})
		return nil
	}, `SELECT ledger, count(*) FROM debts WHERE ledger <> ? GROUP BY ledger ORDER BY ledger`, j.Ledger())
	return all, err
}

func (j *Journal) Take(ctx context.Context, id string) (taken quota.Entry, there bool, err error) {
	err = j.write(ctx, func(tx *sqlitefile.Session) error {
		e, err := j.find(tx, id)
		if err != nil || e == nil {
			return err
		}
		if !e.Asked {
			if _, err := tx.Exec(`UPDATE debts SET asked = 1 WHERE ledger = ? AND id = ?`, j.ledger, id); err != nil {
				return err
			}
			e.Asked = true
		}
		taken, there = *e, true
		return nil
	})
	return taken, there, err
}

func (j *Journal) Done(ctx context.Context, e quota.Entry) (gone bool, err error) {
	err = j.write(ctx, func(tx *sqlitefile.Session) error {
		stands, err := j.find(tx, e.ID)
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
		return j.remove(tx, e.ID)
	})
	return gone, err
}

// find reads an entry, or returns nil.
func (j *Journal) find(tx *sqlitefile.Session, id string) (*quota.Entry, error) {
	var all []quota.Entry
	err := tx.Rows(entries+`d.ledger = ? AND d.id = ? ORDER BY c.n`, []driver.Value{j.ledger, id}, entry(&all))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// entries reads entries. The charges of each must come one after the other.
const entries = `SELECT d.id, d.identity, d.at, d.until, d.asked, d.reason, d.method, d.job, d.region, d.class,
	c.n, c.upstream, c.account, c.pool, c.key, c.units, c.settled FROM debts d JOIN debt_charges c USING (ledger, id) WHERE `

// entry adds the rows of entries to all.
func entry(all *[]quota.Entry) func(sqlitefile.Row) error {
	return func(r sqlitefile.Row) error {
		var e quota.Entry
		var n int64
		var settled *int64
		var c quota.EntryCharge
		err := r.Scan(&e.ID, &e.Identity, &e.At, &e.Until, &e.Asked, &e.Reason, &e.Labels.Method, &e.Labels.Job, &e.Labels.Region, &e.Labels.Class,
			&n, &c.Pool.Upstream, &c.Pool.Account, &c.Pool.Name, &c.Pool.Key, &c.Units, &settled)
		if err != nil {
			return err
		}
		if n == 0 {
			*all = append(*all, e)
		}
		last := &(*all)[len(*all)-1]
		last.Charges = append(last.Charges, c)
		if settled != nil {
			last.Settled = append(last.Settled, *settled)
		}
		return nil
	}
}

// add writes an entry down.
func (j *Journal) add(tx *sqlitefile.Session, e quota.Entry) error {
	var until driver.Value
	if !e.Until.IsZero() {
		until = e.Until
	}
	_, err := tx.Exec(`INSERT INTO debts (ledger, id, identity, at, until, asked, reason, method, job, region, class)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		j.ledger, e.ID, e.Identity, e.At, until, e.Asked, e.Reason, e.Labels.Method, e.Labels.Job, e.Labels.Region, e.Labels.Class)
	if err != nil {
		return err
	}
	for n, c := range e.Charges {
		_, err := tx.Exec(`INSERT INTO debt_charges (ledger, id, n, upstream, account, pool, key, units) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			j.ledger, e.ID, n, c.Pool.Upstream, c.Pool.Account, c.Pool.Name, c.Pool.Key, c.Units)
		if err != nil {
			return err
		}
	}
	return nil
}

// remove takes an entry out, with its charges.
func (j *Journal) remove(tx *sqlitefile.Session, id string) error {
	_, err := tx.Exec(`DELETE FROM debts WHERE ledger = ? AND id = ?`, j.ledger, id)
	return err
}
