package storekit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// Several goroutines may close a store at the same time.
func TestWaitsTogether(t *testing.T) {
	a := storekit.NewApart()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				a.Wait()
			}
		})
	}
	all.Wait()
}

// A grant whose caller has left is released, also if the store fails twice before it does. After three failures it
// counts as spent.
func TestReleasesBehindACallerThatLeft(t *testing.T) {
	for _, row := range []struct{ failures, tries int }{{0, 1}, {2, 3}, {9, 3}} {
		synctest.Test(t, func(t *testing.T) {
			a, tries := storekit.NewApart(), 0
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			charges := []quota.Charge{{Pool: quota.Pool{Upstream: "api", Account: "default", Name: "units"}, Units: 1}}
			_, err := a.Reserve(ctx, quota.Request{ID: "one", Fresh: true, Charges: charges}, func(context.Context, quota.Request) (quota.Verdict, error) {
				time.Sleep(time.Second)
				return quota.Verdict{Allowed: true, ID: "one", Nonce: quota.Nonce{1}, Pool: charges[0].Pool}, nil
			}, func(_ context.Context, token quota.Token, units quota.Units) (quota.Settlement, error) {
				if tries++; token.ID != "one" || units != nil {
					t.Errorf("settled %v to %v", token, units)
				}
				if tries <= row.failures {
					return quota.Settlement{}, errors.New("it is down")
				}
				return quota.Settlement{}, nil
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			a.Wait()
			if tries != row.tries {
				t.Errorf("after %d failures it was tried %d times, want %d", row.failures, tries, row.tries)
			}
		})
	}
}
