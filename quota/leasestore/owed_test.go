package leasestore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// settler is a store of which only Settle is called.
type settler struct {
	quota.Store
	settle func(context.Context, quota.Token) error
}

func (s *settler) Settle(ctx context.Context, t quota.Token, _ quota.Units) (quota.Settlement, error) {
	return quota.Settlement{}, s.settle(ctx, t)
}

// errBlip is an error after which a store answers again.
var errBlip = errors.New("a blip")

// rest is what is left of a block of an account.
func rest(account string) *debt {
	return &debt{
		charges: []quota.Charge{{Pool: quota.Pool{Upstream: "api", Account: account, Name: "units"}}},
		token:   quota.Token{Upstream: "api", Account: account}, units: true,
	}
}

// oweNow owes debts.
func (s *Store) oweNow(all ...*debt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owe(all...)
}

// patience ends what would wait without end.
func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestGivingBackWaitsForNoLaterDebts: while blocks end all the time, a caller waits for what
// was due when it came.
func TestGivingBackWaitsForNoLaterDebts(t *testing.T) {
	var s *Store
	ctx := patience(t)
	s = New(&settler{settle: func(context.Context, quota.Token) error {
		if ctx.Err() == nil {
			s.oweNow(rest("a"))
		}
		return nil
	}}, &Options{Timeout: time.Hour})
	s.oweNow(rest("a"))
	if s.giveBack(ctx, every); ctx.Err() != nil || s.returned() == 0 {
		t.Errorf("it waits for debts without end: %v, and %d came back", ctx.Err(), s.returned())
	}
}

// TestGivingBackWaitsForNoOtherAccount: one master of a Cluster is down, and another is up.
func TestGivingBackWaitsForNoOtherAccount(t *testing.T) {
	ctx, back := patience(t), make(chan struct{})
	defer close(back)
	s := New(&settler{settle: func(_ context.Context, t quota.Token) error {
		if t.Account == "down" {
			<-back
		}
		return nil
	}}, &Options{Timeout: time.Hour})
	s.oweNow(rest("down"), rest("down"), rest("up"))
	up := rest("up").charges
	for range 2 {
		if s.giveBack(ctx, of(up)); ctx.Err() != nil || s.returned() != 1 {
			t.Fatalf("it waits for the debts of another account: %v, and %d came back", ctx.Err(), s.returned())
		}
	}
}

// TestGivingBackEnds when the store has had its time, also if nobody is told.
func TestGivingBackEnds(t *testing.T) {
	ctx, back := patience(t), make(chan struct{})
	defer close(back)
	s := New(&settler{settle: func(context.Context, quota.Token) error {
		<-back
		return nil
	}}, &Options{Timeout: time.Millisecond})
	s.oweNow(rest("a"))
	if s.giveBack(ctx, every); ctx.Err() != nil {
		t.Error("it waits longer than the timeout of the store")
	}
}

// TestDebtsThatFailedAreTriedAgain when somebody needs the units and some time has passed,
// though no block ends. The store is not asked at each refusal.
func TestDebtsThatFailedAreTriedAgain(t *testing.T) {
	tries, clock := 0, quota.NewSimClock(time.Unix(1e9, 0))
	s := New(&settler{settle: func(context.Context, quota.Token) error {
		if tries++; tries <= 2 {
			return errBlip
		}
		return nil
	}}, &Options{Clock: clock, Timeout: time.Minute})
	s.oweNow(rest("a"))
	for i, step := range []struct {
		wait time.Duration
		want int
	}{
		{0, 1},
		{0, 1},
		{firstRetry - 1, 1},
		{1, 2},
		{firstRetry, 2},
		{firstRetry, 3},
		{time.Hour, 3}, // now nothing is owed
	} {
		clock.Advance(step.wait)
		if s.giveBack(t.Context(), every); tries != step.want || s.returned() != int64(step.want) {
			t.Errorf("step %d: it was tried %d times, and came back %d times, want %d", i, tries, s.returned(), step.want)
		}
	}
}

// TestDebtsThatFailedAreTriedAgainUnasked: units come back for other processes too.
func TestDebtsThatFailedAreTriedAgainUnasked(t *testing.T) {
	ctx, again, tries := patience(t), make(chan struct{}), 0
	s := New(&settler{settle: func(context.Context, quota.Token) error {
		if tries++; tries == 1 {
			return errBlip
		}
		close(again)
		return nil
	}}, nil)
	s.oweNow(rest("a"))
	select {
	case <-again:
	case <-ctx.Done():
		t.Error("nobody tries again")
	}
}

// TestCloseSaysWhatIsNotBack, whatever the store does with the last debts.
func TestCloseSaysWhatIsNotBack(t *testing.T) {
	hangs := func(ctx context.Context, _ quota.Token) error {
		<-ctx.Done()
		return ctx.Err()
	}
	fails := func(context.Context, quota.Token) error { return errBlip }
	for name, test := range map[string]struct {
		settle  func(context.Context, quota.Token) error
		timeout time.Duration
		want    error
	}{
		"under way":        {hangs, 20 * time.Millisecond, context.DeadlineExceeded},
		"failed each time": {fails, time.Minute, errBlip},
	} {
		s := New(&settler{settle: test.settle}, &Options{Timeout: test.timeout})
		s.oweNow(rest("a"), rest("a"), rest("b"))
		if err := s.Close(); !errors.Is(err, test.want) {
			t.Errorf("%s: Close returns %v", name, err)
		}
	}
	tries := 0
	s := New(&settler{settle: func(context.Context, quota.Token) error {
		if tries++; tries == 1 {
			return errBlip
		}
		return nil
	}}, &Options{Timeout: time.Minute})
	s.oweNow(rest("a"))
	if err := s.Close(); err != nil || tries != 2 {
		t.Errorf("after a blip, Close returns %v, and tried %d times, want 2", err, tries)
	}
}
