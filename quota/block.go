package quota

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Block shuts a pool for every process until a time: the upstream said no, or with a
// reason [ByHand] a person did. The later of two blocks stands, and it opens by itself. Then
// one call of each process goes first: see [Reservation.Answered]. A pool whose limit is learned is
// not shut by an upstream: its rate falls instead. See [Reservation.Refused]. Only [Ledger.BlockUntilReset]
// shuts it, if it has a calendar, too.
func (l *Ledger) Block(ctx context.Context, pool Pool, until time.Time, reason string) error {
	if l.current() == nil {
		return errNotMade
	}
	if until.Sub(l.clock.Now()) > maxBlock { // a misread answer must not shut a pool for ever
		return BadInput("block %s: %s is too far off; a block may last %s at most", pool, until.UTC().Format(time.RFC3339), roundUp(maxBlock))
	}
	return l.refusedUntil(ctx, pool, BlockRequest{Until: until, Reason: reason}, until.Sub(l.now()))
}

// BlockFor shuts a pool for a while, counted by the store's clock: what a
// Retry-After asks for.
func (l *Ledger) BlockFor(ctx context.Context, pool Pool, d time.Duration, reason string) error {
	return l.refusedUntil(ctx, pool, BlockRequest{For: d, Reason: reason}, d)
}

// refusedUntil shuts a pool, or lowers its rate if that is learned and no person shuts it. Named is the wait that
// the upstream has named.
func (l *Ledger) refusedUntil(ctx context.Context, pool Pool, b BlockRequest, named time.Duration) error {
	c, err := l.current().pool(pool)
	if err != nil {
		return err
	}
	b.Charges = []Charge{c}
	if !strings.HasPrefix(b.Reason, handMark) && b.Check() == nil { // else block says what is wrong
		if lr := l.learner(c.Pool); lr != nil {
			return lr.refused(ctx, l, "", named)
		}
	}
	if err = l.block(ctx, c, b); err == nil && isUnexplained(b.Reason) {
		l.heard.shut(&c, l.now().Add(named))
	}
	return err
}

// These say how long a pool is shut by a refusal that names no time.
const (
	// graceAfterReset is how long after a reset a daily refusal may still belong to
	// the period before, because the upstream's clock differs from ours.
	graceAfterReset = 15 * time.Minute
	// blockWithoutReset is how long a pool without a calendar is shut.
	blockWithoutReset = time.Hour
)

// BlockUntilReset shuts a pool whose quota is used up, if the upstream did not say until
// when. It assumes a daily quota. The pool is shut until the next boundary of its
// shortest calendar of a day or longer, else of its longest calendar. If the monthly
// quota is used up, the upstream will refuse again the next day. In the first 15
// minutes of a period the pool is shut only until these end. A pool without a calendar
// is shut for an hour.
func (l *Ledger) BlockUntilReset(ctx context.Context, pool Pool, reason string) error {
	c, err := l.current().pool(pool)
	if err != nil {
		return err
	}
	now := window.At(l.now())
	spec, ok := resets(c.Windows)
	if !ok {
		return l.refusedUntil(ctx, pool, BlockRequest{Until: now.Add(blockWithoutReset).Time(), Reason: reason}, 0)
	}
	start, until := spec.Bounds(now)
	if grace := start.Add(graceAfterReset); now < grace && grace < until {
		until = grace
	}
	return l.block(ctx, c, BlockRequest{Until: until.Time(), Reason: reason})
}

// resets returns the calendar whose reset ends a block of unknown length.
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
func (a Admin) Unblock(ctx context.Context, pool Pool) error {
	c, err := a.ledger.current().pool(pool)
	if err != nil {
		return err
	}
	return a.ledger.block(ctx, c, BlockRequest{Open: true})
}

