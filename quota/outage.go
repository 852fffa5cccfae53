package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// DefaultAllowance is how many units of a pool one machine may spend while the
// ledger cannot be reached.
const DefaultAllowance = 50

// Journal is where the processes of a machine write down what happens while one
// ledger cannot be reached: calls before they are sent, and blocks. What stands in
// it is the allowance that is used, so a job that crashes and starts again gets no
// fresh one. Journals of several ledgers may share a file; what is written down for one
// ledger is never told another one.
type Journal interface {
	// Admit writes a call down, unless a block in the journal shuts one of its
	// pools or more than the allowance of one would be used.
	Admit(ctx context.Context, e Entry, allowance int64) (Admission, error)
	// Settle writes down what a call really cost, in the order of its charges, and
	// returns what stands: the first settlement wins. It returns nil if the call is
	// not in the journal any more. A call that was released and that the ledger
	// cannot know is forgotten.
	Settle(ctx context.Context, id string, units []int64) ([]int64, error)
	// Block writes a block down.
	Block(ctx context.Context, e Entry) error
	// Pending returns what is to be put into the ledger, oldest first.
	Pending(ctx context.Context) ([]Entry, error)
	// Take returns an entry that is about to be put into the ledger, which may know
	// it from now on; it reports whether the entry is there.
	Take(ctx context.Context, id string) (Entry, bool, error)
	// Done takes out an entry that is in the ledger, unless it was settled since it
	// was taken; it reports whether the entry is gone.
	Done(ctx context.Context, e Entry) (bool, error)
}

// Entry is a call, or a block, that the ledger does not know yet.
type Entry struct {
	ID       string
	Identity string        // of the ledger that is to know it; empty: the last that the journal knows of, if any
	At       time.Time     // by the ledger's clock, as far as it was known
	Charges  []EntryCharge // as admitted: they never change
	Settled  []int64       // what the call really cost, by charge; nil: what was admitted
	Asked    bool          // the ledger may know it: it was asked, and no answer came
	Labels   Labels
	Until    time.Time // of a block; zero for a call
	Reason   string    // of a block
}

// EntryCharge is one pool of an [Entry].
type EntryCharge struct {
	Pool  Pool
	Units int64
}

// Admission is a journal's answer.
type Admission struct {
	OK      bool
	Repeat  bool      // it stands in the journal already
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
	refuse := func(reason string) error {
		cause := outage
		if o, ok := errors.AsType[*OutageError](outage); ok {
			cause = o.Err // of whatever was asked before, too
		}
		return &OutageError{Op: "reserve " + p.charges[0].Pool.String(), Reason: reason, Err: cause}
	}
	switch {
	case policy != Admit:
		return nil, refuse("and the call is not one to admit unseen")
	case l.journal == nil:
		return nil, refuse("and there is no journal to write the call down in")
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
	switch {
	case errors.Is(err, ErrBadInput):
		return nil, err
	case err != nil:
		return nil, refuse("and the journal cannot be written (" + err.Error() + ")")
	case a.Blocked.After(now):
		l.shut.note(a.Pool, a.Blocked)
		v := Verdict{
			Pool: a.Pool, ID: id, Blocked: true, Reason: a.Reason, At: now,
			RetryAt: a.Blocked, RetryAfter: a.Blocked.Sub(now), ResetAt: a.Blocked,
		}
		v.attribute()
		return nil, &RefusedError{v}
	case !a.OK:
		return nil, refuse(fmt.Sprintf("and this machine has spent %d of the %d units of %s that it may spend unseen", a.Used, l.allowance, a.Pool))
	}
	v := Verdict{Allowed: true, ID: id, Pool: p.charges[0].Pool, Units: p.charges[0].Units, At: now, Repeat: a.Repeat, Outage: true}
	return &Reservation{Verdict: v, ledger: l, price: p, local: &localCharge{}}, nil
}

// answering is the identity of a ledger that answers, though it has forgotten what was
// spent: it is to know of the call. Of one that does not answer the journal knows more.
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

// now is the store's clock, as far as it is known.
func (l *Ledger) now() time.Time { return l.clock.Now().Add(time.Duration(l.offset.Load())) }

// settleAdmitted corrects a call that was admitted in an outage: in the journal,
// or in the ledger once it has been put there.
func (r *Reservation) settleAdmitted(ctx context.Context, units []int64) (Settlement, error) {
	l, op := r.ledger, "settle "+r.Pool.String()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	stands, err := l.journal.Settle(ctx, r.ID, units)
	if err != nil {
		return Settlement{}, &OutageError{Op: op, Reason: "and the journal cannot be written", Err: err}
	}
	if stands != nil {
		s := r.corrected(stands)
		s.Repeat = !slices.Equal(stands, units)
		return s, nil
	}
	s, err := l.settleReplayed(ctx, r.ID, r.price.charges, units)
	if err != nil {
		return Settlement{}, l.storeError(ctx, op, err)
	}
	return s, nil
}

// corrected is what settling to units comes to.
func (r *Reservation) corrected(units []int64) (s Settlement) {
	for i := range units {
		over := r.price.charges[i].Units - units[i]
		s.Back += max(over, 0)
		s.Charged += max(-over, 0)
	}
	return s
}
