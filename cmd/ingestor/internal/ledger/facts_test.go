package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
)

// TestFactsHaveEveryBook: each built-in book has a source, a day and facts, and one that was compared
// too long ago is named.
func TestFactsHaveEveryBook(t *testing.T) {
	now := time.Date(2027, 5, 24, 0, 0, 0, 0, time.UTC) // 178 days after 2026-11-27
	all, err := factsOf(headroom.ListBuiltin(), now)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(headroom.ListBuiltin()) {
		t.Errorf("%d books of %d", len(all), len(headroom.ListBuiltin()))
	}
	for _, f := range all {
		if f.Source == "" || f.Verified == "" || len(f.Facts) < 3 || !strings.Contains(strings.Join(f.Facts, "\n"), "pool ") {
			t.Errorf("%+v", f)
		}
	}
	if err := tooOld(all, 10000); err != nil {
		t.Error(err)
	}
	err = tooOld(all, 180)
	if err == nil || !strings.Contains(err.Error(), "builtin/shopify on 2026-11-22") || strings.Contains(err.Error(), "builtin/stripe") {
		t.Errorf("of the books that are too old: %v", err)
	}
}
