package memstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// The bound on receipts holds for calls of several pools with long ids, at any size.
// At the bound a call is refused, no receipt is forgotten, and room comes back when the
// oldest are too old.
func TestReceiptsStayWithinTheirBound(t *testing.T) {
	for _, most := range []int{3_000, 500_000} {
		receiptsStayWithin(t, most)
	}
}

func receiptsStayWithin(t *testing.T, most int) {
	t.Helper()
	const (
		pools = 8
		each  = 128 + pools*40 // the id and the charges alone
	)
	spec, err := window.Spec{Per: time.Hour}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	charges := make([]quota.Charge, pools)
	for i := range charges {
		charges[i] = quota.Charge{
			Pool:  quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: fmt.Sprint("pool", i)},
			Units: 1, Windows: []window.Limit{window.NewLimit(spec, int64(most))}, Revision: 1,
		}
	}
	clock := quota.NewSimClock(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	s := memstore.New(&memstore.Options{Clock: clock, ReceiptBytes: int64(most)})
	reserve := func(n int) (quota.Verdict, error) {
		return s.Reserve(t.Context(), quota.Request{ID: fmt.Sprintf("%0128d", n), Charges: charges})
	}
	made := 0
	for ; err == nil && made*each <= most; made++ {
		_, err = reserve(made)
	}
	if !errors.Is(err, quota.ErrOutage) {
		t.Fatalf("%d receipts of more than %d bytes within %d: %v", made, each, most, err)
	}
	made--
	if made*each < most/2 {
		t.Errorf("%d receipts of some %d bytes fill %d", made, each, most)
	}
	for _, n := range []int{0, made - 1} {
		if v, err := reserve(n); err != nil || !v.Repeat {
			t.Errorf("receipt %d of %d: %+v %v, want it kept", n, made, v, err)
		}
	}
	for range 2 * 60 { // the clock does not leap
		clock.Advance(time.Minute)
		if _, err = reserve(made); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("%d bytes, hours later: %v, want room", most, err)
	}
}

// All receipts of a burst become too old together, so there is room for another burst.
func TestRoomForABurstComesBackAtOnce(t *testing.T) {
	r := newReceiptRig(t, 1<<20)
	n := 0
	reserve := func() bool {
		n++
		_, err := r.reserve(fmt.Sprint(n))
		if err != nil && !errors.Is(err, quota.ErrOutage) {
			t.Fatal(err)
		}
		return err == nil
	}
	burst := func() (granted int) {
		for reserve() {
			granted++
		}
		return granted
	}
	first := burst()
	for range 2 * 60 { // the clock does not leap
		r.clock.Advance(30 * time.Second)
		if reserve() {
			t.Fatal("there is room while all receipts count")
		}
	}
	r.clock.Advance(30 * time.Second)
	if second := burst(); second < first/2 {
		t.Errorf("a burst of %d filled the store; an hour later one of %d does", first, second)
	}
}
