package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
)

// Options are the settings of a [Ledger]. Nil is legal.
type Options struct {
	Clock    Clock    // nil is the machine's clock
	Observer Observer // nil means no observer

	// Journal records the calls that are admitted in an outage. If it is nil, none is
	// admitted.
	Journal Journal
	// Allowance is how many units of a pool this machine may spend in an outage. Zero is
	// DefaultAllowance. A negative number allows nothing.
	Allowance int64

	// Flag is added to the commands that errors name, so that they speak of this ledger:
	// " --ledger sqlite:ledger.db". Package quota/open sets it.
	Flag string

	// NotBefore is how long this ledger believes a refusal. Until then, or until the call
	// fits again, it refuses the same call and heavier ones without asking the store. It
	// notices units that another process gives back after that time at the latest. It does
	// not remember blocks, so a pool that is opened again grants the next call.
	//
	// With zero it asks the store each time. Members of families are the exception, because
	// nothing is given back to them: for 500ms it believes the refusal of a call, and asks
	// for heavier ones. A negative value asks each time.
	NotBefore time.Duration
}

// Ledger reserves units of pools for calls, by a price book. It is safe for concurrent use.
type Ledger struct {
	store  Store
	clock  Clock
	watch  Observer
	flag   string
	ids    *ids
	prices atomic.Pointer[prices]

	journal   Journal
	allowance int64
	shut      blocks
	refusals  notBefore
	line      line
	turns     turns
	heard     heard
	learning  learning
	slots     slots
	limits    keyLimits
	keysTold  toldKeys
	pending   atomic.Bool  // the journal may have entries
	offset    atomic.Int64 // the store's clock minus ours, in nanoseconds
}

// settleTimeout bounds settling and releasing, which go on after the caller's context is cancelled.
const settleTimeout = 5 * time.Second

// Flag returns [Options].Flag, for messages that name commands.
func (l *Ledger) Flag() string {
	if l == nil {
		return ""
	}
	return l.flag
}

// errNotMade is the error of a nil or zero ledger.
var errNotMade = BadInput("this ledger was not made by quota.New")

// current returns the prices of the current price book; nil if New did not make the
// ledger.
func (l *Ledger) current() *prices {
	if l == nil {
		return nil
	}
	return l.prices.Load()
}

// open returns the prices for a caller who still waits.
func (l *Ledger) open(ctx context.Context, op string) (*prices, error) {
	if err := tooLate(ctx, op); err != nil {
		return nil, err
	}
	if p := l.current(); p != nil {
		return p, nil
	}
	return nil, errNotMade
}

// New returns a ledger with the prices of book and the pools of store. Package quota/open
// does this for a ledger at an address.
func New(book *Book, store Store, o *Options) (*Ledger, error) {
	if err := checkBook(book); err != nil {
		return nil, err
	}
	if store == nil {
		return nil, BadInput("a ledger needs a store: memstore.New(nil) is the simplest")
	}
	o = cmp.Or(o, &Options{})
	l := &Ledger{store: store, clock: cmp.Or[Clock](o.Clock, SystemClock{}), watch: o.Observer, flag: o.Flag, ids: newIDs()}
	l.turns.keeper, _ = store.(NoteKeeper)
	l.limits.changing, _ = store.(changing)
	if _, keeps := store.(LimitKeeper); !keeps {
		l.limits.none.Store(true)
	}
	l.journal, l.allowance, l.refusals.most = o.Journal, cmp.Or(o.Allowance, DefaultAllowance), o.NotBefore
	l.pending.Store(l.journal != nil) // an earlier process may have left entries
	l.setPrices(newPrices(book, &places{now: l.clock.Now}))
	return l, nil
}

// View reads a ledger: what is used, who spent it, what it has lost. It changes nothing. Its zero
// value returns errors.
type View struct{ ledger *Ledger }

// View returns the part of the ledger that reads it.
func (l *Ledger) View() View { return View{l} }

// Admin changes a ledger by hand: it corrects counts, opens pools and sets limits. It is a
// [LimitKeeper]. Its zero value returns errors.
type Admin struct{ ledger *Ledger }

// Admin returns the part of the ledger that changes it by hand.
func (l *Ledger) Admin() Admin { return Admin{l} }

// Book returns the current price book; nil if [New] did not make the ledger.
func (l *Ledger) Book() *Book {
	if p := l.current(); p != nil {
		return p.book
	}
	return nil
}

// Now returns the time by the ledger's own clock, which [Options] may replace. It is the zero time if
// [New] did not make the ledger.
func (l *Ledger) Now() time.Time {
	if l.current() == nil {
		return time.Time{}
	}
	return l.clock.Now()
}

// SetBook changes to another price book from the next call on. Used units stay used. A
// changed limit applies at once. Changed windows need a higher revision and are laid out
// again.
func (l *Ledger) SetBook(book *Book) error {
	if l.current() == nil {
		return errNotMade
	}
	if err := checkBook(book); err != nil {
		return err
	}
	l.setPrices(newPrices(book, l.current().places))
	return nil
}

func (l *Ledger) setPrices(p *prices) {
	for _, f := range p.facts {
		if f.reported {
			l.heard.on.Store(true)
		}
	}
	l.heard.forgetSpaced()
	l.prices.Store(p)
}

