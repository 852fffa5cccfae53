package quota

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Block shuts a pool for every process until a time: the upstream said no. The
// later of two blocks stands, and it opens by itself.
func (l *Ledger) Block(ctx context.Context, pool Pool, until time.Time, reason string) error {
	if until.Sub(l.clock.Now()) > maxBlock { // a misread answer must not shut a pool for ever
		return BadInput("block %s: %s is too far off; a block may last %s at most", pool, until.UTC().Format(time.RFC3339), roundUp(maxBlock))
	}
	return l.block(ctx, pool, BlockRequest{Until: until, Reason: reason})
}

// BlockFor shuts a pool for a while, counted by the store's clock: what a
// Retry-After asks for.
func (l *Ledger) BlockFor(ctx context.Context, pool Pool, d time.Duration, reason string) error {
	return l.block(ctx, pool, BlockRequest{For: d, Reason: reason})
}

// What a refusal that names no time means.
const (
	// graceAfterReset is how long after a reset a daily refusal may be of the
	// period before: the upstream's midnight is not ours to the second.
	graceAfterReset = 15 * time.Minute
	// blockWithoutReset is how long a pool is shut that has no calendar.
	blockWithoutReset = time.Hour
)

// BlockUntilReset shuts a pool because the upstream said that its quota is used up,
// but not until when. That is taken to be said of the day: the pool is shut until the
// next boundary of its shortest calendar of a day or longer, else of its longest one.
// If it was the month that is used up, the upstream will say so again the next day.
// In the first 15 minutes of a period the pool is shut until their end only; a pool
// without a calendar is shut for an hour.
func (l *Ledger) BlockUntilReset(ctx context.Context, pool Pool, reason string) error {
	c, err := l.prices.Load().pool(pool)
	if err != nil {
		return err
	}
	now := window.At(l.now())
	until := now.Add(blockWithoutReset)
	if spec, ok := resets(c.Windows); ok {
		start, end := spec.Bounds(now)
		until = end
		if grace := start.Add(graceAfterReset); now < grace && grace < end {
			until = grace
		}
	}
	return l.block(ctx, pool, BlockRequest{Until: until.Time(), Reason: reason})
}

// resets returns the calendar whose reset a refusal that names no time waits for.
func resets(windows []window.Limit) (calendar window.Spec, ok bool) {
	const day = 24 * time.Hour
	best := time.Duration(0)
	for _, w := range windows {
		span := w.Spec.Span()
		nearer := span > best // up to a day
		if best >= day {
			nearer = day <= span && span < best
		}
		if w.Spec.Algorithm == window.ByCalendar && nearer {
			calendar, best, ok = w.Spec, span, true
		}
	}
	return calendar, ok
}

// Unblock opens a pool.
func (l *Ledger) Unblock(ctx context.Context, pool Pool) error {
	return l.block(ctx, pool, BlockRequest{Open: true})
}

func (l *Ledger) block(ctx context.Context, pool Pool, b BlockRequest) error {
	c, err := l.prices.Load().pool(pool)
	if err != nil {
		return err
	}
	pool, b.Charges = c.Pool, []Charge{c}
	if err := b.Check(); err != nil {
		return err
	}
	if b.Open { // what the journal holds would shut it again
		var left *leftError
		if err := l.Replay(ctx); err != nil && !errors.As(err, &left) {
			return err
		}
	}
	until := b.Until
	if b.For > 0 {
		until = l.now().Add(b.For)
	}
	if err := l.store.Block(ctx, b); err != nil {
		err = l.storeError(ctx, "block "+pool.String(), err)
		if l.journal == nil || b.Open || !errors.Is(err, ErrOutage) {
			return err
		}
		if err := l.blockUnseen(ctx, pool, until, b.Reason, err); err != nil {
			return err
		}
	}
	switch {
	case b.Open:
		l.shut.lift(pool)
		l.tell(Event{Kind: EventOpened, Pool: pool})
	case until.After(l.now()): // else it is over already, and shut nothing
		l.shut.note(pool, until)
		l.tell(Event{Kind: EventShut, Pool: pool, Until: until, Reason: b.Reason})
	}
	return nil
}

// blockUnseen writes a block down that the ledger cannot be told of.
func (l *Ledger) blockUnseen(ctx context.Context, pool Pool, until time.Time, reason string, outage error) error {
	e := Entry{ID: l.ids.next(), Identity: l.answering(ctx, pool, outage), At: l.now(), Charges: []EntryCharge{{Pool: pool}}, Until: until, Reason: reason}
	l.pending.Store(true)
	if err := l.journal.Block(ctx, e); err != nil {
		return &OutageError{Op: "block " + pool.String(), Reason: "and the journal cannot be written", Err: errors.Join(outage, err)}
	}
	return nil
}

// blocks are those that a ledger has made, or was refused by: it does not draw from
// a hold while one stands. What it does not know of, the store does.
type blocks struct {
	mu    sync.Mutex
	until map[Pool]time.Time
}

func (b *blocks) note(pool Pool, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until == nil {
		b.until = make(map[Pool]time.Time)
	}
	if until.After(b.until[pool]) {
		b.until[pool] = until
	}
}

func (b *blocks) lift(pool Pool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.until, pool)
}

// stands reports whether one of the pools of charges is shut.
func (b *blocks) stands(now time.Time, charges []Charge) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range charges {
		if now.Before(b.until[charges[i].Pool]) {
			return true
		}
	}
	return false
}
