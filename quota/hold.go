package quota

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// maxHold is how long a hold lasts at most: well within the life of its receipt.
const maxHold = 15 * time.Minute

// Hold is a reservation for a whole pass, all calls or none: calls made under its
// context draw from it. Their units count from when they were held.
//
// An id draws once while calls draw from the hold; the store does not know of it.
//
// It ends by itself before the next boundary of a calendar that it charges (by
// its lag), and after 15 minutes; from then on calls reserve for themselves.
// Ending frees nothing: only Close releases what is left, and after a crash all
// of it stands as spent.
//
// Nothing is drawn for a pool that is blocked: the call reserves for itself, and is
// refused. That holds for blocks which the same ledger has made, or was refused by;
// drawing asks nobody, so of another process's block it does not know before that.
type Hold struct {
	r    *Reservation
	made time.Time

	mu       sync.Mutex
	ends     time.Time
	prices   *prices           // by which it ends then
	left     []int64           // by charge of r
	drawn    map[string]*aside // by the caller's id
	closed   bool              // nothing is drawn any more
	spent    []int64           // what closing settles to
	released bool
}

// drawn is what one call has taken from a hold.
type drawn struct {
	hold   *Hold
	units  []int64 // by charge of the call
	index  []int   // of the hold's charge, by charge of the call
	labels Labels
	name   string   // the caller's id
	id     string   // under which more than was drawn is charged
	short  []Charge // what is to be charged still
	done   *Settlement
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
	one, err := prices.of(&c)
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
	h := &Hold{r: r, made: made, ends: ends, prices: prices, left: make([]int64, len(r.price.charges))}
	for i := range r.price.charges {
		h.left[i] = r.price.charges[i].Units
	}
	return h, nil
}

// holdEnds is when a hold made now ends. One that would have ended before it
// began is refused until the boundary is behind.
func holdEnds(clock time.Time, charges []Charge) (time.Time, error) {
	now := window.At(clock)
	ends := now.Add(maxHold)
	for i := range charges {
		for _, w := range charges[i].Windows {
			if w.Spec.Algorithm != window.ByCalendar {
				continue
			}
			_, boundary := w.Spec.Bounds(now)
			end := boundary.Add(-max(w.Spec.Lag, 0))
			if end <= now {
				return time.Time{}, &RefusedError{Verdict{
					Pool: charges[i].Pool, Window: w.Name, Units: charges[i].Units, Limit: w.Limit, At: clock,
					Reason:  "a hold would end at the boundary of " + w.Name,
					RetryAt: boundary.Time(), RetryAfter: boundary.Sub(now), ResetAt: boundary.Time(),
				}}
			}
			ends = min(ends, end)
		}
	}
	return ends.Time(), nil
}

