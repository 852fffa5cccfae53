package leasestore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// settler is a store of which only Settle is called.
type settler struct {
	quota.Store
	settle func() error
}

func (s *settler) Settle(context.Context, quota.Token, quota.Units) (quota.Settlement, error) {
	return quota.Settlement{}, s.settle()
}

// nobody is no pool.
func nobody(*quota.Pool) bool { return false }

// TestGivingBackWaitsForNoLaterDebts: while blocks end all the time, a caller waits for what
// was due when it came.
func TestGivingBackWaitsForNoLaterDebts(t *testing.T) {
	var s *Store
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s = New(&settler{settle: func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() == nil {
			s.owe(debt{units: true})
		}
		return nil
	}}, nil)
	s.mu.Lock()
	s.owe(debt{units: true})
	s.mu.Unlock()
	if s.giveBack(ctx, nobody); ctx.Err() != nil || s.returned() == 0 {
		t.Errorf("it waits for debts without end: %v, and %d came back", ctx.Err(), s.returned())
	}
}

// TestDebtsThatFailedAreTriedAgain when somebody needs the units, though no block ends.
func TestDebtsThatFailedAreTriedAgain(t *testing.T) {
	tries := 0
	s := New(&settler{settle: func() error {
		if tries++; tries == 1 {
			return fmt.Errorf("a blip: %w", errors.ErrUnsupported)
		}
		return nil
	}}, nil)
	s.mu.Lock()
	s.owe(debt{units: true})
	s.mu.Unlock()
	s.giveBack(t.Context(), nobody)
	for range 2 { // the third time nothing is owed
		if s.giveBack(t.Context(), nobody); tries != 2 || s.returned() != 2 {
			t.Errorf("it was tried %d times, and came back %d times, want 2", tries, s.returned())
		}
	}
}
