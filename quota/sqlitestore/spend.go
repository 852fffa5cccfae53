package sqlitestore

import (
	"context"
	"database/sql/driver"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// Spend implements [pagestore.Backend].
func (f *file) Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error) {
	t, err := f.view(ctx)
	if err != nil {
		return nil, err
	}
	from, to := storekit.SpendRange(window.At(t.now), q)
	var sums storekit.Fold
	err = t.read("spend", []driver.Value{q.Upstream, q.Account, from, to}, func(r sqlitefile.Row) error {
		return sums.Add(q, quota.Spent{
			Pool: quota.Pool{Upstream: q.Upstream, Account: q.Account, Name: r.Text(0)}, Day: r.Text(2),
			Labels: quota.Labels{Method: r.Text(3), Job: r.Text(4), Region: r.Text(5), Class: r.Text(6), Reason: r.Text(7)},
			Units:  r.Int(8), Calls: r.Int(9),
		}, r.Text(1))
	})
	return sums.All, t.End(err)
}
