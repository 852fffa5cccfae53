package journal_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

var units = quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}

func TestBirths(t *testing.T) {
	j := newJournal(t)
	birth := func(born, until int, generation int64, latest int) storekit.Birth {
		at := func(hour int) time.Time { return time.Date(2026, 11, 20, hour, 0, 0, 0, time.UTC) }
		return storekit.Birth{Identity: "a", Born: at(born), Until: at(until), Generation: generation, Latest: at(latest)}
	}
	for _, row := range []struct {
		what       string
		said, want storekit.Birth
	}{
		{"a page", birth(1, 10, 5, 2), birth(1, 10, 5, 2)},
		{"which counts for longer", birth(1, 12, 5, 3), birth(1, 12, 5, 3)},
		{"a reply that was overtaken", birth(1, 10, 5, 2), birth(1, 12, 5, 3)},
		{"its windows are shorter now", birth(1, 7, 6, 4), birth(1, 7, 6, 4)},
		{"a reply of the generation before", birth(1, 13, 5, 9), birth(1, 7, 6, 4)},
		{"another page", birth(2, 5, 5, 2), birth(2, 5, 5, 2)},
	} {
		if err := j.Remember(t.Context(), units, row.said); err != nil {
			t.Fatal(err)
		}
		got, err := j.Recall(t.Context(), units)
		if diff := cmp.Diff(row.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", row.what, err, diff)
		}
	}
	if err := j.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := j.Recall(t.Context(), units); err != nil || got != (storekit.Birth{}) {
		t.Errorf("after it was forgotten: %v, %v", got, err)
	}
}
