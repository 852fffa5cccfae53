package leasestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// debt is what the store has not been told yet.
type debt struct {
	charges []quota.Charge // of its block, for their pools; all are of one account
	token   quota.Token    // of the rest of a block
	units   bool           // the rest has units
	request *quota.Request // of a block whose answer was lost; its token is not known
	back    bool           // the request records what a key of a family had left

	told  chan struct{} // closed when the store was told, with or without an answer
	err   error         // of the last time
	wait  time.Duration // before the next time
	again time.Time     // the next time
}

// owner is whose debts wait for each other. Accounts may be on different servers, and so may
// keys of a family: one that does not answer delays no other.
type owner struct{ upstream, account, key string }

func ownerOf(p *quota.Pool) owner {
	if p.Name == "" {
		return owner{p.Upstream, p.Account, p.Key}
	}
	return owner{p.Upstream, p.Account, ""}
}

// maxFailed bounds the debts that are tried again. Any other counts as spent.
const maxFailed = 1000

// firstRetry is when a debt that failed is tried again. Each next time waits twice as long,
// up to the timeout of the store.
const firstRetry = 100 * time.Millisecond

// owe adds debts. One goroutine pays those of an account, in order, and ends when there are
// none. The caller holds s.mu.
func (s *Store) owe(all ...*debt) {
	for _, d := range all {
		if d == nil {
			continue
		}
		d.told = make(chan struct{})
		of := ownerOf(&d.charges[0].Pool)
		s.owed[of] = append(s.owed[of], d)
		if len(s.owed[of]) == 1 {
			go s.pay(of)
		}
	}
}

// pay tells the store what an account owes.
func (s *Store) pay(of owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.owed[of]) > 0 {
		d := s.owed[of][0]
		s.mu.Unlock()
		err := s.settle(d)
		s.mu.Lock()
		s.owed[of] = s.owed[of][1:]
		// A key of a family leaves no receipt: to try again could give its units back twice.
		if err != nil && (errors.Is(err, quota.ErrNotAsked) || !refused(err) && !d.back) {
			s.fail(d, err)
		}
		if d.units || d.request != nil {
			s.back++ // also without an answer: they may have come back
		}
		close(d.told)
	}
	delete(s.owed, of)
}

// fail remembers a debt that is to be tried again. The caller holds s.mu.
func (s *Store) fail(d *debt, err error) {
	if len(s.failed) >= maxFailed {
		return
	}
	d.err, d.wait = err, min(max(2*d.wait, firstRetry), s.timeout)
	d.again = s.clock.Now().Add(d.wait)
	s.failed = append(s.failed, d)
	if s.timers && !s.closed {
		time.AfterFunc(d.wait, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.retry(s.clock.Now())
		})
	}
}

// retry makes due what has failed and has waited. The caller holds s.mu.
func (s *Store) retry(now time.Time) {
	var due []*debt
	s.failed = slices.DeleteFunc(s.failed, func(d *debt) bool {
		if now.Before(d.again) {
			return false
		}
		due = append(due, d)
		return true
	})
	s.owe(due...)
}

// busy returns how often units may have come back to the store, and whether this process has or
// owes units of charges, as far as it knows.
func (s *Store) busy(charges []quota.Charge) (returned int64, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy = len(s.failed) > 0 || !member(charges)
	for i := range charges {
		p := &charges[i].Pool
		busy = busy || s.taken[*p] > 0 || len(s.owed[ownerOf(p)]) > 0
	}
	return s.back, busy
}

// refused reports whether the store has certainly done nothing, and never will.
func refused(err error) bool {
	return errors.Is(err, quota.ErrBadInput) || errors.Is(err, quota.ErrStaleBook) || errors.Is(err, quota.ErrNotAsked)
}

// settle pays one debt. A block whose answer was lost is asked for again: its id finds the
// receipt, or it is taken now. Then it is released.
func (s *Store) settle(d *debt) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	if d.back {
		_, err := s.Whole.Record(ctx, *d.request)
		return err
	}
	if d.request != nil {
		again := *d.request
		again.Fresh = false
		v, err := s.Whole.Reserve(ctx, again)
		if err != nil || !v.Allowed {
			return err
		}
		d.token = v.Token()
	}
	_, err := s.Whole.Settle(ctx, d.token, nil)
	return err
}

func every(*quota.Pool) bool { return true }

// has reports whether one of certain pools is among those of charges.
func has(charges []quota.Charge, pools func(*quota.Pool) bool) bool {
	return slices.ContainsFunc(charges, func(c quota.Charge) bool { return pools(&c.Pool) })
}

// giveBack ends the blocks of this process that have units of certain pools, and waits
// until the store was told what is left of them.
func (s *Store) giveBack(ctx context.Context, pools func(*quota.Pool) bool) {
	s.mu.Lock()
	now := s.clock.Now()
	for b := range s.blocks {
		if has(b.line.charges, pools) {
			s.end(b, now)
		}
	}
	s.retry(now)
	s.mu.Unlock()
	s.tell(ctx, pools)
}

// tell waits until the store was told what is due now of certain pools, but not longer than
// the timeout of one answer.
func (s *Store) tell(ctx context.Context, pools func(*quota.Pool) bool) {
	s.mu.Lock()
	var due []*debt
	for _, all := range s.owed {
		for _, d := range all {
			if has(d.charges, pools) {
				due = append(due, d)
			}
		}
	}
	s.mu.Unlock()
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for _, d := range due {
		select {
		case <-d.told:
		case <-ctx.Done():
			return
		}
	}
}

// giveAllBack ends all blocks, and waits until the store has what is left of them. It tries
// each failed debt once more. It returns an error if the store was not told everything.
func (s *Store) giveAllBack(ctx context.Context) error {
	for range 2 {
		s.mu.Lock()
		for _, d := range s.failed {
			d.again = time.Time{}
		}
		s.mu.Unlock()
		s.giveBack(ctx, every)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := len(s.failed), context.DeadlineExceeded
	for _, all := range s.owed {
		n += len(all)
	}
	if n == 0 {
		return nil
	}
	if len(s.failed) > 0 {
		err = s.failed[0].err
	}
	return fmt.Errorf("give back the rest of blocks (%d of them): %w", n, err)
}
