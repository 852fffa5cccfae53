package quota

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Block shuts a pool for every process until a time: the upstream said no, or with a
// reason [ByHand] a person did. The later of two blocks stands, and it opens by itself.
func (l *Ledger) Block(ctx context.Context, pool Pool, until time.Time, reason string) error {
	if l.current() == nil {
		return errNotMade
	}
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
	c, err := l.current().pool(pool)
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
		if w.Spec.Calendar() && nearer {
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
	c, err := l.current().pool(pool)
	if err != nil {
		return err
	}
	pool, b.Charges = c.Pool, []Charge{c}
	if !b.Open {
		if b.Reason, err = markReason(b.Reason); err != nil {
			return err
		}
	}
	if err := b.Check(); err != nil {
		return err
	}
	if err := tooLate(ctx, "block "+pool.String()); err != nil {
		return err
	}
	if b.Open { // what the journal holds would shut it again
		var left *leftError
		if err := l.Replay(ctx); err != nil && !errors.As(err, &left) {
			return err
		}
	}
	until, mark := b.Until, l.shut.mark()
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
		l.shut.opened(pool, mark)
		l.tell(Event{Kind: EventOpened, Pool: pool})
	case until.After(l.now()): // else it is over already, and shut nothing
		l.shut.note(pool, until)
		by, reason := readReason(b.Reason)
		l.tell(Event{Kind: EventShut, Pool: pool, Until: until, BlockedBy: by, Reason: reason})
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

// blocks are those that a ledger has made, or was refused by. It draws from no hold
// while one stands. The store knows the others.
//
// A block that another process lifts is remembered until the store shows the pool
// open. Answers may overtake each other, so only an answer to a question that was
// asked after the block was noted counts: it was decided after the block. The order
// of this process says so with certainty; times of the store's clock would not, as
// that may step back, and as the answer to a block has none.
type blocks struct {
	noted atomic.Uint64 // blocks so far
	many  atomic.Int64  // blocks remembered: mostly none, and then there is nothing to look up
	mu    sync.Mutex
	until map[Pool]shut
}

// shut is until when a pool is, and the last time that this was noted.
type shut struct {
	until time.Time
	noted uint64
}

func (b *blocks) note(pool Pool, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until == nil {
		b.until = make(map[Pool]shut)
	}
	if known := b.until[pool].until; known.After(until) {
		until = known
	}
	b.until[pool] = shut{until, b.noted.Add(1)}
	b.many.Store(int64(len(b.until)))
}

// mark is taken before the store is asked, for opened.
func (b *blocks) mark() uint64 { return b.noted.Load() }

// opened forgets a block of a pool that the store showed to be open, if it was noted
// before the mark.
func (b *blocks) opened(pool Pool, mark uint64) {
	if b.many.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until[pool].noted <= mark {
		delete(b.until, pool)
		b.many.Store(int64(len(b.until)))
	}
}

// learn notes what a verdict says of the pools of charges. The repeat of a grant says
// nothing: it stands, whatever has become of the pools.
func (b *blocks) learn(v *Verdict, charges []Charge, mark uint64) {
	switch {
	case v.Blocked:
		b.note(v.Pool, v.RetryAt)
	case v.Allowed && !v.Repeat:
		for i := range charges {
			b.opened(charges[i].Pool, mark)
		}
	}
}

// stands reports whether one of the pools of charges is shut.
func (b *blocks) stands(now time.Time, charges []Charge) bool {
	if b.many.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range charges {
		if now.Before(b.until[charges[i].Pool].until) {
			return true
		}
	}
	return false
}
