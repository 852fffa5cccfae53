package quota_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// The units that a call has cost more are not lost if the store answers only the first of two
// questions, or if an answer is lost: settling again charges them, once.
func TestSettlingUpAKeyAgainAfterAnOutage(t *testing.T) {
	for _, lost := range []string{"settle", "record", "record unanswered"} {
		t.Run(lost, func(t *testing.T) {
			var store *forgetful
			r := keyedLedger(t, func(c quota.Clock) quota.Store {
				store = &forgetful{Store: memstore.New(&memstore.Options{Clock: c})}
				return store
			})
			late := r.reserve(askModel("a"))
			r.clock.Advance(2 * time.Minute)
			store.lost = lost
			cost := quota.Units{"requests": 1, "tokens": 750}
			if _, err := late.Settle(t.Context(), cost); !errors.Is(err, quota.ErrOutage) {
				t.Fatalf("settled in an outage: %v", err)
			}
			store.lost = ""
			for range 2 {
				if _, err := late.Settle(t.Context(), cost); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.used(); !strings.Contains(got, "a 150 of 1000") {
				t.Errorf("used %s; want the 150 that the call has cost more", got)
			}
		})
	}
}

// forgetful is a store that loses a question or its answer.
type forgetful struct {
	quota.Store
	lost string
}

func (s *forgetful) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	done, err := s.Store.Settle(ctx, t, units)
	if s.lost == "settle" {
		return quota.Settlement{}, errors.New("no route to host")
	}
	return done, err
}

func (s *forgetful) Record(ctx context.Context, r quota.Request) (recorded quota.Units, err error) {
	if s.lost != "record" {
		recorded, err = s.Store.Record(ctx, r)
	}
	if s.lost != "" {
		return nil, errors.New("no route to host")
	}
	return recorded, err
}

func (s *forgetful) Keys(ctx context.Context, p quota.Pool, most int) ([]string, int, error) {
	return s.Store.(quota.KeyLister).Keys(ctx, p, most)
}
