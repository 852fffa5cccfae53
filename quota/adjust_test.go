package quota_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

func TestAdjust(t *testing.T) {
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	l, _ := newLedger(t)
	must(t, l, quota.Call{Upstream: "youtube", Method: "videos.list", Job: "trending", Region: "DE"})
	for _, n := range []int64{120, -50} {
		if _, err := l.Admin().Adjust(t.Context(), pool, n, "the console says so"); err != nil {
			t.Fatal(err)
		}
	}
	if n := used(t, l, "units", "24h"); n != 71 {
		t.Errorf("used %d, want 71", n)
	}
	spent, err := l.View().Spend(t.Context(), quota.SpendQuery{Upstream: "youtube", Account: "default"})
	if err != nil {
		t.Fatal(err)
	}
	want := []quota.Spent{
		{Pool: pool, Day: "2026-11-20", Labels: quota.Labels{Reason: "the console says so"}, Units: 70, Calls: 2},
		{Pool: pool, Day: "2026-11-20", Labels: quota.Labels{Method: "videos.list", Job: "trending", Region: "DE"}, Units: 1, Calls: 1},
	}
	if diff := cmp.Diff(want, spent); diff != "" {
		t.Error(diff)
	}
	for _, err := range []error{
		errOf(l.Admin().Adjust(t.Context(), pool, 0, "x")),
		errOf(l.Admin().Adjust(t.Context(), pool, 5, "")),
		errOf(l.Admin().Adjust(t.Context(), pool, -1<<53, "x")),
	} {
		if !errors.Is(err, quota.ErrBadInput) {
			t.Error(err)
		}
	}
}

// Adjust gives back no more units than were used, and the spend shows only those.
func TestAdjustGivesBackWhatWasUsed(t *testing.T) {
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	l, _ := newLedger(t)
	must(t, l, units(48))
	for _, step := range []struct{ units, want int64 }{{-999_999, -48}, {-5, 0}, {7, 7}, {-3, -3}} {
		if got, err := l.Admin().Adjust(t.Context(), pool, step.units, "counted again"); err != nil || got != step.want {
			t.Errorf("adjust by %d: recorded %d (%v), want %d", step.units, got, err, step.want)
		}
	}
	if n := used(t, l, "units", "24h"); n != 4 {
		t.Errorf("used %d, want 4", n)
	}
	spent, err := l.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByPool)
	if err != nil || len(spent) != 1 || spent[0].Units != 4 {
		t.Errorf("spent %+v (%v), want the 4 that are used", spent, err)
	}
}

// A pool without an account is a pool of the default account, as in a call. People and
// observers see it as such.
func TestPoolWithoutAccount(t *testing.T) {
	pool := quota.Pool{Upstream: "youtube", Name: "units"}
	var told []string
	l, err := quota.New(mustParse(t, testBook), memstore.New(nil), &quota.Options{
		Observer: quota.ObserverFunc(func(e quota.Event) { told = append(told, e.Pool.Account+" "+e.Pool.String()) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Admin().Adjust(t.Context(), pool, 1, "the console says so"); err != nil {
		t.Fatal(err)
	}
	if err := l.BlockFor(t.Context(), pool, time.Minute, "429"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"default youtube/units", "default youtube/units"}; !slices.Equal(told, want) {
		t.Errorf("observed %q, want %q", told, want)
	}
	spent, err := l.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByMethod)
	if err != nil || len(spent) != 1 || spent[0].Pool.String() != "youtube/units" {
		t.Error("spend of all accounts:", spent, err)
	}
}

func TestSpendByDimension(t *testing.T) {
	l, _ := newLedger(t)
	for _, region := range []string{"DE", "FR", "DE"} {
		must(t, l, quota.Call{Upstream: "youtube", Method: "videos.list", Job: "trending", Region: region})
	}
	must(t, l, quota.Call{Upstream: "youtube", Method: "search.list", Job: "news", Region: "DE"})
	spent, err := l.View().Spend(t.Context(), quota.SpendQuery{Upstream: "youtube", Account: "default"}, quota.ByRegion)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range spent {
		got = append(got, fmt.Sprintf("%s %s %d in %d", s.Pool.Name, s.Labels.Region, s.Units, s.Calls))
	}
	want := []string{"searches DE 1 in 1", "units DE 22 in 3", "units FR 1 in 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := l.View().Spend(t.Context(), quota.SpendQuery{}, "colour"); !errors.Is(err, quota.ErrBadInput) {
		t.Error(err)
	}
}