// afterBoundaries puts off the time of a refusal for as long as a hold made then would
// end before it began.
func afterBoundaries(err error, charges []Charge) error {
	var refused, next *RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	for range maxCharges * maxWindows { // calendars of several zones may take turns
		_, late := holdEnds(refused.RetryAt, charges)
		if !errors.As(late, &next) {
			break
		}
		refused.RetryAfter += next.RetryAt.Sub(refused.RetryAt)
		refused.RetryAt = next.RetryAt
	}
	return err
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
	if h.r == nil {
		return
	}
	p := h.r.ledger.prices.Load()
	if p == h.prices {
		return
	}
	h.prices = p
	charges := make([]Charge, len(h.left))
	for i := range charges {
		c, err := p.pool(h.r.price.charges[i].Pool)
		if err != nil { // there is no such pool any more
			h.ends = h.made
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
func (h *Hold) Verdict() Verdict {
	if h.r == nil {
		return Verdict{}
	}
	return h.r.Verdict
}

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
	if h.r == nil {
		return errNoHold
	}
	spent := h.close()
	if spent == nil {
		return nil
	}
	if _, err := h.r.settle(ctx, unitsOf(h.r.price.charges, spent)); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	return nil
}

// close stops the drawing, and returns what closing settles to; nil if that is done.
func (h *Hold) close() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed { // before it is settled, because a reply that is lost may have freed the units
		h.closed = true
		h.spent = make([]int64, len(h.left))
		for i, left := range h.left {
			h.spent[i] = h.r.price.charges[i].Units - left
		}
		clear(h.left)
	}
	if h.released {
		return nil
	}
	return h.spent
}

// draw takes a call's units from the hold, or returns nil if it cannot: another
// ledger or account, a pool that it does not hold or that is blocked, too little
// left, ended, closed, an id that drew something else, or a question that makes no
// sense; reserving will say what is wrong.
func (h *Hold) draw(ctx context.Context, l *Ledger, c *Call) *Reservation {
	if h.r == nil || h.r.ledger != l || ctx.Err() != nil || c.ID != "" && !validID(c.ID) {
		return nil
	}
	labels := c.labels()
	price, err := l.prices.Load().of(c)
	if err != nil || len(price.charges) == 0 || labels.check() != nil || l.shut.stands(l.now(), price.charges) {
		return nil
	}
	d := &drawn{hold: h, id: l.ids.next(), labels: labels}
	taken := h.take(l.clock.Now(), c.ID, d, price.charges)
	if taken == nil {
		return nil
	}
	v := h.r.Verdict
	v.ID, v.Nonce, v.Repeat, v.Rebased = c.ID, Nonce{}, taken.drawn != d, false
	if v.ID == "" {
		v.ID = d.id
	}
	v.Units = 0
	for i := range price.charges {
		if price.charges[i].Pool == v.Pool {
			v.Units = price.charges[i].Units
		}
	}
	if v.Units == 0 { // the hold's verdict speaks of a pool that this call does not charge
		first := &price.charges[0]
		v = Verdict{Allowed: true, ID: v.ID, Pool: first.Pool, Units: first.Units, At: v.At, Repeat: v.Repeat, Outage: v.Outage}
	}
	l.tell(Event{Kind: EventDrawn, Call: *c, Pool: v.Pool, Verdict: v})
	return &Reservation{Verdict: v, ledger: l, price: price, aside: taken}
}

// take takes charges from what is left: all or none. An id that has drawn them before
// gets what it got then; nil is that it gets nothing.
func (h *Hold) take(now time.Time, id string, d *drawn, charges []Charge) *aside {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shorten(); h.closed || !now.Before(h.ends) {
		return nil
	}
	if before := h.drawn[id]; before != nil {
		if !before.drawn.covers(charges) {
			return nil
		}
		return before
	}
	for i := range charges {
		j := h.index(&charges[i])
		if j < 0 {
			return nil
		}
		d.index = append(d.index, j)
		d.units = append(d.units, charges[i].Units)
	}
	for i, j := range d.index {
		h.left[j] -= d.units[i]
	}
	taken := &aside{drawn: d}
	if id != "" {
		if h.drawn == nil {
			h.drawn = make(map[string]*aside)
		}
		d.name, h.drawn[id] = id, taken
	}
	return taken
}

// covers reports whether a call has drawn exactly these charges.
func (d *drawn) covers(charges []Charge) bool {
	if len(charges) != len(d.units) {
		return false
	}
	for i, j := range d.index {
		if d.hold.r.price.charges[j].Pool != charges[i].Pool || d.units[i] != charges[i].Units {
			return false
		}
	}
	return true
}

// index finds the hold's charge that can pay for c, or -1.
func (h *Hold) index(c *Charge) int {
	for j := range h.left {
		if h.r.price.charges[j].Pool == c.Pool && h.left[j] >= c.Units {
			return j
		}
	}
	return -1
}

// settle corrects what a call drew. Units too many go back to the hold, if it is
// open; units too few come from it while it has some, and are charged now where
// it has not.
func (d *drawn) settle(ctx context.Context, r *Reservation, units []int64) (Settlement, error) {
	if d.done == nil {
		d.done = d.correct(r, units)
	}
	if len(d.short) > 0 {
		// under an id of its own, and always the same, so that trying again charges once
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.ledger.timeout)
		defer cancel()
		_, err := r.ledger.store.Record(within, Request{ID: d.id, Charges: d.short, Labels: d.labels})
		if err != nil {
			return Settlement{}, r.ledger.storeError(context.WithoutCancel(ctx), "settle "+d.short[0].Pool.String(), err)
		}
		d.short = nil
	}
	return *d.done, nil
}

// correct moves units between the call and the hold, and notes what is to be
// charged.
func (d *drawn) correct(r *Reservation, units []int64) *Settlement {
	var s Settlement
	h := d.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if Released(units) {
		delete(h.drawn, d.name) // another try under the id draws as if it were the first
	}
	for i, j := range d.index {
		switch over := d.units[i] - units[i]; {
		case over > 0 && h.closed:
			s.Left += over
		case over > 0:
			h.left[j] += over
			s.Back += over
		case over < 0:
			s.Charged -= over
			from := min(-over, h.left[j])
			h.left[j] -= from
			if c := r.price.charges[i]; -over > from {
				c.Units = -over - from
				d.short = append(d.short, c)
			}
		}
	}
	return &s
}
