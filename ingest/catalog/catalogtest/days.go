package catalogtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// testDays saves totals of days: the last ones count, and old ones go.
func (h *Harness) testDays(t *testing.T) {
	c, clock := h.fresh(t)
	saved := func(days ...catalog.PoolDay) {
		t.Helper()
		if err := c.SaveDays(ctx, days); err != nil {
			t.Fatal(err)
		}
	}
	first := catalog.PoolDay{Pool: "youtube/units", Day: noon.Format(time.DateOnly), Units: 5, Calls: 4, Refused: 3, Blocked: 2}
	saved(first, catalog.PoolDay{Pool: "youtube/searches", Day: first.Day})
	first.Units = 7
	saved(first)
	holds := func(want ...catalog.PoolDay) {
		t.Helper()
		all, err := c.Days(ctx, "youtube/units", "2020-01-01")
		if diff := cmp.Diff(want, all); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	holds(first)
	if later, err := c.Days(ctx, "youtube/units", noon.AddDate(0, 0, 1).Format(time.DateOnly)); err != nil || later != nil {
		t.Errorf("%v %v", later, err)
	}
	clock.Advance((catalog.KeptDays + 1) * 24 * time.Hour)
	saved()
	holds()
}

// testRefusals counts the refused calls of callers, by the hour. Old ones go.
func (h *Harness) testRefusals(t *testing.T) {
	c, clock := h.fresh(t)
	add := func(all ...catalog.Refusal) {
		t.Helper()
		if err := c.AddRefusals(ctx, all); err != nil {
			t.Fatal(err)
		}
	}
	etl := catalog.Refusal{Pool: "youtube/units", Cause: "refused", Hour: noon.Add(30 * time.Minute), Caller: "etl", Calls: 2}
	shut := catalog.Refusal{Pool: "youtube/units", Cause: "blocked", Hour: noon.Add(time.Hour), Caller: "front", Calls: 1}
	add(etl, shut)
	etl.Calls = 5
	add(etl)
	holds := func(since time.Time, want ...catalog.Refusal) {
		t.Helper()
		all, err := c.Refusals(ctx, since)
		if diff := cmp.Diff(want, all); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	etl.Calls, etl.Hour = 7, noon
	holds(noon, etl, shut)
	holds(noon.Add(time.Hour), shut)
	clock.Advance(catalog.KeptRefusals + time.Hour)
	add()
	holds(noon, shut)
}

// testActions notes what people do. The latest are kept.
func (h *Harness) testActions(t *testing.T) {
	c, _ := h.fresh(t)
	n := scaled(3, catalog.KeptActions+3)
	for i := range n {
		if err := c.Note(ctx, &catalog.Action{Who: "anna", What: "block", Target: "youtube/units", Detail: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := c.Actions(ctx, 1)
	want := []catalog.Action{{At: noon, Who: "anna", What: "block", Target: "youtube/units", Detail: fmt.Sprint(n - 1)}}
	if diff := cmp.Diff(want, all); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if all, err = c.Actions(ctx, 2*n); err != nil || len(all) != min(n, catalog.KeptActions) {
		t.Errorf("%d are kept of %d: %v", len(all), n, err)
	}
}