func (l *Ledger) block(ctx context.Context, c Charge, b BlockRequest) (err error) {
	pool := c.Pool
	b.Charges = []Charge{c}
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
		if err := l.replayMost(ctx); err != nil {
			return err
		}
	}
	until, mark := b.Until, l.shut.noted.Load()
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
		l.shut.opened(pool, mark, time.Time{})
		l.heard.forgetSpacing(pool)
		l.line.freed([]Pool{pool}, 0, l.clock.Now())
		l.tell(ctx, Event{Kind: EventOpened, Pool: pool})
	case until.After(l.now()): // else it is over already, and shut nothing
		l.shut.note(pool, until, l.now())
		by, reason := readReason(b.Reason)
		l.tell(ctx, Event{Kind: EventShut, Pool: pool, Until: until, BlockedBy: by, Reason: reason})
	}
	return nil
}

// blockUnseen writes a block into the journal while the ledger is down.
func (l *Ledger) blockUnseen(ctx context.Context, pool Pool, until time.Time, reason string, outage error) error {
	e := Entry{ID: l.ids.next(), Identity: l.answering(ctx, pool, outage), At: l.now(), Charges: []EntryCharge{{Pool: pool}}, Until: until, Reason: reason}
	l.pending.Store(true)
	if err := l.journal.Block(ctx, e); err != nil {
		return journalError(ctx, "block "+pool.String(), "written", errors.Join(outage, err))
	}
	return nil
}

// blocks remembers the blocks that a ledger has made, or was refused by. Calls draw from
// no hold while one of its pools is blocked. Only the store knows all other blocks.
//
// If another process lifts a block, it is remembered here until the store shows the pool
// open. Replies may arrive out of order. So a reply counts only if its request was sent
// after the block was noted. The order within this process decides that, and not the
// store's clock: the clock may step back, and the reply to a block has no time.
type blocks struct {
	noted atomic.Uint64 // number of blocks noted
	many  atomic.Int64  // number of blocks remembered; usually 0, which saves a lookup
	mu    sync.Mutex
	until map[Pool]shut
}

// maxBlocks is how many blocks are remembered before those that are over are dropped.
const maxBlocks = 1000

// shut says until when a pool is shut, and when that was last noted.
type shut struct {
	until time.Time
	noted uint64
	hold  time.Duration // how long others wait at most for the call that goes first
	probe probe         // the call that goes first after the block
}

func (b *blocks) note(pool Pool, until, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until == nil {
		b.until = make(map[Pool]shut)
	}
	s := b.until[pool]
	if until.After(s.until) {
		s = shut{until: until, hold: min(max(until.Sub(now), probeLeast), probeMost)}
	}
	s.noted = b.noted.Add(1)
	b.until[pool] = s
	b.many.Store(int64(len(b.until)))
}

// opened forgets the block of a pool that the store shows open before its end, or that somebody has opened, if the
// block was noted before the mark: noted, before the store was asked. After its end, a call goes first.
func (b *blocks) opened(pool Pool, mark uint64, at time.Time) {
	if b.many.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.until[pool]; s.noted <= mark && at.Before(s.until) {
		b.forget(pool)
	}
}

// forget is called with the lock.
func (b *blocks) forget(pool Pool) {
	delete(b.until, pool)
	b.many.Store(int64(len(b.until)))
}

// learn notes what a verdict says about the pools of the charges of a call. A repeated grant says
// nothing, because it stays granted even if a pool was blocked since.
func (b *blocks) learn(v *Verdict, charges []Charge, id string, mark uint64) {
	if v.Blocked {
		b.note(v.Pool, v.RetryAt, v.At)
	}
	if v.Allowed && v.ID != id {
		b.renamed(charges, id, v.ID)
	}
	if v.Allowed && !v.Repeat {
		for i := range charges {
			b.opened(charges[i].Pool, mark, v.At)
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
	if len(b.until) > maxBlocks { // of many keys
		maps.DeleteFunc(b.until, func(_ Pool, s shut) bool { return !now.Before(s.until) })
		b.many.Store(int64(len(b.until)))
	}
	for i := range charges {
		if now.Before(b.until[charges[i].Pool].until) {
			return true
		}
	}
	return false
}