// timersLag is how long a context may need to notice that its deadline has passed.
const timersLag = 100 * time.Millisecond

// tooLate returns the error of a caller that cancelled or ran out of time, or nil. It says nothing about
// the store, so it is no outage.
func tooLate(ctx context.Context, op string) error {
	err := ctx.Err()
	if at, ok := ctx.Deadline(); err == nil && ok && !(SystemClock{}).Now().Before(at) {
		// A network notices it before the context does, which knows the cause.
		_ = SystemClock{}.Sleep(ctx, timersLag)
		err = context.DeadlineExceeded
	}
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		return fmt.Errorf("%s: %w: %w", op, err, cause)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// storeError returns the ledger's error for a store's error. Bad input and a stale book stay what
// they are. A caller that cancelled or ran out of time gets the error of its context, because what its
// patience cuts off says nothing about the store. Any other error is an outage: what is left is unknown.
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
	if gone := tooLate(ctx, op); gone != nil {
		return gone
	}
	if lost, ok := errors.AsType[*ForgottenError](err); ok {
		err = l.named(lost)
	}
	return &OutageError{Op: op, Err: err}
}

// Do reserves a call and then calls fn. It keeps the charge, unless fn's error matches
// [ErrUnsent]: then it releases the units. The call is in flight until fn returns. Do
// returns fn's error unchanged. Such an error says nothing about a limit that is learned: one who
// must tell refusals from other errors reserves, and says [Reservation.Refused].
func (l *Ledger) Do(ctx context.Context, c Call, fn func(context.Context) error) error {
	r, err := l.Reserve(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = r.Done(ctx) }() // the ledger tries again by itself
	if err = fn(ctx); err == nil {
		r.Answered()
	} else if !errors.Is(err, ErrUnsent) && r.price.learns {
		l.learned(r.Pool.Upstream, r.Pool.Account, r.ID, wasUnclear, false)
	}
	if errors.Is(err, ErrUnsent) && c.Family == "" { // families have no receipts, so nothing comes back
		if _, failed := r.Release(ctx); failed != nil {
			return errors.Join(err, failed)
		}
	}
	return err
}

// Settle corrects a reservation to what the call really cost. It takes the reservation's
// token, so another process can call it. Units must name every pool that the call
// charged. A missing or unknown pool is bad input and changes nothing. The first
// settlement wins. A later one returns the first with Repeat set.
func (l *Ledger) Settle(ctx context.Context, t Token, units Units) (Settlement, error) {
	if units == nil {
		units = Units{}
	}
	return l.settleAll(ctx, t, units)
}

// Release is [Reservation.Release] by the reservation's token, so another process can
// call it.
func (l *Ledger) Release(ctx context.Context, t Token) (Settlement, error) {
	return l.settleAll(ctx, t, nil)
}

// settleAll is settle for all that a token stands for: the pools, and the bill in money.
func (l *Ledger) settleAll(ctx context.Context, t Token, units Units) (Settlement, error) {
	var b *bill
	if t.bill != "" && l.current() != nil {
		var err error
		if b, err = readBill(t.bill); err != nil {
			return Settlement{}, err
		}
	}
	t.bill = ""
	return b.settleAll(ctx, l, units, t.bounds, func(units Units) (Settlement, error) {
		return l.settle(ctx, t, units.atLeast(readUnits(t.least)))
	})
}

// settle is Settle, and Release if there are no units.
func (l *Ledger) settle(ctx context.Context, t Token, units Units) (Settlement, error) {
	switch {
	case l.current() == nil:
		return Settlement{}, errNotMade
	case t.ID == "":
		return Settlement{}, BadInput("settle: this reservation has no receipt")
	}
	// settle also for a caller that has cancelled: its reservation must not leak
	ctx = context.WithoutCancel(ctx)
	within, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	t.least = ""
	s, err := l.store.Settle(within, t, units)
	if !errors.Is(err, ErrNoReceipt) { // else the token may be made up, or another one's
		as, spent := wasAccepted, slices.ContainsFunc(slices.Collect(maps.Values(units)), func(n int64) bool { return n > 0 })
		if !spent { // it was free, or not sent: over HTTP, to release is to settle to nothing
			as = wasNotSent
		}
		l.learned(t.Upstream, t.Account, t.ID, as, units != nil)
		l.probed(t.Upstream, t.Account, t.ID, units != nil, units != nil)
	}
	t = t.plain()
	if err != nil {
		return s, l.storeError(ctx, "settle a reservation of "+t.Upstream, err)
	}
	if !s.Repeat {
		l.turns.settled(l, t, units)
	}
	if s.Back > 0 && !s.Repeat {
		l.refusals.clear()
		l.line.back(t, units)
	}
	if released := units == nil && !s.Repeat; released { // with its slots
		l.freed(l.slots.remove(t))
	} else {
		l.slots.removeIf(t, false) // its receipt need not be renewed
	}
	if l.watch != nil && t.Upstream != book.Budgets {
		t.Nonce = Nonce{} // events are written down
		l.watch.Observe(ctx, Event{Kind: EventSettled, Token: t, Settlement: s})
	}
	return s, nil
}
