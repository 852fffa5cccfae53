package breaker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/breaker"
)

// keeper is a store that keeps limits.
type keeper struct{ store }

func (k *keeper) SetLimit(ctx context.Context, l quota.KeyLimit) (quota.KeyLimit, error) {
	return l, k.answer(ctx)
}

func (k *keeper) KeyLimits(ctx context.Context, _ int64, _ int) ([]quota.KeyLimit, error) {
	return nil, k.answer(ctx)
}

func (k *keeper) KeyLimit(ctx context.Context, _, _ string) (*quota.KeyLimit, error) {
	return nil, k.answer(ctx)
}

func (k *keeper) LimitChanges(ctx context.Context, _ int) ([]quota.KeyLimit, error) {
	return nil, k.answer(ctx)
}

// A ledger that knows no limits yet asks for nothing else. It finds out when the store is back.
func TestLimitsProbe(t *testing.T) {
	for name, read := range map[string]func(context.Context, *breaker.Store) error{
		"all": func(ctx context.Context, s *breaker.Store) error { _, err := s.KeyLimits(ctx, -1, 10); return err },
		"one": func(ctx context.Context, s *breaker.Store) error {
			_, err := s.KeyLimit(ctx, "client", "acme")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			behind := &keeper{store{do: dead}}
			s := breaker.New(behind, &breaker.Options{Probe: 10 * time.Millisecond})
			for range 3 {
				if err := read(t.Context(), s); !errors.Is(err, errSlow) {
					t.Fatal(err)
				}
			}
			behind.now(alive)
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				if err := read(t.Context(), s); err == nil {
					break
				} else if !errors.Is(err, breaker.ErrOpen) || time.Now().After(deadline) {
					t.Fatal("the store is back, and was not found alive:", err)
				}
			}
		})
	}
}
