package catalog

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// ChargeTo records the address of the ledger that runs are charged to from now on. It
// returns when runs were first charged to that ledger. This is now if the address is new,
// or if forget says that earlier spend no longer matters.
func (c *Catalog) ChargeTo(ctx context.Context, address string, forget bool) (since time.Time, err error) {
	err = c.change(ctx, func(tx *tx) error {
		row, err := tx.One("ledger_find")
		if err != nil {
			return err
		}
		if row != nil && row.Text(0) == address && !forget {
			since = row.Time(1)
			return nil
		}
		since = tx.now
		_, err = tx.Exec("ledger_save", address, tx.now)
		return err
	})
	return since, c.fault("note the ledger in", err)
}

// Spent returns the units that runs have spent, by job. It counts runs that began at or
// after since.
func (c *Catalog) Spent(ctx context.Context, since time.Time) (map[string]int64, error) {
	all := map[string]int64{}
	err := c.each(ctx, func(row sqlitefile.Row) error {
		all[row.Text(0)] = row.Int(1)
		return nil
	}, `SELECT r.job, sum(w.units) FROM runs AS r JOIN run_work AS w ON w.run = r.id WHERE r.started_at >= ? GROUP BY r.job`, since)
	return all, err
}
