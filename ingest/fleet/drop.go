package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// HeldError says that a daemon has a job that is to be dropped.
type HeldError struct{ Job, Daemon string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("the daemon %s has the job %s in its settings", e.Daemon, e.Job)
}

// Drop forgets the work of a job that no daemon has any more, and returns how much there was. It
// ends the runs of the job. The fetched data and the position of the job stay. While a daemon has
// the job, it returns a [*HeldError].
func (b *Board) Drop(ctx context.Context, account, job string) (n int, err error) {
	account = cmp.Or(account, quota.DefaultAccount)
	return n, b.bounded(ctx, func(ctx context.Context) error {
		n, err = b.drop(ctx, account, job)
		return err
	})
}

func (b *Board) drop(ctx context.Context, account, job string) (n int, err error) {
	err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		var daemon string
		err := tx.QueryRow(ctx, sql("drop_held"), job, Alive.Seconds()).Scan(&daemon)
		if err == nil {
			return &HeldError{job, daemon}
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		ids := func(statement string) ([]int64, error) {
			return collect(ctx, tx, pgx.RowTo[int64], sql(statement), account, job)
		}
		records, err := ids("drop_runs")
		if err != nil {
			return err
		}
		works, err := ids("drop_works")
		if err != nil {
			return err
		}
		n = len(works)
		for _, id := range works {
			if _, err := b.client.JobCancelTx(ctx, tx, id); err != nil && !errors.Is(err, rivertype.ErrNotFound) {
				return err
			}
		}
		for _, id := range records {
			if id == 0 { // it never began
				continue
			}
			end := catalog.Outcome{State: catalog.Failed, Error: "its job was dropped", Cause: "ended"}
			if err := b.catalog.In(tx).Join(id, job, catalog.Fence{}).End(ctx, end); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, sql("pause_end"), account, job)
		return err
	})
	return n, err
}
