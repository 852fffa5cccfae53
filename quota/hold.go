package quota

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Hold reserves the calls of a whole pass: all of them or none. Calls made under its
// context draw from it. Their units count from the time of the hold.
//
// A hold ends by itself at the earliest of these times:
//   - one length of the shortest sliding window that it charges after it was made,
//   - the next boundary of a calendar that it charges, less the calendar's lag,
//   - 15 minutes after it was made.
//
// After that, calls reserve for themselves. A pool with a sliding window of less than a
// second, or with a bucket, which drains at once, cannot be held. The end of a hold frees nothing. Only Close releases the units
// that are left. After a crash all of them count as spent.
//
// The upstream counts a call when it is sent, which is later than the hold. To keep within
// the upstream's count, too, the hold takes its units again if a call draws late. For a
// ring that is once per precision, after the bucket of the units has ended, and at least
// once a minute. For a log or a counter it is at each call. It costs two requests to the store and needs no room in
// the windows. A call that is released or settled down after that gives nothing back to
// the hold. All other draws need no request.
//
// Calls of a blocked pool do not draw. They reserve for themselves, and are refused. The
// hold knows blocks that this ledger has made, or was refused by, until the pool opens
// again. It finds another process's block when it takes its units again.
//
// An id draws only once from a hold. The store does not know it.
type Hold struct {
	ledger  *Ledger
	call    Call
	verdict Verdict
	made    time.Time
	busy    chan struct{} // full while units are taken again, or the hold is being closed

	mu       sync.Mutex
	r        *Reservation // of the units that are left, and of those drawn since it was made
	taken    time.Time    // by the ledger's clock, when r was made or a little before
	slack    time.Duration
	moving   bool // the units that are left are being taken again
	owed     []owed
	ends     time.Time
	prices   *prices                 // that the windows were last compared with
	left     []int64                 // by charge of r
	drawn    map[string]*localCharge // by the caller's id
	closed   bool                    // no call draws any more
	spent    []int64                 // that Close settles to
	released bool
}

// Hold reserves a call n times at once. The hold makes its own id: with an id of the
// caller's, a retry would give a second hold of the same units.
func (l *Ledger) Hold(ctx context.Context, c Call, n int) (*Hold, error) {
	prices := l.current()
	switch {
	case prices == nil:
		return nil, errNotMade
	case c.Family != "":
		return nil, l.failed(ctx, &c, BadInput("family %s: a family cannot be held", c.Family))
	case c.ID != "":
		return nil, l.failed(ctx, &c, BadInput("hold: a hold makes its own id; leave the id of the call empty"))
	case n < 1 || n > maxHeld:
		return nil, l.failed(ctx, &c, BadInput("a hold is for 1 to %d calls, not %d", maxHeld, n))
	}
	one, err := prices.lookup(&c)
	var all price
	if err == nil {
		all.outage, all.held = one.outage, true
		all.charges = slices.Clone(one.charges)
		for i := range all.charges {
			held := &all.charges[i]
			if held.Units > window.MaxUnits/int64(n) {
				return nil, l.failed(ctx, &c, BadInput("hold %s: %d calls of %d units are more than %d in all", held.Pool, n, held.Units, int64(window.MaxUnits)))
			}
			held.Units *= int64(n)
			held.Lease = Lease{} // it is a block itself
		}
		if err = prices.possible(all.charges, c.Class); err != nil {
			_, err = prices.overlook(&c, &all, err)
		}
	}
	if err != nil {
		return nil, l.failed(ctx, &c, err)
	}
	if slotOf(all.charges) != nil {
		return nil, l.failed(ctx, &c, BadInput("hold: a slot cannot be held, because it counts while its call is in flight; hold charges without the pools with in_flight"))
	}
	made := l.clock.Now()
	ends, late := holdEnds(made, all.charges)
	if errors.Is(late, ErrBadInput) {
		return nil, l.failed(ctx, &c, late)
	}
	r, err := l.reserve(ctx, &c, &all, nil)
	if err != nil {
		return nil, afterBoundaries(err, all.charges)
	}
	l.notSent(r.Pool, r.ID, false) // the first call that draws goes first
	if late != nil {               // refused only now, because only the store knows whether the units fit
		if _, err := r.Release(ctx); err != nil {
			return nil, err
		}
		return nil, l.failed(ctx, &c, afterBoundaries(late, all.charges))
	}
	h := &Hold{
		ledger: l, call: c, verdict: r.Verdict, made: made, busy: make(chan struct{}, 1),
		r: r, taken: made, slack: slack(r.At, all.charges), ends: ends, prices: prices, left: make([]int64, len(r.price.charges)),
	}
	if r.Outage || r.local != nil { // the ledger does not know it, and such calls may pass a limit
		h.slack = maxHold
	}
	for i := range r.price.charges {
		h.left[i] = r.price.charges[i].Units
	}
	return h, nil
}

// errNoHold is the error of a nil or zero hold.
var errNoHold = BadInput("this hold was not made by Ledger.Hold")

type holdKey struct{}

// Context returns a context under which calls draw from the hold.
func (h *Hold) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, holdKey{}, h)
}

func holdOf(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// Ends returns when calls stop drawing from the hold. Another price book can make it
// earlier.
func (h *Hold) Ends() time.Time {
	if h == nil {
		return time.Time{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shorten()
	return h.ends
}

// shorten ends the hold if a new price book has other windows. The same windows have the same boundaries.
func (h *Hold) shorten() {
	if h.ledger == nil {
		return
	}
	p := h.ledger.prices.Load()
	if p == h.prices {
		return
	}
	h.prices = p
	for i := range h.r.price.charges {
		was := &h.r.price.charges[i]
		if c, err := p.pool(was.Pool); err != nil || !slices.EqualFunc(c.Windows, was.Windows, sameLayout) {
			h.ends = h.made // the page will be laid out again, and then gives back nothing
		}
	}
}

// Verdict returns the ledger's answer to the hold.
func (h *Hold) Verdict() Verdict {
	if h == nil {
		return Verdict{}
	}
	return h.verdict
}

// Left returns the units that are left, by pool.
func (h *Hold) Left() map[string]int64 {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	left := make(map[string]int64, len(h.left))
	for i, units := range h.left {
		left[h.r.price.charges[i].Pool.Name] = units
	}
	return left
}

// Close releases the units that are left. After it, calls under the context reserve for
// themselves. A second Close does nothing. A Close that failed can be retried.
func (h *Hold) Close(ctx context.Context) error {
	if h == nil || h.ledger == nil {
		return errNoHold
	}
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if !h.begin(within) {
		return &OutageError{Op: "close a hold of " + h.verdict.Pool.String(), Reason: "its units are being taken again", Err: within.Err()}
	}
	defer h.end()
	h.mu.Lock()
	if h.spent == nil { // before settling: if its reply is lost, the units may be free
		h.spent = h.gone()
		clear(h.left)
	}
	spent, released := h.spent, h.released
	h.mu.Unlock()
	if err := h.pay(ctx); err != nil || released {
		return err
	}
	if _, err := h.r.settle(ctx, unitsOf(h.r.price.charges, spent)); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	return nil
}

// gone returns the units drawn since the hold's reservation was made.
func (h *Hold) gone() []int64 {
	spent := make([]int64, len(h.left))
	for i, left := range h.left {
		spent[i] = h.r.price.charges[i].Units - left
	}
	return spent
}

func sameLayout(a, b window.Limit) bool { return a.Layout == b.Layout }
