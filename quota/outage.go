package quota

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultAllowance is how many units of a pool one machine may spend while the
// ledger cannot be reached.
const DefaultAllowance = 50

// Journal is where the processes of a machine write down what happens while the
// ledger cannot be reached: calls before they are sent, and blocks. What stands in
// it is the allowance that is used, so a job that crashes and starts again gets no
// fresh one.
type Journal interface {
	// Admit writes a call down, unless a block in the journal shuts one of its
	// pools or more than the allowance of one would be used.
	Admit(ctx context.Context, e Entry, allowance int64) (Admission, error)
	// Settle corrects a call that is still in the journal, in the order of its
	// charges; it reports whether it was.
	Settle(ctx context.Context, id string, units []int64) (bool, error)
	// Block writes a block down.
	Block(ctx context.Context, e Entry) error
	// Pending returns what is to be put into the ledger, oldest first.
	Pending(ctx context.Context) ([]Entry, error)
	// Done takes out what is in the ledger.
	Done(ctx context.Context, id string) error
}

// Entry is a call, or a block, that the ledger does not know yet.
type Entry struct {
	ID      string
	At      time.Time // by the ledger's clock, as far as it was known
	Charges []EntryCharge
	Labels  Labels
	Until   time.Time // of a block; zero for a call
	Reason  string    // of a block
}

// EntryCharge is one pool of an [Entry].
type EntryCharge struct {
	Pool  Pool
	Units int64
}

// Admission is a journal's answer.
type Admission struct {
	OK      bool
	Pool    Pool      // that decided against it
	Used    int64     // of its allowance, before this call
	Blocked time.Time // it is shut until then
	Reason  string    // of the block
}

// admit decides on a call while the ledger cannot be reached: by the policy of the
// caller, else of the class or method.
func (l *Ledger) admit(ctx context.Context, c *Call, p *price, id string, outage error) (*Reservation, error) {
	policy := p.outage
	if c.Outage != "" {
		policy = c.Outage
	}
	switch {
	case policy != Admit:
		return nil, because(outage, "and the call is not one to admit unseen")
	case l.journal == nil:
		return nil, because(outage, "and there is no journal to write the call down in")
	}
	if err := (&Request{ID: id, Charges: p.charges, Labels: c.labels()}).Check(); err != nil {
		return nil, err // the store would have said so
	}
	now := l.clock.Now().Add(time.Duration(l.offset.Load()))
	e := Entry{ID: id, At: now, Labels: c.labels()}
	for i := range p.charges {
		e.Charges = append(e.Charges, EntryCharge{Pool: p.charges[i].Pool, Units: p.charges[i].Units})
	}
	a, err := l.journal.Admit(ctx, e, l.allowance)
	l.pending.Store(true)
	switch {
	case err != nil:
		return nil, because(outage, "and the journal cannot be written ("+err.Error()+")")
	case a.Blocked.After(now):
		return nil, &RefusedError{Verdict{
			Pool: a.Pool, ID: id, Blocked: true, Reason: a.Reason, At: now,
			RetryAt: a.Blocked, RetryAfter: a.Blocked.Sub(now), ResetAt: a.Blocked,
		}}
	case !a.OK:
		return nil, because(outage, fmt.Sprintf("and this machine has spent %d of the %d units of %s that it may spend unseen", a.Used, l.allowance, a.Pool))
	}
	v := Verdict{Allowed: true, ID: id, Pool: p.charges[0].Pool, Units: p.charges[0].Units, At: now, Outage: true}
	return &Reservation{Verdict: v, ledger: l, price: p, aside: &aside{}}, nil
}

// because adds to an outage why the call was not admitted.
func because(outage error, reason string) error {
	var o *OutageError
	if !errors.As(outage, &o) {
		return &OutageError{Op: "reserve", Reason: reason, Err: outage}
	}
	return &OutageError{Op: o.Op, Reason: reason, Err: o.Err}
}

// settleAdmitted corrects a call that was admitted in an outage, as long as it has
// not been put into the ledger.
func (r *Reservation) settleAdmitted(ctx context.Context, units []int64) (Settlement, error) {
	r.aside.once.Lock()
	defer r.aside.once.Unlock()
	if r.aside.settled != nil {
		again := *r.aside.settled
		again.Repeat = true
		return again, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.ledger.timeout)
	defer cancel()
	there, err := r.ledger.journal.Settle(ctx, r.ID, units)
	if err != nil {
		return Settlement{}, &OutageError{Op: "settle " + r.Pool.String(), Reason: "and the journal cannot be written", Err: err}
	}
	var s Settlement
	for i := range r.price.charges {
		switch over := r.price.charges[i].Units - units[i]; {
		case over > 0 && there:
			s.Back += over
		case over > 0:
			s.Left += over
		case there:
			s.Charged -= over
		case over < 0:
			return s, &OutageError{Op: "settle " + r.Pool.String(), Reason: "the call is in the ledger already; use an adjustment"}
		}
	}
	r.aside.settled = &s
	return s, nil
}

// Replay puts what the journal holds into the ledger. Reserving does it first by
// itself; Replay is for those who do not want to wait for the next call. Each entry
// counts once, also if two processes replay at the same time.
func (l *Ledger) Replay(ctx context.Context) error {
	if l.journal == nil || !l.pending.Load() {
		return nil
	}
	l.pending.Store(false) // before reading: what is admitted meanwhile sets it again
	entries, err := l.journal.Pending(ctx)
	if err != nil {
		l.pending.Store(true)
		return &OutageError{Op: "replay", Reason: "and the journal cannot be read", Err: err}
	}
	var left []error
	for _, e := range entries {
		err := l.replay(ctx, e)
		if err == nil {
			continue
		}
		l.pending.Store(true)
		if !answered(err) {
			return err
		}
		left = append(left, &leftError{err}) // others must not wait for it
	}
	return errors.Join(left...)
}

// answered reports whether the store has answered a replay with an error that is
// about the entry alone: not of this price book, or of a pool that was forgotten.
func answered(err error) bool {
	var forgotten *ForgottenError
	return errors.Is(err, ErrBadInput) || errors.Is(err, ErrStaleBook) || errors.As(err, &forgotten)
}

// leftError is of an entry that stays in the journal, while others went on.
type leftError struct{ error }

func (e *leftError) Unwrap() error { return e.error }

func (l *Ledger) replay(ctx context.Context, e Entry) error {
	prices := l.prices.Load()
	charges := make([]Charge, len(e.Charges))
	for i, ec := range e.Charges {
		c, err := prices.pool(ec.Pool)
		if err != nil {
			return err
		}
		c.Units = ec.Units
		charges[i] = c
	}
	var err error
	if e.Until.IsZero() {
		err = l.store.Record(ctx, Request{ID: e.ID, Charges: charges, Labels: e.Labels, At: e.At})
	} else {
		err = l.store.Block(ctx, BlockRequest{Charges: charges, Until: e.Until, Reason: e.Reason})
	}
	if err != nil {
		return l.storeError(ctx, "replay "+charges[0].Pool.String(), err)
	}
	if err := l.journal.Done(ctx, e.ID); err != nil {
		return &OutageError{Op: "replay " + charges[0].Pool.String(), Reason: "and the journal cannot be written", Err: err}
	}
	if l.watch != nil {
		l.watch.Observe(Event{Kind: EventReplayed, Pool: charges[0].Pool, Units: charges[0].Units, Until: e.Until, Reason: e.Reason})
	}
	return nil
}
