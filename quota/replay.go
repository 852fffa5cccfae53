package quota

import (
	"context"
	"errors"
	"slices"
)

// Replay puts what the journal holds into the ledger. Reserving does it first by
// itself; Replay is for those who do not want to wait for the next call. Each entry
// counts once: also if two processes replay at the same time, if one of them dies
// while it does, and if the call is settled meanwhile. Only where the ledger's
// answer is lost, or the process dies before it has noted it, and nobody replays for
// as long as a receipt lives ([ReceiptLife]), one call counts twice: over, never
// under.
func (l *Ledger) Replay(ctx context.Context) error {
	if l == nil || l.journal == nil || !l.pending.Load() {
		return nil
	}
	l.pending.Store(false) // before reading: what is admitted meanwhile sets it again
	ids, err := l.journal.Pending(ctx)
	if err != nil {
		l.pending.Store(true)
		return &OutageError{Op: "replay", Reason: "and the journal cannot be read", Err: err}
	}
	var left []error
	for _, id := range ids {
		err := l.replay(ctx, id)
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

// replay puts one entry into the ledger. The receipt that it leaves there, under the
// id of the call, makes trying again harmless.
func (l *Ledger) replay(ctx context.Context, id string) error {
	for {
		e, there, err := l.journal.Take(ctx, id)
		if err != nil {
			return &OutageError{Op: "replay", Reason: "and the journal cannot be written", Err: err}
		}
		if !there {
			return nil // another process was faster
		}
		if err := l.put(ctx, &e); err != nil {
			return err
		}
		done, err := l.journal.Done(ctx, e)
		if err != nil {
			return &OutageError{Op: "replay " + e.Charges[0].Pool.String(), Reason: "and the journal cannot be written", Err: err}
		}
		if !done {
			continue // it was settled meanwhile
		}
		first := e.Charges[0]
		if e.Settled != nil {
			first.Units = e.Settled[0]
		}
		by, reason := readReason(e.Reason)
		l.tell(Event{Kind: EventReplayed, Call: e.call(), Pool: first.Pool, Units: first.Units, Until: e.Until, BlockedBy: by, Reason: reason})
		return nil
	}
}

// call is who made it, for the observer.
func (e *Entry) call() Call {
	p, by := e.Charges[0].Pool, &e.Labels
	return Call{Upstream: p.Upstream, Account: p.Account, Method: by.Method, Class: by.Class, Job: by.Job, Region: by.Region, ID: e.ID}
}

// put charges an entry as it was admitted, and then settles it: the other way round
// a try whose answer was lost would differ from the next one.
func (l *Ledger) put(ctx context.Context, e *Entry) error {
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
		_, err = l.store.Record(ctx, Request{ID: e.ID, Charges: charges, Labels: e.Labels, At: e.At})
	} else {
		err = l.store.Block(ctx, BlockRequest{Charges: charges, Until: e.Until, Reason: e.Reason})
	}
	if err == nil && e.Settled != nil {
		_, err = l.settleReplayed(ctx, e.ID, charges, e.Settled)
		if errors.Is(err, errNoReceipt) {
			err = nil // released by a try before this one
		}
	}
	if err != nil {
		return l.storeError(ctx, "replay "+charges[0].Pool.String(), err)
	}
	return nil
}

// errNoReceipt says that the ledger does not know an id, or not any more.
var errNoReceipt = BadInput("settle: no such reservation, or it was made more than %s ago", ReceiptLife)

// settleReplayed settles a call that was put into the ledger. Recording it gave no
// token, so the id is reserved again, at limits of nothing: that finds the receipt,
// and where there is none it takes no units.
func (l *Ledger) settleReplayed(ctx context.Context, id string, charges []Charge, units []int64) (Settlement, error) {
	charges = slices.Clone(charges)
	for i := range charges {
		windows := slices.Clone(charges[i].Windows)
		for j := range windows {
			windows[j].Limit = 0
		}
		charges[i].Windows = windows
	}
	v, err := l.store.Reserve(ctx, Request{ID: id, Charges: charges})
	switch {
	case err != nil:
		return Settlement{}, err
	case !v.Allowed:
		return Settlement{}, errNoReceipt
	}
	return l.store.Settle(ctx, v.Token(), unitsOf(charges, units))
}
