package memstore_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/storetest"
	"github.com/headroom-quota/headroom/quota/window"
)

func TestStore(t *testing.T) {
	clock := storetest.NewClock()
	storetest.Run(t, storetest.Harness{
		Open:     func(testing.TB) quota.Store { return memstore.New(&memstore.Options{Clock: clock}) },
		SetClock: clock.Move,
		Size: func(t testing.TB, s quota.Store) int64 {
			size, err := memstore.Size(s)
			if err != nil {
				t.Fatal(err)
			}
			return size
		},
		Families: true,
	})
}

// Receipts know their age also when nanoseconds since 1970 no longer fit 64 bits.
func TestReceiptsAfter2262(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC))
	s := memstore.New(&memstore.Options{Clock: clock})
	spec, err := window.Spec{Per: 24 * time.Hour}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	request := quota.Request{ID: "a", Charges: []quota.Charge{{
		Pool:  quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"},
		Units: 1, Windows: []window.Limit{window.NewLimit(spec, 10)}, Revision: 1,
	}}}
	for _, step := range []struct {
		after  time.Duration
		repeat bool
	}{{0, false}, {quota.ReceiptLife, true}, {time.Second, false}} {
		clock.Advance(step.after)
		v, err := s.Reserve(t.Context(), request)
		if err != nil || !v.Allowed || v.Repeat != step.repeat {
			t.Errorf("at %s: %+v %v, want repeat %t", clock.Now(), v, err, step.repeat)
		}
	}
}
