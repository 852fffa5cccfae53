package quota

import (
	"context"
	"errors"
	"slices"
)

// Replay puts the entries of the journal into the ledger. Reserve does this first, so
// Replay is only for programs that do not want to wait for the next call. Each entry
// counts once, even if two processes replay at the same time, if one of them crashes, or
// if the call is settled meanwhile. There is one exception: if the ledger's reply is
// lost, and no process replays for [ReceiptLife], a call counts twice. Entries of a
// ledger with another identity stay in the journal.
func (l *Ledger) Replay(ctx context.Context) error {
	if l == nil || l.journal == nil || !l.pending.Load() {
		return nil
	}
	l.pending.Store(false) // before reading, because a call that is admitted meanwhile sets it again
	err := l.replayEntries(ctx)
	if err != nil {
		l.pending.Store(true)
	}
	return err
}

// replayEntries is Replay, whether or not an entry is known of.
func (l *Ledger) replayEntries(ctx context.Context) error {
	entries, err := l.journal.Pending(ctx)
	if err != nil {
		return journalError(ctx, "replay", "read", err)
	}
	var left []error
	store := identities{store: l.store}
	for i := range entries {
		e := &entries[i]
		same, err := store.match(ctx, e)
		if err != nil {
			err = l.storeError(ctx, "replay "+e.Charges[0].Pool.String(), err)
		} else if same {
			err = l.replay(ctx, e.ID)
		}
		switch {
		case err == nil:
		case answered(err):
			left = append(left, &leftError{err}) // others must not wait for it
		default:
			return err
		}
	}
	return errors.Join(left...)
}

// replayMost is Replay for callers that entries which stay in the journal do not concern.
func (l *Ledger) replayMost(ctx context.Context) error {
	if err := l.Replay(ctx); !stays(err) {
		return err
	}
	return nil
}

// stays reports whether an error is only of entries that stay in the journal.
func stays(err error) bool {
	return errors.As(err, new(*leftError))
}

// identities remembers which ledger holds an account's pools.
type identities struct {
	store Store
	known map[[2]string]string
}

// match reports whether an entry may belong to the ledger in the store. It does not if
// both have an identity and these differ.
func (s *identities) match(ctx context.Context, e *Entry) (bool, error) {
	store, has := s.store.(Identified)
	if !has || e.Identity == "" {
		return true, nil
	}
	pool := e.Charges[0].Pool
	key := [2]string{pool.Upstream, pool.Account}
	id, asked := s.known[key]
	if !asked {
		var err error
		if id, err = store.Identity(ctx, pool.Upstream, pool.Account); err != nil {
			return false, err
		}
		if s.known == nil {
			s.known = make(map[[2]string]string)
		}
		s.known[key] = id
	}
	return id == "" || id == e.Identity, nil
}

// journalError returns the error of a journal that cannot be read or written.
func journalError(ctx context.Context, op, done string, err error) error {
	if gone := tooLate(ctx, op); gone != nil {
		return gone
	}
	return &OutageError{Op: op, Reason: "and the journal cannot be " + done, Err: err, journal: true}
}

// answered reports whether an error concerns the replayed entry alone: its pool is not in
// this price book, or was forgotten.
func answered(err error) bool {
	return errors.Is(err, ErrBadInput) || errors.Is(err, ErrStaleBook) || errors.As(err, new(*ForgottenError))
}

// leftError is the error of an entry that stays in the journal.
type leftError struct{ error }

func (e *leftError) Unwrap() error { return e.error }

// replay puts one entry into the ledger. Retries are safe, because the ledger keeps a
// receipt under the id of the call.
func (l *Ledger) replay(ctx context.Context, id string) error {
	for {
		e, there, err := l.journal.Take(ctx, id)
		if err != nil {
			return journalError(ctx, "replay", "written", err)
		}
		if !there {
			return nil // another process was faster
		}
		if err := l.put(ctx, &e); err != nil {
			return err
		}
		done, err := l.journal.Done(ctx, e)
		if err != nil {
			return journalError(ctx, "replay "+e.Charges[0].Pool.String(), "written", err)
		}
		if !done {
			continue // it was settled meanwhile
		}
		first := e.Charges[0]
		if e.Settled != nil {
			first.Units = e.Settled[0]
		}
		by, reason := readReason(e.Reason)
		l.tell(ctx, Event{Kind: EventReplayed, Call: e.call(), Pool: first.Pool, Units: first.Units, Until: e.Until, BlockedBy: by, Reason: reason})
		return nil
	}
}

// call returns the entry's call, for the observer.
func (e *Entry) call() Call {
	p, by := e.Charges[0].Pool, &e.Labels
	return Call{Upstream: p.Upstream, Account: p.Account, Method: by.Method, Class: by.Class, Job: by.Job, Region: by.Region, ID: e.ID}
}

// put charges an entry as it was admitted, and then settles it. In the other order, a
// retry after a lost reply would have other charges.
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
			err = nil // an earlier try released it
		}
	}
	if err != nil {
		return l.storeError(ctx, "replay "+charges[0].Pool.String(), err)
	}
	return nil
}

// errNoReceipt says that the ledger does not know an id, or no longer does.
var errNoReceipt = BadInput("settle: no such reservation, or it was made more than %s ago", ReceiptLife)

// settleReplayed settles a call that was put into the ledger. Recording gave no token, so
// it reserves the id again, with limits of 0. That finds the receipt. Without a receipt
// it takes no units.
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
