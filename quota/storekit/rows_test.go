package storekit

import (
	"fmt"
	"testing"

	"github.com/headroom-quota/headroom/quota"
)

// A database may have any number of sets of labels. What a query collects stays within its bound.
func TestAFoldKeepsNoMoreThanItTellsApart(t *testing.T) {
	const sets = 20 * MaxSpendLabels
	var f Fold
	for i := range sets {
		s := quota.Spent{Pool: quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"}, Day: "2026-11-20", Units: 1, Calls: 1}
		s.Labels.Job = fmt.Sprint("job-", i)
		if err := f.Add(quota.SpendQuery{}, s, "UTC"); err != nil {
			t.Fatal(err)
		}
		if len(f.all) > 3*MaxSpendLabels {
			t.Fatalf("%d sums are held after %d sets of labels, of which %d are told apart", len(f.all), i+1, MaxSpendLabels)
		}
	}
	all := f.Spend()
	if last := all[len(all)-1]; len(all) != MaxSpendLabels+1 || last.Labels != quota.OtherLabels || last.Units != sets-MaxSpendLabels {
		t.Errorf("%d sums, the last of %+v with %d units; want %d, and the others with %d", len(all), last.Labels, last.Units, MaxSpendLabels+1, sets-MaxSpendLabels)
	}
}
