package fleet

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/quota"
)

// Clock is the clock of the database. Until a minute after a look at it, the machine counts the seconds, also while its
// clock is set. The ticks of all daemons follow it.
type Clock struct {
	pool    *pgxpool.Pool
	machine func() time.Time
	last    atomic.Pointer[look]
}

// look is what both clocks showed at one time.
type look struct{ machine, database time.Time }

var _ quota.Clock = (*Clock)(nil)

// NewClock returns the clock of the database of a catalog.
func NewClock(ctx context.Context, c *pgcatalog.Catalog) (*Clock, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	k := &Clock{pool: c.Pool(), machine: machine}
	return k, k.ask(ctx, sql("clock"))
}

// slow is how long an answer takes that says little about the clocks. A process that is stopped
// meanwhile would find that its clock is off.
const slow = time.Second

// ask runs a statement that returns the time of the database. A slow answer does not change what is known.
func (k *Clock) ask(ctx context.Context, statement string, args ...any) error {
	var is time.Time
	before := k.machine()
	if err := k.pool.QueryRow(ctx, statement, args...).Scan(&is); err != nil {
		return err
	}
	if took := k.machine().Sub(before); took < slow || k.last.Load() == nil {
		k.last.Store(&look{before.Add(took / 2), is})
	}
	return nil
}

// MaxSkew is by how much the clock of a daemon may differ from the database's. River's leader dates
// work, and takes it from daemons, by its own clock.
const MaxSkew = 5 * time.Second

// off says what is wrong with the machine's clock, or nothing.
func (k *Clock) off() string {
	skew, is := k.Skew(), "ahead of"
	if skew < 0 {
		skew, is = -skew, "behind"
	}
	if skew <= MaxSkew {
		return ""
	}
	return fmt.Sprintf("its clock is %s %s the database's; set it, with NTP", skew.Round(time.Second), is)
}

// Now returns the time of the database.
func (k *Clock) Now() time.Time {
	l, now := k.last.Load(), k.machine()
	passed := now.Sub(l.machine)
	if passed > time.Minute { // nobody looks any more, and seconds are not counted while a machine is suspended
		passed = now.Round(0).Sub(l.machine)
	}
	return l.database.Add(passed).UTC()
}

// NowOrNil returns the time by which River dates the work that is inserted. River's own is the machine's, and may be wrong.
func (k *Clock) NowOrNil() *time.Time { return new(k.Now()) }

// Skew returns by how much the machine's clock was ahead at the last look.
func (k *Clock) Skew() time.Duration {
	l := k.last.Load()
	return l.machine.Sub(l.database)
}

// machine returns the time of this machine. Nothing else in this package asks for it.
func machine() time.Time { return time.Now() }

// Sleep waits on the machine's clock.
func (k *Clock) Sleep(ctx context.Context, d time.Duration) error {
	return quota.SystemClock{}.Sleep(ctx, d)
}
