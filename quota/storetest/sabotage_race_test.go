package storetest_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// The liars that only the search for an order catches. Alone, each call is right,
// and so are the sums when all is over. But where two meet, one sees the other
// half done.

// crowd counts the calls under way.
type crowd struct{ calls atomic.Int32 }

// enter reports whether somebody else is there. It takes a moment, as a way over a
// network does: else each caller in memory is done before the next one comes.
func (c *crowd) enter() bool {
	c.calls.Add(1)
	time.Sleep(time.Microsecond)
	return c.calls.Load() > 1
}

func (c *crowd) leave() { c.calls.Add(-1) }

// takesThenLooks takes what is left before it knows whether that is enough, and
// gives it back if not. Meanwhile others are refused for nothing.
type takesThenLooks struct {
	quota.Store
	crowd crowd
}

func (s *takesThenLooks) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	crowded := s.crowd.enter()
	defer s.crowd.leave()
	v, err := s.Store.Reserve(ctx, r)
	if err == nil && !v.Allowed && v.Remaining > 0 && crowded {
		part := quota.Request{ID: "part of " + r.ID, Charges: append([]quota.Charge(nil), r.Charges...)}
		part.Charges[0].Units = v.Remaining
		if got, err := s.Store.Reserve(ctx, part); err == nil && got.Allowed {
			time.Sleep(time.Millisecond)
			_, _ = s.Settle(ctx, got.Token(), nil)
		}
	}
	return v, err
}

// settlesInTwoSteps gives back all that was taken, and then takes what the call
// has cost. Meanwhile others are granted what is not free.
type settlesInTwoSteps struct {
	quota.Store
	crowd    crowd
	requests sync.Map // by id
}

func (s *settlesInTwoSteps) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	s.crowd.enter()
	defer s.crowd.leave()
	v, err := s.Store.Reserve(ctx, r)
	if v.Allowed && !v.Repeat && r.ID != "" {
		s.requests.Store(r.ID, r)
	}
	return v, err
}

func (s *settlesInTwoSteps) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	crowded := s.crowd.enter()
	defer s.crowd.leave()
	if made, ok := s.requests.Load(t.ID); ok && crowded && !storekit.Released(slices.Collect(maps.Values(units))) {
		r := made.(quota.Request)
		back := quota.Request{Charges: append([]quota.Charge(nil), r.Charges...)}
		for i := range back.Charges {
			back.Charges[i].Units = -back.Charges[i].Units
		}
		_, _ = s.Record(ctx, back)
		time.Sleep(time.Millisecond)
		_, _ = s.Record(ctx, quota.Request{Charges: r.Charges})
	}
	return s.Store.Settle(ctx, t, units)
}
