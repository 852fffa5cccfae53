package ingest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// TestStep takes the steps of work by hand, as a fleet does: each one on a run that knows
// only what was kept.
func TestStep(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "@hourly", Regions: []string{"US"}, Pages: 4}})
	j, ctx := r.job("charts"), context.Background()
	record, err := r.catalog.Begin(ctx, catalog.Start{Job: "charts"})
	r.must(err)
	works, err := r.runner.Plan(ctx, j, noon, ingest.Occasion{})
	r.must(err)
	w := works[0]
	step := func(until time.Time) ingest.Step {
		return r.runner.Join(j, ingest.State{Began: noon, Works: 1}, record).Step(ctx, w, until)
	}

	if s := step(r.clock.Now()); s.Next != ingest.Again || w.Pages != 0 {
		t.Errorf("a step without time: %+v after %d pages", s, w.Pages)
	}
	before := r.clock.Now()
	s := step(time.Time{})
	if s.Next != ingest.Failed || !errors.Is(s.Err, quota.ErrRefused) || w.Pages != 2 || w.Units != 2 {
		t.Errorf("beyond the quota: %+v after %d pages and %d units", s, w.Pages, w.Units)
	}
	if now := r.clock.Now(); !now.Equal(before) {
		t.Errorf("the step waited %s for units", now.Sub(before))
	}

	r.config.MaxWait = 72 * time.Hour
	r.remake()
	s = step(time.Time{})
	if s.Next != ingest.At || !errors.Is(s.Err, quota.ErrRefused) || !s.At.After(before) || !r.clock.Now().Equal(before) {
		t.Fatalf("units that come back within max_wait: %+v", s)
	}
	r.clock.Set(s.At)
	if s = step(time.Time{}); s.Next != ingest.Done || w.Pages != 4 || w.Units != 4 {
		t.Errorf("when they are back: %+v after %d pages and %d units", s, w.Pages, w.Units)
	}
}
