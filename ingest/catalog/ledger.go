package catalog

import (
	"context"
	"time"
)

// ChargeTo records the address of the ledger that runs are charged to from now on. It
// returns when runs were first charged to that ledger. This is now if the address is new,
// or if forget says that earlier spend no longer matters.
func (e *Engine) ChargeTo(ctx context.Context, address string, forget bool) (since time.Time, err error) {
	var last string
	var at time.Time
	err = e.home.Change(ctx, func(b Batch) {
		last, at = "", time.Time{}
		b.Query(func(scan Scan) error { return scan(&last, &at) }, "ledger_find")
	}, func(tx Tx) error {
		if since = at; last != address || at.IsZero() || forget {
			since = tx.Now
			tx.Exec("ledger_save", address, tx.Now)
		}
		return nil
	})
	return since, e.home.Fault("note the ledger in", err)
}

// Spent returns the units that runs have spent, by job. It counts runs that began at or
// after since.
func (e *Engine) Spent(ctx context.Context, since time.Time) (map[string]int64, error) {
	all := map[string]int64{}
	err := e.each(ctx, func(scan Scan) error {
		var job string
		var units int64
		err := scan(&job, &units)
		all[job] = units
		return err
	}, "spent", since)
	return all, err
}
