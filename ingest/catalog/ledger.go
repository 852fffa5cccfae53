package catalog

import (
	"context"
	"database/sql"
	"time"
)

// ChargeTo notes to which ledger, by its address, runs are charged from now on. It
// returns since when that is so: now, if it was another ledger until now, or if
// forget says that what runs have spent so far no longer matters.
func (c *Catalog) ChargeTo(ctx context.Context, address string, forget bool) (since time.Time, err error) {
	err = c.change(ctx, func(tx *tx) error {
		var was string
		var at int64
		if _, err := tx.one("ledger_find", nil, &was, &at); err != nil {
			return err
		}
		if was == address && !forget {
			since = moment(at)
			return nil
		}
		since = moment(tx.now)
		_, err := tx.exec("ledger_save", address, tx.now)
		return err
	})
	return since, c.fault("note the ledger in", err)
}

// Spent returns the units that runs which began at an instant or later have spent, by
// job.
func (c *Catalog) Spent(ctx context.Context, since time.Time) (map[string]int64, error) {
	all := map[string]int64{}
	err := c.each(ctx, func(rows *sql.Rows) error {
		var job string
		var units int64
		err := rows.Scan(&job, &units)
		all[job] = units
		return err
	}, `SELECT r.job, sum(w.units) FROM runs AS r JOIN run_work AS w ON w.run = r.id WHERE r.started_at >= ? GROUP BY r.job`, micros(since))
	return all, err
}
