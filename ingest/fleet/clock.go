package fleet

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/quota"
)

// Clock is the clock of the database. Between two looks at it, the machine's clock counts on.
// The ticks of all daemons follow it.
type Clock struct {
	pool *pgxpool.Pool
	skew atomic.Int64 // of the machine's clock: positive if it is ahead
}

var _ quota.Clock = (*Clock)(nil)

// NewClock returns the clock of the database of a catalog.
func NewClock(ctx context.Context, c *pgcatalog.Catalog) (*Clock, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	k := &Clock{pool: c.Pool()}
	return k, k.look(ctx)
}

// look reads the database's clock.
func (k *Clock) look(ctx context.Context) error {
	var is time.Time
	before := machine()
	if err := k.pool.QueryRow(ctx, sql("clock")).Scan(&is); err != nil {
		return err
	}
	k.skew.Store(int64(before.Add(machine().Sub(before) / 2).Sub(is)))
	return nil
}

// Now returns the time of the database.
func (k *Clock) Now() time.Time { return machine().Add(-k.Skew()).Round(0).UTC() }

// Skew returns by how much the machine's clock is ahead.
func (k *Clock) Skew() time.Duration { return time.Duration(k.skew.Load()) }

// machine returns the time of this machine. Nothing else in this package asks for it.
func machine() time.Time { return time.Now() }

// Sleep waits on the machine's clock.
func (k *Clock) Sleep(ctx context.Context, d time.Duration) error {
	return quota.SystemClock{}.Sleep(ctx, d)
}
