package refusals_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/refusals"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

var (
	noon  = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	units = quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
)

func refused(pool quota.Pool, blocked bool) error {
	return fmt.Errorf("reserve: %w", &quota.RefusedError{Verdict: quota.Verdict{Pool: pool, Blocked: blocked}})
}

func TestTally(t *testing.T) {
	clock := quota.NewSimClock(noon.Add(time.Minute))
	tally := refusals.New(clock)
	keyed := units
	keyed.Key = "model"
	for _, err := range []error{
		refused(units, false), refused(keyed, false), refused(units, true), nil, errors.New("lost"), context.Canceled,
		refused(quota.Pool{Upstream: "client", Key: "203.0.113.7"}, false),
	} {
		tally.Add("etl", err)
	}
	clock.Advance(time.Hour)
	tally.Add("", refused(units, false))
	var none *refusals.Tally
	none.Add("etl", refused(units, false))

	lost := errors.New("lost")
	if err := tally.Flush(t.Context(), func(context.Context, []catalog.Refusal) error { return lost }); !errors.Is(err, lost) {
		t.Error(err)
	}
	var saved []catalog.Refusal
	save := func(_ context.Context, all []catalog.Refusal) error {
		saved = append(saved, all...)
		return nil
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	tally.Keep(stopped, save, slog.New(slog.DiscardHandler)) // once more, although it is stopped
	if err := tally.Flush(t.Context(), save); err != nil {
		t.Error(err)
	}
	want := []catalog.Refusal{
		{Pool: "youtube/units", Cause: "blocked", Hour: noon, Caller: "etl", Calls: 1},
		{Pool: "youtube/units", Cause: "refused", Hour: noon, Caller: "etl", Calls: 2},
		{Pool: "youtube/units", Cause: "refused", Hour: noon.Add(time.Hour), Caller: refusals.Unnamed, Calls: 1},
	}
	if diff := cmp.Diff(want, saved); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
