package leasestore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/headroom-quota/headroom/quota"
)

// debt is what the store has not been told yet.
type debt struct {
	token   quota.Token    // of the rest of a block
	units   bool           // the rest has units
	request *quota.Request // of a block whose answer was lost; its token is not known
}

// owed is the list of debts. One goroutine pays them, in order, and ends when there are
// none.
type owed struct {
	due     []debt
	failed  []debt // to be tried again when the store has answered
	paying  bool   // the goroutine runs
	units   int64  // how many debts with units were paid
	taken   int64  // how many became due
	told    int64  // how many of them the store was told, with or without an answer
	waiting []waiter
}

// waiter waits until the store was told so many debts.
type waiter struct {
	told int64
	wake chan struct{}
}

// maxFailed bounds the debts that are tried again. Any other counts as spent.
const maxFailed = 1000

// owe adds debts. The caller holds s.mu.
func (s *Store) owe(all ...debt) {
	o := &s.owed
	o.due = append(o.due, all...)
	o.taken += int64(len(all))
	if !o.paying && len(all) > 0 {
		o.paying = true
		go s.pay()
	}
}

// oweAgain makes due what has failed. The caller holds s.mu.
func (s *Store) oweAgain() {
	failed := s.owed.failed
	s.owed.failed = nil
	s.owe(failed...)
}

// pay tells the store what is due. Debts that failed come last, and only once the store has
// answered, so that they delay no others.
func (s *Store) pay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.owed
	for len(o.due) > 0 {
		d := o.due[0]
		o.due = o.due[1:]
		s.mu.Unlock()
		err := s.settle(d)
		s.mu.Lock()
		if err != nil && !(refused(err) && !errors.Is(err, quota.ErrNotAsked)) && len(o.failed) < maxFailed {
			o.failed = append(o.failed, d)
		}
		if d.units || d.request != nil {
			o.units++ // also without an answer: they may have come back
		}
		o.told++
		o.waiting = slices.DeleteFunc(o.waiting, func(w waiter) bool {
			if w.told > o.told {
				return false
			}
			close(w.wake)
			return true
		})
		if err == nil && len(o.due) == 0 {
			s.oweAgain()
		}
	}
	o.paying = false
}

// returned returns how often units may have come back to the store.
func (s *Store) returned() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owed.units
}

// refused reports whether the store has certainly done nothing, and never will.
func refused(err error) bool {
	return errors.Is(err, quota.ErrBadInput) || errors.Is(err, quota.ErrStaleBook) || errors.Is(err, quota.ErrNotAsked)
}

// settle pays one debt. A block whose answer was lost is asked for again: its id finds the
// receipt, or it is taken now. Then it is released.
func (s *Store) settle(d debt) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	if d.request != nil {
		again := *d.request
		again.Fresh = false
		v, err := s.store.Reserve(ctx, again)
		if err != nil || !v.Allowed {
			return err
		}
		d.token = v.Token()
	}
	_, err := s.store.Settle(ctx, d.token, nil)
	return err
}

// giveBack ends the blocks of this process that have units of certain pools, and waits
// until the store has what is left of them.
func (s *Store) giveBack(ctx context.Context, pools func(*quota.Pool) bool) {
	s.mu.Lock()
	now := s.clock.Now()
	for b := range s.blocks {
		for i := range b.line.charges {
			if pools(&b.line.charges[i].Pool) {
				s.end(b, now)
				break
			}
		}
	}
	o := &s.owed
	if !o.paying {
		s.oweAgain()
	}
	if !o.paying {
		s.mu.Unlock()
		return
	}
	w := waiter{o.taken, make(chan struct{})} // later debts are for others to wait for
	o.waiting = append(o.waiting, w)
	s.mu.Unlock()
	select {
	case <-w.wake:
	case <-ctx.Done():
	}
}

// lost pays what could not be paid before, and returns an error if that fails again.
func (s *Store) lost(ctx context.Context) error {
	s.mu.Lock()
	failed := s.owed.failed
	s.owed.failed = nil
	s.mu.Unlock()
	var all error
	for _, d := range failed {
		if ctx.Err() != nil {
			return errors.Join(all, ctx.Err())
		}
		if err := s.settle(d); err != nil {
			all = errors.Join(all, fmt.Errorf("give back the rest of a block: %w", err))
		}
	}
	return all
}
