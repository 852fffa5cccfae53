package quota

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Options are what [New] can be told; nil is legal.
type Options struct {
	Clock    Clock    // nil: the machine's
	Observer Observer // nil: nobody watches

	// Journal is where calls that are admitted in an outage are written down; nil:
	// none is admitted.
	Journal Journal
	// Allowance is how many units of a pool this machine may spend in an outage;
	// zero is DefaultAllowance.
	Allowance int64

	// SettleTimeout bounds settling and releasing, which outlive the caller's
	// context; zero is 5s.
	SettleTimeout time.Duration
}

// Ledger keeps what is spent inside what there is. It is safe for concurrent
// use.
type Ledger struct {
	store   Store
	clock   Clock
	watch   Observer
	timeout time.Duration
	ids     *ids
	prices  atomic.Pointer[prices]

	journal   Journal
	allowance int64
	shut      blocks
	line      line
	pending   atomic.Bool  // the journal may hold something
	offset    atomic.Int64 // the store's clock less ours, in nanoseconds
}

// errNotMade is of a nil or zero ledger.
var errNotMade = BadInput("this ledger was not made by quota.New")

// current returns the prices of the book that the ledger goes by; nil if New did not
// make it.
func (l *Ledger) current() *prices {
	if l == nil {
		return nil
	}
	return l.prices.Load()
}

// New returns a ledger that spends by the book from the pools in the store.
func New(book *Book, store Store, o *Options) (*Ledger, error) {
	if err := checkBook(book); err != nil {
		return nil, err
	}
	if store == nil {
		return nil, BadInput("a ledger needs a store: memstore.New(nil) is the simplest")
	}
	if o == nil {
		o = &Options{}
	}
	l := &Ledger{store: store, clock: o.Clock, watch: o.Observer, timeout: o.SettleTimeout, ids: newIDs()}
	if l.clock == nil {
		l.clock = SystemClock{}
	}
	if l.timeout == 0 {
		l.timeout = 5 * time.Second
	}
	l.journal, l.allowance = o.Journal, o.Allowance
	if l.allowance == 0 {
		l.allowance = DefaultAllowance
	}
	l.pending.Store(l.journal != nil) // a process before this one may have left something
	l.prices.Store(newPrices(book))
	return l, nil
}

// Book returns the price book that the ledger goes by; nil if [New] did not make it.
func (l *Ledger) Book() *Book {
	if p := l.current(); p != nil {
		return p.book
	}
	return nil
}

// SetBook makes the ledger go by another price book from the next call on.
// Nothing that is used is lost: a changed limit applies at once, and windows
// that changed under a higher revision are laid out anew.
func (l *Ledger) SetBook(book *Book) error {
	if l.current() == nil {
		return errNotMade
	}
	if err := checkBook(book); err != nil {
		return err
	}
	l.prices.Store(newPrices(book))
	return nil
}

// Reserve takes the units of a call before it is made. Granted, it returns a
// [Reservation]; leave it alone and it stands as spent. Refused, it returns an
// error that says why and when to come again: see [RefusedError],
// [ImpossibleError], [UnpricedError], [OutageError], [StaleBookError] and
// [ErrBadInput]. A call that was refused costs nothing.
//
// Under the context of a [Hold] the units are drawn from it while they last.
func (l *Ledger) Reserve(ctx context.Context, c Call) (*Reservation, error) {
	if r, err := l.drawn(ctx, &c); r != nil || err != nil {
		return r, err
	}
	prices := l.current()
	if prices == nil {
		return nil, errNotMade
	}
	price, err := prices.lookup(&c)
	if err != nil {
		return nil, l.failed(&c, err)
	}
	return l.reserve(ctx, &c, price)
}

// reserve takes the price of a call.
func (l *Ledger) reserve(ctx context.Context, c *Call, price *price) (*Reservation, error) {
	r := &Reservation{ledger: l, price: price}
	id, fresh := c.ID, c.ID == "" && c.Family == ""
	if fresh {
		id = l.ids.next()
	}
	if len(price.charges) == 0 { // unpriced, and the book says to admit it
		r.Verdict = Verdict{Allowed: true, ID: id, At: l.clock.Now()}
		if l.watch != nil {
			l.watch.Observe(Event{Kind: EventUnpriced, Call: *c, Verdict: r.Verdict})
		}
		return r, nil
	}
	if err := l.ask(ctx, c, Request{ID: id, Fresh: fresh, Charges: price.charges, Labels: c.labels()}, &r.Verdict); err != nil {
		if errors.Is(err, ErrOutage) {
			if gone := cancelled(ctx, "reserve "+price.charges[0].Pool.String()); gone != nil {
				return nil, l.failed(c, gone) // also where it was the journal that had no time
			}
			outage := err
			r, err = l.admit(ctx, c, price, id, outage)
			return r, l.unseen(c, r, outage, err)
		}
		return nil, l.failed(c, err)
	}
	if !r.Allowed {
		return nil, refusal(c, r.Verdict)
	}
	return r, nil
}

