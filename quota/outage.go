package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// DefaultAllowance is how many units of a pool one machine may spend while the ledger is
// down.
const DefaultAllowance = 50

// Journal records what the processes of a machine do while one ledger is down: calls
// before they are sent, and blocks. Its entries are the allowance that is used, so a job
// that crashes and restarts gets no new one. Journals of several ledgers may share a
// file. An entry is only ever charged to its own ledger.
type Journal interface {
	// Admit records a call, unless a block in the journal shuts one of its pools, or the
	// call would exceed the allowance of a pool.
	Admit(ctx context.Context, e Entry, allowance int64) (Admission, error)
	// Settle records what a call really cost, in the order of its charges. The first
	// settlement wins, and is returned. Settle returns nil if the call is no longer in
	// the journal. A released call that the ledger cannot know is removed.
	Settle(ctx context.Context, id string, units []int64) ([]int64, error)
	// Block records a block.
	Block(ctx context.Context, e Entry) error
	// Pending returns the entries that the ledger does not have yet, oldest first.
	Pending(ctx context.Context) ([]Entry, error)
	// Take returns an entry that is about to be put into the ledger, and notes that the
	// ledger may know it. It reports whether the journal has the entry.
	Take(ctx context.Context, id string) (Entry, bool, error)
	// Done removes an entry that is in the ledger, unless it was settled since Take. It
	// reports whether the entry is gone.
	Done(ctx context.Context, e Entry) (bool, error)
}

// Entry is a call or a block that the ledger does not have yet.
type Entry struct {
	ID       string
	Identity string        // of its ledger; empty is the last one that the journal knows
	At       time.Time     // by the ledger's clock, as last known
	Charges  []EntryCharge // as admitted: they never change
	Settled  []int64       // what the call really cost, by charge; nil if it was not settled
	Asked    bool          // the ledger may know it: a request was sent, and its reply was lost
	Labels   Labels
	Until    time.Time // of a block; zero for a call
	Reason   string    // of a block
}

// EntryCharge is one pool of an [Entry].
type EntryCharge struct {
	Pool  Pool
	Units int64
}

// Admission is a journal's decision.
type Admission struct {
	OK      bool
	Repeat  bool      // the journal has it already
	Pool    Pool      // why it was not admitted
	Used    int64     // of its allowance, before this call
	Blocked time.Time // it is shut until then
	Reason  string    // of the block
}

// admit decides on a call while the ledger is down, by the policy of the caller, or else
// of the class or method.
func (l *Ledger) admit(ctx context.Context, c *Call, p *price, id string, outage error) (*Reservation, error) {
	policy := p.outage
	if c.Outage != "" {
		policy = c.Outage
	}
	refuse := func(reason string) error {
		cause := outage
		if o, ok := errors.AsType[*OutageError](outage); ok {
			cause = o.Err // of whatever was asked before, too
		}
		return &OutageError{Op: "reserve " + p.charges[0].Pool.String(), Reason: reason, Err: cause}
	}
	if gone := tooLate(ctx, "reserve "+p.charges[0].Pool.String()); gone != nil {
		return nil, gone // neither refused nor admitted
	}
	switch {
	case policy != Admit:
		return nil, refuse("and the call's policy is to refuse")
	case l.journal == nil:
		return nil, refuse("and there is no journal to record the call in")
	case l.allowance < 0:
		return nil, refuse("and this machine may spend nothing in an outage")
	}
	if slotOf(p.charges) != nil { // they end before the ledger is back
		units := withoutSlots(p.charges)
		if len(units) == 0 {
			return nil, refuse("and only the ledger gives out slots")
		}
		p = &price{charges: units, outage: p.outage}
	}
	if err := (&Request{ID: id, Charges: p.charges, Labels: c.labels()}).Check(); err != nil {
		return nil, err // the store would have said so
	}
	now := l.now()
	e := Entry{ID: id, At: now, Labels: c.labels(), Asked: !errors.Is(outage, ErrNotAsked)}
	for i := range p.charges {
		e.Charges = append(e.Charges, EntryCharge{Pool: p.charges[i].Pool, Units: p.charges[i].Units})
	}
	e.Identity = l.answering(ctx, e.Charges[0].Pool, outage)
	a, err := l.journal.Admit(ctx, e, l.allowance)
	l.pending.Store(true)
	if err != nil {
		if gone := tooLate(ctx, "reserve "+p.charges[0].Pool.String()); gone != nil {
			return nil, gone // nothing is journaled
		}
	}
	switch {
	case errors.Is(err, ErrBadInput):
		return nil, err
	case err != nil:
		return nil, refuse("and the journal cannot be written (" + err.Error() + ")")
	case a.Blocked.After(now):
		l.shut.note(a.Pool, a.Blocked, now)
		v := Verdict{
			Pool: a.Pool, ID: id, Blocked: true, Reason: a.Reason, At: now,
			RetryAt: a.Blocked, RetryAfter: a.Blocked.Sub(now), ResetAt: a.Blocked,
		}
		v.attribute()
		return nil, &RefusedError{v}
	case !a.OK:
		return nil, refuse(fmt.Sprintf("and this machine has spent %d of the %d units of %s that it may spend in an outage", a.Used, l.allowance, a.Pool))
	}
	v := Verdict{Allowed: true, ID: id, Pool: p.charges[0].Pool, Units: p.charges[0].Units, At: now, Repeat: a.Repeat, Outage: true}
	return &Reservation{Verdict: v, ledger: l, price: p, local: &localCharge{}}, nil
}

// answering returns the identity of a ledger that is up but has lost data. It will get
// the call. It returns "" for a ledger that is down, whose identity the journal knows.
func (l *Ledger) answering(ctx context.Context, pool Pool, outage error) string {
	store, has := l.store.(Identified)
	if _, forgot := errors.AsType[*ForgottenError](outage); !forgot || !has {
		return ""
	}
	id, err := store.Identity(ctx, pool.Upstream, pool.Account)
	if err != nil {
		return ""
	}
	return id
}

// now returns the time by the store's clock, as last known.
func (l *Ledger) now() time.Time { return l.clock.Now().Add(time.Duration(l.offset.Load())) }

// settleUnseen corrects a call that was let through, or admitted in an outage. Then it does so in the
// journal, or in the ledger if the call was replayed.
func (r *Reservation) settleUnseen(ctx context.Context, units []int64) (Settlement, error) {
	l, op := r.ledger, "settle "+r.Pool.String()
	ctx = context.WithoutCancel(ctx)
	within, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	var stands []int64
	if !r.local.observed {
		var err error
		if stands, err = l.journal.Settle(within, r.ID, units); err != nil {
			return Settlement{}, &OutageError{Op: op, Reason: "and the journal cannot be written", Err: err}
		}
	}
	if stands != nil {
		s := r.corrected(stands)
		s.Repeat = !slices.Equal(stands, units)
		return s, nil
	}
	s, err := l.settleReplayed(within, r.ID, r.price.charges, units)
	if err != nil {
		return Settlement{}, l.storeError(ctx, op, err)
	}
	return s, nil
}

// corrected returns the result of settling to units.
func (r *Reservation) corrected(units []int64) (s Settlement) {
	for i := range units {
		over := r.price.charges[i].Units - units[i]
		s.Back += max(over, 0)
		s.Charged += max(-over, 0)
	}
	return s
}
