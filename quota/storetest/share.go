package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// testShare checks that every process sees the changes of another one at once.
func testShare(t *testing.T, h Harness) {
	if h.Share == nil {
		t.Skip("the harness cannot share this store's data with another process")
	}
	for kind, w := range everyKind(50) {
		t.Run("racing_for_units_of_a_"+kind, func(t *testing.T) {
			r := newRig(t, h, w)
			stores := []quota.Store{r.s, h.Share(t, r.s), h.Share(t, r.s)}
			if granted := r.race(stores, 3, 50/3+5); granted > 50/3 || granted < 50/3 && h.GiveBack == nil {
				t.Errorf("granted %d times 3 units of 50, want %d", granted, 50/3)
			}
		})
	}
	t.Run("everything", func(t *testing.T) {
		r := newRig(t, h, ring(10, 24*time.Hour, time.Minute))
		mine, theirs := r.s, h.Share(t, r.s)
		for i, step := range []struct {
			in   quota.Store
			do   action
			want string
		}{
			{mine, reserveAs("a", 5), "granted 5/10"},
			{theirs, reserveAs("a", 5), "granted again"},
			{theirs, reserveAs("a", 4), "bad input"},
			{theirs, reserveAs("b", 5), "granted 10/10"},
			{mine, looks("units"), "10"},
			{theirs, settle("a", 2), "back 3"},
			{mine, settle("a", 0), "back 3, again"},
			{mine, record(-1), "ok"},
			{theirs, looks("units"), "6"},
			{mine, blockFor(time.Hour, "units"), "ok"},
			{theirs, shut, "blocked"},
			{theirs, open("units"), "ok"},
			{mine, reserve(1), "granted 7/10"},
			{theirs, revision(2, reserve(1)), "granted 8/10"},
			{mine, reserve(1), "stale book"},
		} {
			r.s = step.in
			if got := step.do(r); got != step.want {
				t.Fatalf("step %d: got %q, want %q", i, got, step.want)
			}
		}
		if mine, theirs := fmt.Sprint(r.spent(quota.SpendQuery{})), r.spent(quota.SpendQuery{}); mine != fmt.Sprint(theirs) {
			t.Errorf("spend is %v here and %v there", mine, theirs)
		}
	})
}

// shut says whether a pool is shut.
func shut(r *rig) string {
	if v := r.reserve(r.charge("units", 1)); v.Blocked {
		return "blocked"
	}
	return "open"
}

// testRestart checks that grants survive a restart.
func testRestart(t *testing.T, h Harness) {
	if h.Reopen == nil {
		t.Skip("the harness says that this store does not survive a restart")
	}
	r := newRig(t, h, ring(10, 24*time.Hour, time.Minute), exact(20, 24*time.Hour), counter(30, 24*time.Hour))
	for i, step := range []struct {
		do   action
		want string
	}{
		{reserveAs("a", 5), "granted 5/10"},
		{reserveAs("b", 2), "granted 7/10"},
		{settle("b", 1), "back 1"},
		{reserveAs("a", 5), "granted again"},
		{settle("b", 0), "back 1, again"},
		{looks("units"), "6, 6, 6"},
		{settle("a", 3), "back 2"},
		{record(2), "ok"},
		{blockFor(time.Hour, "units"), "ok"},
		{shut, "blocked"},
		{open("units"), "ok"},
		{shut, "open"},
		{revision(2, reserve(0)), "granted 7/10"},
		{reserve(1), "stale book"},
	} {
		born, spent := r.bornOf("units"), fmt.Sprint(r.spent(quota.SpendQuery{}))
		r.s = h.Reopen(t, r.s)
		if again := r.bornOf("units"); !again.Equal(born) {
			t.Fatalf("step %d: the page was born at %s, after a restart at %s", i, born, again)
		}
		if again := fmt.Sprint(r.spent(quota.SpendQuery{})); again != spent {
			t.Fatalf("step %d: spend was %s, after a restart %s", i, spent, again)
		}
		if got := step.do(r); got != step.want {
			t.Fatalf("step %d: got %q, want %q", i, got, step.want)
		}
	}
}

// bornOf returns the time at which the store first knew a pool. Revision 2 may have laid
// out the pool's page.
func (r *rig) bornOf(pool string) time.Time {
	r.Helper()
	r.revision = 2
	defer func() { r.revision = 1 }()
	return r.look(pool)[0].Born
}
