package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/storekit"
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
		Members:  func(_ testing.TB, s quota.Store) int { return memstore.Members(s) },
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

// A clock that had been far ahead makes nothing too old.
func TestSpendAndReceiptsOutliveAClockFarAhead(t *testing.T) {
	start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	clock := quota.NewSimClock(start)
	s := memstore.New(&memstore.Options{Clock: clock})
	spec, err := window.Spec{Per: 24 * time.Hour}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	reserve := func(id string) quota.Verdict {
		t.Helper()
		v, err := s.Reserve(t.Context(), quota.Request{ID: id, Charges: []quota.Charge{{
			Pool:  quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"},
			Units: 1, Windows: []window.Limit{window.NewLimit(spec, 1000)}, Revision: 1,
		}}})
		if err != nil || !v.Allowed {
			t.Fatalf("at %s: %+v %v", clock.Now(), v, err)
		}
		return v
	}
	reserve("a")
	reserve("b")
	for i := range 3 {
		clock.Set(time.Date(2099, 1, 1+i, 0, 0, 0, 0, time.UTC))
		reserve(fmt.Sprint("ahead", i))
	}
	clock.Set(start.Add(time.Hour))
	if v := reserve("a"); !v.Repeat {
		t.Error("reserved once more, it was charged again")
	}
	const days = storekit.SpendDays + 5
	for day := range days { // the days ahead go before these
		clock.Set(start.Add(time.Duration(day) * 24 * time.Hour))
		reserve(fmt.Sprint("day", day))
	}
	spent, err := s.Spend(t.Context(), quota.SpendQuery{Upstream: "api", Account: quota.DefaultAccount, Until: clock.Now()})
	if err != nil || len(spent) != days {
		t.Fatalf("spend of %d days (%v), want %d", len(spent), err, days)
	}
	if first := spent[len(spent)-1]; first.Day != "2026-03-02" || first.Units != 3 {
		t.Errorf("the first day is %+v, want 3 units on 2026-03-02", first)
	}
}
