package quota

import (
	"context"
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
// It ends by itself before the next boundary of a calendar that it charges (by
// its lag), and after 15 minutes; from then on calls reserve for themselves.
// Ending frees nothing: only Close releases what is left, and after a crash all
// of it stands as spent.
type Hold struct {
	r    *Reservation
	ends time.Time

	mu     sync.Mutex
	left   []int64 // by charge of r
	closed bool
}

// drawn is what one call has taken from a hold.
type drawn struct {
	hold    *Hold
	units   []int64 // by charge of the call
	index   []int   // of the hold's charge, by charge of the call
	labels  Labels
	id      string // under which more than was drawn is charged
	settled *Settlement
}

// Hold reserves a call n times at once.
func (l *Ledger) Hold(ctx context.Context, c Call, n int) (*Hold, error) {
	if c.Family != "" {
		return nil, BadInput("family %s: a family cannot be held", c.Family)
	}
	price, err := l.prices.Load().of(&c)
	if err != nil {
		return nil, l.failed(&c, err)
	}
	ends, err := holdEnds(l.clock.Now(), price.charges)
	if err != nil {
		return nil, l.failed(&c, err)
	}
	r, err := l.reserve(ctx, &c, int64(n))
	if err != nil {
		return nil, err
	}
	h := &Hold{r: r, ends: ends, left: make([]int64, len(r.charges))}
	for i := range r.charges {
		h.left[i] = r.charges[i].Units
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
			lag := max(w.Spec.Lag, 0)
			if boundary.Add(-lag) <= now {
				return time.Time{}, &RefusedError{Verdict{
					Pool: charges[i].Pool, Window: w.Name, Units: charges[i].Units, Limit: w.Limit,
					RetryAt: boundary.Add(lag).Time(), RetryAfter: boundary.Add(lag).Sub(now), ResetAt: boundary.Time(),
				}}
			}
			ends = min(ends, boundary.Add(-lag))
		}
	}
	return ends.Time(), nil
}

type holdKey struct{}

// Context returns a context under which calls draw from the hold.
func (h *Hold) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, holdKey{}, h)
}

func holdOf(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// Ends returns when calls stop drawing from the hold.
func (h *Hold) Ends() time.Time { return h.ends }

// Verdict returns the ledger's answer to the hold.
func (h *Hold) Verdict() Verdict { return h.r.Verdict }

// Left returns the units that are left, by pool.
func (h *Hold) Left() map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := make(map[string]int64, len(h.left))
	for i, units := range h.left {
		left[h.r.charges[i].Pool.Name] = units
	}
	return left
}

// Close releases what is left. Calls under the context reserve for themselves
// from then on. A second Close does nothing; one that fails may be tried again.
func (h *Hold) Close(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	spent := make([]int64, len(h.left))
	for i, left := range h.left {
		spent[i] = h.r.charges[i].Units - left
	}
	if _, err := h.r.settle(ctx, spent); err != nil {
		return err
	}
	h.closed = true
	clear(h.left)
	return nil
}

// draw takes a call's units from the hold, or returns nil if it cannot: another
// ledger or account, a pool it does not hold, too little left, ended, closed.
func (h *Hold) draw(l *Ledger, c *Call) *Reservation {
	if h.r.ledger != l {
		return nil
	}
	price, err := l.prices.Load().of(c)
	if err != nil || len(price.charges) == 0 {
		return nil // reserving will say what is wrong
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := l.clock.Now()
	if h.closed || !now.Before(h.ends) {
		return nil
	}
	d := &drawn{hold: h, id: l.ids.next(), labels: c.labels()}
	for i := range price.charges {
		j := h.index(&price.charges[i])
		if j < 0 {
			return nil
		}
		d.index = append(d.index, j)
		d.units = append(d.units, price.charges[i].Units)
	}
	for i, j := range d.index {
		h.left[j] -= d.units[i]
	}
	v := h.r.Verdict
	v.ID, v.Units, v.Nonce = c.ID, d.units[0], [16]byte{}
	if v.ID == "" {
		v.ID = l.ids.next()
	}
	r := &Reservation{Verdict: v, ledger: l, charges: price.charges, drawn: d}
	if l.watch != nil {
		l.answered(c, v, 0)
	}
	return r
}

// index finds the hold's charge that can pay for c, or -1.
func (h *Hold) index(c *Charge) int {
	for j := range h.left {
		if h.r.charges[j].Pool == c.Pool && h.left[j] >= c.Units {
			return j
		}
	}
	return -1
}

// settle corrects what a call drew. Units too many go back to the hold, if it is
// open; units too few come from it while it has some, and are charged now where
// it has not.
func (d *drawn) settle(ctx context.Context, r *Reservation, units []int64) (Settlement, error) {
	h := d.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.settled != nil {
		again := *d.settled
		again.Repeat = true
		return again, nil
	}
	var s Settlement
	var short []Charge
	left := slices.Clone(h.left)
	for i, j := range d.index {
		switch over := d.units[i] - units[i]; {
		case over > 0 && h.closed:
			s.Left += over
		case over > 0:
			left[j] += over
			s.Back += over
		case over < 0:
			s.Charged -= over
			from := min(-over, left[j])
			left[j] -= from
			if c := r.charges[i]; -over > from {
				c.Units = -over - from
				short = append(short, c)
			}
		}
	}
	if len(short) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.ledger.timeout)
		defer cancel()
		// under an id of its own, so that trying again charges once
		err := r.ledger.store.Record(ctx, Request{ID: d.id, Charges: short, Labels: d.labels})
		if err != nil {
			return Settlement{}, r.ledger.storeError(ctx, "settle "+short[0].Pool.String(), err)
		}
	}
	h.left, d.settled = left, &s
	return s, nil
}
