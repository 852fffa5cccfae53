package memstore_test

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// receiptRig is a store whose clock moves a little with each call.
type receiptRig struct {
	t     *testing.T
	s     *memstore.Store
	clock *quota.SimClock
}

func newReceiptRig(t *testing.T, bytes int64) *receiptRig {
	clock := quota.NewSimClock(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	return &receiptRig{t, memstore.New(&memstore.Options{Clock: clock, ReceiptBytes: bytes}), clock}
}

func (r *receiptRig) reserve(id string) (quota.Verdict, error) {
	spec, err := window.Spec{Per: 24 * time.Hour}.Normal()
	if err != nil {
		r.t.Fatal(err)
	}
	return r.s.Reserve(r.t.Context(), quota.Request{ID: id, Charges: []quota.Charge{{
		Pool:  quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"},
		Units: 1, Windows: []window.Limit{window.NewLimit(spec, 1<<30)}, Revision: 1,
	}}})
}

func TestAnIdIsKnownForItsHourWhateverElseIsReserved(t *testing.T) {
	r := newReceiptRig(t, 0)
	const others = 50_000
	first, err := r.reserve("first")
	if err != nil {
		t.Fatal(err)
	}
	for i := range others {
		if v, err := r.reserve(fmt.Sprint("other ", i)); err != nil || !v.Allowed || v.Repeat {
			t.Fatalf("%d: %+v %v", i, v, err)
		}
		r.clock.Advance(quota.ReceiptLife / (others + 1))
	}
	if v, err := r.reserve("first"); err != nil || !v.Repeat || v.Token() != first.Token() {
		t.Errorf("within its hour: %+v %v, want the first grant again", v, err)
	}
	kept := memstore.Receipts(r.s)
	for i := range others { // another hour: those go as these come
		if _, err := r.reserve(fmt.Sprint("later ", i)); err != nil {
			t.Fatal(err)
		}
		r.clock.Advance(quota.ReceiptLife / others)
	}
	if now := memstore.Receipts(r.s); now > kept*3/2 {
		t.Errorf("%d receipts are kept after two hours, %d after one", now, kept)
	}
	if v, err := r.reserve("first"); err != nil || v.Repeat {
		t.Errorf("after its hour: %+v %v, want it decided afresh", v, err)
	}
}

// TestARenewedReceiptTakesNoOtherAlong renews a receipt while the clock is behind, and lets the clock
// return. Another one is as old as before.
func TestARenewedReceiptTakesNoOtherAlong(t *testing.T) {
	r := newReceiptRig(t, 0)
	reserve := func(id string) quota.Token {
		t.Helper()
		v, err := r.reserve(id)
		if err != nil || !v.Allowed {
			t.Fatalf("%s: %+v %v", id, v, err)
		}
		return v.Token()
	}
	renewed, other := reserve("renewed"), reserve("other")
	r.clock.Advance(-61 * time.Minute)
	if _, err := r.s.Slots(t.Context(), []quota.Token{renewed}, false); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(61*time.Minute - time.Microsecond)
	reserve("another")
	if s, err := r.s.Settle(t.Context(), other, nil); err != nil || s.Back != 1 {
		t.Errorf("it is settled: %+v, %v", s, err)
	}
}

// TestReceiptsOfAClockFarAheadGo an hour after it was set back, with those that came later.
func TestReceiptsOfAClockFarAheadGo(t *testing.T) {
	testReceiptsGo(t, func(r *receiptRig) {
		r.clock.Advance(10 * 365 * 24 * time.Hour)
		if _, err := r.reserve("far ahead"); err != nil {
			t.Fatal(err)
		}
		r.clock.Advance(-10 * 365 * 24 * time.Hour)
	})
}

// TestReceiptsAfterAQuietMonthGo: a leap of the clock looks the same, so those from before it stay for
// as long again.
func TestReceiptsAfterAQuietMonthGo(t *testing.T) {
	testReceiptsGo(t, func(r *receiptRig) { r.clock.Advance(40 * 24 * time.Hour) })
}

func testReceiptsGo(t *testing.T, meanwhile func(r *receiptRig)) {
	t.Helper()
	r := newReceiptRig(t, 0)
	many := func() int {
		for i := range 200 {
			if _, err := r.reserve(fmt.Sprint(r.clock.Now(), i)); err != nil {
				t.Fatal(err)
			}
			r.clock.Advance(30 * time.Second)
		}
		return memstore.Receipts(r.s)
	}
	usual := many()
	meanwhile(r)
	for range 4 {
		many()
	}
	if now := many(); now > usual*5/2 { // with those from before a leap
		t.Errorf("%d receipts are kept, %d before", now, usual)
	}
}

func TestAStoreFullOfReceiptsRefusesAndForgetsNone(t *testing.T) {
	r := newReceiptRig(t, 100_000)
	first, err := r.reserve("first")
	if err != nil {
		t.Fatal(err)
	}
	granted := 1
	for ; err == nil && granted < 10_000; granted++ {
		_, err = r.reserve(fmt.Sprint("call ", granted))
	}
	granted--
	if !errors.Is(err, quota.ErrOutage) || granted < 100_000/300 || granted > 100_000/100 {
		t.Fatalf("after %d calls: %v, want an outage at 100,000 bytes", granted, err)
	}
	if v, err := r.reserve(""); err != nil || v.Used != int64(granted)+1 {
		t.Errorf("a call without an id: %+v %v, want it granted, and nothing charged for the refused one", v, err)
	}
	if v, err := r.reserve("first"); err != nil || !v.Repeat {
		t.Errorf("the first call again: %+v %v, want its grant", v, err)
	}
	if s, err := r.s.Settle(t.Context(), first.Token(), nil); err != nil || s.Back != 1 {
		t.Errorf("the first call is released: %+v %v", s, err)
	}
	r.clock.Advance(30 * time.Second)
	for range 2 * 60 { // not at once: a leap forgets nothing
		r.clock.Advance(31 * time.Second)
		_, err = r.reserve("again")
	}
	if err != nil {
		t.Errorf("an hour later: %v, want room", err)
	}
}

// TestAFirstReceiptIsSmall: of many accounts, most have few receipts.
func TestAFirstReceiptIsSmall(t *testing.T) {
	const accounts, most = 2000, 4096
	spec, err := window.Spec{Per: time.Hour, Algorithm: window.Estimate}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	windows := []window.Limit{window.NewLimit(spec, 10)}
	var before, after runtime.MemStats
	s := memstore.New(nil)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range accounts {
		c := quota.Charge{Pool: quota.Pool{Upstream: "api", Account: strconv.Itoa(i), Name: "units"}, Units: 1, Windows: windows, Revision: 1}
		if v, err := s.Reserve(t.Context(), quota.Request{ID: "one", Fresh: true, Charges: []quota.Charge{c}}); err != nil || !v.Allowed {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (after.HeapAlloc - before.HeapAlloc) / accounts; each > most {
		t.Errorf("an account with a receipt takes %d B, want %d at most", each, most)
	}
	runtime.KeepAlive(s)
}