// ask puts a request to the store, after what the journal holds.
func (l *Ledger) ask(ctx context.Context, c *Call, r Request, v *Verdict) (err error) {
	if ctx.Err() != nil {
		return tooLate(ctx, "reserve "+r.Charges[0].Pool.String())
	}
	if l.journal != nil && l.pending.Load() && c.Family == "" {
		var left *leftError
		if err := l.Replay(ctx); err != nil && !errors.As(err, &left) {
			return err
		}
	}
	var began time.Time
	if l.watch != nil {
		began = l.clock.Now()
	}
	mark := l.shut.mark()
	if *v, err = l.store.Reserve(ctx, r); err != nil {
		return l.storeError(ctx, "reserve "+r.Charges[0].Pool.String(), err)
	}
	if l.journal != nil {
		l.offset.Store(int64(v.At.Sub(l.clock.Now())))
	}
	if v.Blocked {
		v.attribute()
	}
	l.shut.learn(v, r.Charges, mark)
	if l.watch != nil {
		l.answered(c, *v, l.clock.Now().Sub(began))
	}
	return nil
}

// refusal is the error for a verdict that is no.
func refusal(c *Call, v Verdict) error {
	if v.Impossible {
		return &ImpossibleError{Pool: v.Pool, Window: v.Window, Class: c.Class, Units: v.Units, Limit: v.Limit}
	}
	return &RefusedError{v}
}

// tooLate is the error of a caller that had no time left before the store was asked, or
// nil: an outage has no part in that.
func tooLate(ctx context.Context, op string) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", op, context.Cause(ctx))
}

// cancelled is the error of a caller that has cancelled, or nil.
func cancelled(ctx context.Context, op string) error {
	if !errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", op, context.Cause(ctx))
}

// storeError says what a store's error means. Bad input, a stale book and a caller that
// cancels are what they are. Any other error is an outage. So is a deadline that passes
// while the store is busy: the caller does not know what is left.
func (l *Ledger) storeError(ctx context.Context, op string, err error) error {
	var stale *StaleBookError
	switch {
	case errors.As(err, &stale):
		told := *stale
		told.Op = op
		return &told
	case errors.Is(err, ErrBadInput), errors.Is(err, ErrStaleBook):
		return err
	}
	if gone := cancelled(ctx, op); gone != nil {
		return gone
	}
	return &OutageError{Op: op, Err: err}
}

// Do reserves a call, makes it, and keeps the charge unless fn's error says
// [ErrUnsent]: then the units are released. What fn returns comes back as it is.
func (l *Ledger) Do(ctx context.Context, c Call, fn func(context.Context) error) error {
	r, err := l.Reserve(ctx, c)
	if err != nil {
		return err
	}
	err = fn(ctx)
	if errors.Is(err, ErrUnsent) && c.Family == "" { // families take no receipts: nothing comes back
		if _, failed := r.Release(ctx); failed != nil {
			return errors.Join(err, failed)
		}
	}
	return err
}

// Settle corrects a reservation that is known by its token, as in another
// process, to what the call really cost. Units name every pool that the call
// charged; one that is missing or unknown is bad input and changes nothing. The
// first settlement wins; a later one returns the first with Repeat set.
func (l *Ledger) Settle(ctx context.Context, t Token, units Units) (Settlement, error) {
	if units == nil {
		units = Units{}
	}
	return l.settle(ctx, t, units)
}

// Release is [Reservation.Release] for a reservation that is known by its token, as
// in another process.
func (l *Ledger) Release(ctx context.Context, t Token) (Settlement, error) {
	return l.settle(ctx, t, nil)
}

// settle is Settle, and Release if there are no units.
func (l *Ledger) settle(ctx context.Context, t Token, units Units) (Settlement, error) {
	switch {
	case l.current() == nil:
		return Settlement{}, errNotMade
	case t.ID == "":
		return Settlement{}, BadInput("settle: this reservation has no receipt")
	}
	// a caller that has given up must not leak its reservation
	ctx = context.WithoutCancel(ctx)
	within, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	s, err := l.store.Settle(within, t, units)
	if err != nil {
		return s, l.storeError(ctx, "settle a reservation of "+t.Upstream, err)
	}
	if l.watch != nil {
		l.watch.Observe(Event{Kind: EventSettled, Token: t, Settlement: s})
	}
	return s, nil
}
