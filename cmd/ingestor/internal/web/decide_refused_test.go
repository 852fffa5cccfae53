package web_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	entries "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/refusals"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// TestRefusalsOfCallersAreCounted, of /v1/reserve and of Envoy, but not those of clients.
func TestRefusalsOfCallersAreCounted(t *testing.T) {
	o := &web.Options{Refused: refusals.New(quota.NewSimClock(noon))}
	r, address := newEnvoyOf(t, o)
	etl, err := access.New("etl", annas, access.Reserve, access.Limits)
	r.Must(err)
	r.Must(r.server.Update(web.Sources{Sources: r.Sources(), Tokens: []*access.Token{etl}}, r.Ledger.Book()))
	reserve := func(status int, body string) {
		t.Helper()
		if a := r.ask("POST", "/v1/reserve", body, "Authorization", "Bearer "+annas); a.StatusCode != status {
			t.Fatalf("%s: %s, %s", body, a.Status, a.body)
		}
	}
	reserve(http.StatusOK, `{"pool": "shop/units", "units": 10}`)
	reserve(http.StatusOK, `{"family": "visitor", "key": "ann", "units": 3}`)
	reserve(http.StatusTooManyRequests, `{"pool": "shop/units", "units": 2}`)
	reserve(http.StatusTooManyRequests, `{"family": "visitor", "key": "ann"}`)
	reserve(http.StatusOK, `[{"pool": "shop/units"}, {"pool": "shop/units"}]`)
	envoy := rls.NewRateLimitServiceClient(r.dialEnvoy(address))
	_, err = envoy.ShouldRateLimit(with(annas), &rls.RateLimitRequest{Domain: "envoy", Descriptors: []*entries.RateLimitDescriptor{
		descriptor("authenticated=false path=/foo/bar"), descriptor("authenticated=false remote_address=ann"),
	}})
	r.Must(err)
	var counted []catalog.Refusal
	r.Must(o.Refused.Flush(t.Context(), func(_ context.Context, all []catalog.Refusal) error {
		counted = all
		return nil
	}))
	want := []catalog.Refusal{{Pool: "shop/units", Cause: "refused", Caller: "etl", Hour: noon, Calls: 1 + 2 + 1}}
	if diff := cmp.Diff(want, counted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
