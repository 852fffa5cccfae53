package quota

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Hold is a reservation for a whole pass, all calls or none: calls made under its
// context draw from it. Their units count from when they were held.
//
// A hold ends by itself
//   - when the shortest sliding window that it charges has passed since it was made,
//   - before the next boundary of a calendar that it charges, by its lag,
//   - and after 15 minutes.
//
// From then on calls reserve for themselves. A pool with a sliding window of less
// than a second is not held. Ending frees nothing: only Close releases what is left,
// and after a crash all of it stands as spent.
//
// Calls leave later than their units were taken, and the upstream counts them from
// when they leave. So that no window is over by its count either, units that leave
// late are taken again, in place of those that were held. A ring needs that once per
// precision, when a call draws after the bucket in which the units were taken has
// ended; a log or a counter each time. It costs two questions to the store, and needs
// no room, as the units count already. A call that is released or settled down after
// that gives nothing back to the hold. Otherwise drawing asks nobody.
//
// Nothing is drawn for a pool that is blocked: the call reserves for itself, and is
// refused. That holds for blocks which the same ledger has made, or was refused by,
// until it sees the pool open again. Another process's block is found when units are
// taken again, which a block of any of the hold's pools prevents.
//
// An id draws once while calls draw from the hold; the store does not know of it.
type Hold struct {
	ledger  *Ledger
	call    Call
	verdict Verdict
	made    time.Time
	busy    chan struct{} // full while units are taken again, or the hold is closed

	mu       sync.Mutex
	r        *Reservation // of what is left, and what was drawn since it was taken
	taken    time.Time    // by the ledger's clock; not after it was
	slack    time.Duration
	moving   bool // what is left is taken again
	owed     []owed
	ends     time.Time
	prices   *prices                 // by which it ends then
	left     []int64                 // by charge of r
	drawn    map[string]*localCharge // by the caller's id
	closed   bool                    // nothing is drawn any more
	spent    []int64                 // what closing settles to
	released bool
}

// Hold reserves a call n times at once. A hold takes an id of its own, because a
// second purse under the same one would pay for calls that nobody counts.
func (l *Ledger) Hold(ctx context.Context, c Call, n int) (*Hold, error) {
	prices := l.current()
	switch {
	case prices == nil:
		return nil, errNotMade
	case c.Family != "":
		return nil, l.failed(&c, BadInput("family %s: a family cannot be held", c.Family))
	case c.ID != "":
		return nil, l.failed(&c, BadInput("hold: a hold makes its own id; leave the id of the call empty"))
	case n < 1 || n > window.MaxUnits:
		return nil, l.failed(&c, BadInput("a hold is for 1 to %d calls, not %d", window.MaxUnits, n))
	}
	one, err := prices.lookup(&c)
	var all price
	if err == nil {
		all.outage = one.outage
		all.charges = slices.Clone(one.charges)
		for i := range all.charges {
			all.charges[i].Units *= int64(n)
		}
		err = prices.possible(all.charges, c.Class)
	}
	if err != nil {
		return nil, l.failed(&c, err)
	}
	made := l.clock.Now()
	ends, late := holdEnds(made, all.charges)
	if errors.Is(late, ErrBadInput) {
		return nil, l.failed(&c, late)
	}
	r, err := l.reserve(ctx, &c, &all)
	if err != nil {
		return nil, afterBoundaries(err, all.charges)
	}
	if late != nil { // refused only now, because whether it will fit then only the store knows
		if _, err := r.Release(ctx); err != nil {
			return nil, err
		}
		return nil, l.failed(&c, afterBoundaries(late, all.charges))
	}
	h := &Hold{
		ledger: l, call: c, verdict: r.Verdict, made: made, busy: make(chan struct{}, 1),
		r: r, taken: made, slack: slack(r.At, all.charges), ends: ends, prices: prices, left: make([]int64, len(r.price.charges)),
	}
	if r.Outage { // the ledger does not know of it, and what was admitted may pass a limit
		h.slack = maxHold
	}
	for i := range r.price.charges {
		h.left[i] = r.price.charges[i].Units
	}
	return h, nil
}

// errNoHold is of a zero hold.
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
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shorten()
	return h.ends
}

// shorten heeds the boundaries of another price book, if the ledger goes by one.
func (h *Hold) shorten() {
	if h.ledger == nil {
		return
	}
	p := h.ledger.prices.Load()
	if p == h.prices {
		return
	}
	h.prices = p
	charges := make([]Charge, len(h.left))
	for i := range charges {
		c, err := p.pool(h.r.price.charges[i].Pool)
		if err != nil || !slices.EqualFunc(c.Windows, h.r.price.charges[i].Windows, sameLayout) {
			h.ends = h.made // the page is laid out anew, and gives back nothing that it counted before
			return
		}
		charges[i] = c
	}
	ends, err := holdEnds(h.made, charges)
	if err != nil {
		ends = h.made
	}
	if ends.Before(h.ends) {
		h.ends = ends
	}
}

// Verdict returns the ledger's answer to the hold.
func (h *Hold) Verdict() Verdict { return h.verdict }

// Left returns the units that are left, by pool.
func (h *Hold) Left() map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := make(map[string]int64, len(h.left))
	for i, units := range h.left {
		left[h.r.price.charges[i].Pool.Name] = units
	}
	return left
}

// Close releases what is left. Calls under the context reserve for themselves
// from then on. A second Close does nothing; one that fails may be tried again.
func (h *Hold) Close(ctx context.Context) error {
	if h.ledger == nil {
		return errNoHold
	}
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.ledger.timeout)
	defer cancel()
	if !h.begin(within) {
		return &OutageError{Op: "close a hold of " + h.verdict.Pool.String(), Reason: "its units are being taken again", Err: within.Err()}
	}
	defer h.end()
	spent := h.close()
	if err := h.pay(ctx); err != nil || spent == nil {
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

// close returns what closing settles to; nil if that is done.
func (h *Hold) close() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.spent == nil { // before it is settled, because a reply that is lost may have freed the units
		h.spent = h.gone()
		clear(h.left)
	}
	if h.released {
		return nil
	}
	return h.spent
}

// gone returns what was drawn since what is left was taken.
func (h *Hold) gone() []int64 {
	spent := make([]int64, len(h.left))
	for i, left := range h.left {
		spent[i] = h.r.price.charges[i].Units - left
	}
	return spent
}

func sameLayout(a, b window.Limit) bool { return a.Layout == b.Layout }
