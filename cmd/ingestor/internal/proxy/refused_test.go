package proxy

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/refusals"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// TestRefusedCallsAreCounted, but not those that another reason stops.
func TestRefusedCallsAreCounted(t *testing.T) {
	noon := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	clock := quota.NewSimClock(noon)
	tally := refusals.New(clock)
	r := newRig(t, rigOptions{clock: clock, change: func(o *Options) { o.Refused = tally }})
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusTooManyRequests} {
		if a := r.call(http.MethodGet, "/api/v1/few"); a.StatusCode != want {
			t.Errorf("%s: %s", a.Status, a.body)
		}
	}
	r.call(http.MethodGet, "/nothing")
	wrong := r.request(http.MethodGet, "/api/v1/few", nil)
	wrong.Header.Set("X-Api-Key", "a wrong one")
	r.send(wrong)
	var counted []catalog.Refusal
	err := tally.Flush(t.Context(), func(_ context.Context, all []catalog.Refusal) error {
		counted = all
		return nil
	})
	want := []catalog.Refusal{{Pool: "api/few", Cause: "refused", Hour: noon, Caller: "etl", Calls: 2}}
	if diff := cmp.Diff(want, counted); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
