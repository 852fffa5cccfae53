package meter_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

const small = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    refusals: [{status: 429, for: 1h}]
    feedback: [{pool: units, remaining: {header: X-Left}}]
    pools: {units: {quota: 1, windows: [{per: 30s}]}, days: {quota: 1, windows: [{per: 24h}]}}
    methods:
      get: {route: GET /get, charge: {units: 1}}
      day: {route: GET /day, charge: {days: 1}}
      dear: {route: GET /dear, charge: {days: 1, units: 1}}
`

// An SDK that retries errors gets a status that it understands instead.
func TestAs429(t *testing.T) {
	impossible := strings.Replace(small, "dear: {route: GET /dear, charge: {days: 1, units: 1}}", "dear: {route: GET /dear, charge: {units: 2}}", 1)
	impossible = strings.Replace(impossible, "pools: {units: {quota: 1,", "accounts: {default: {}, big: {pools: {units: {quota: 5}}}}\n    pools: {units: {quota: 1,", 1)
	for _, c := range []struct {
		name, text, path, kind string
		status                 int
		after, retry           string
		is                     error
		store                  func(quota.Store) quota.Store
	}{
		{"a refusal", small, "/get", "refused", 429, "31", "", quota.ErrRefused, nil},
		{"a long refusal", small, "/day", "refused", 429, "86460", "false", quota.ErrRefused, nil},
		{"a block", small, "/dear", "blocked", 429, "40", "", quota.ErrBlocked, nil},
		{"an impossible call", impossible, "/dear", "impossible", 400, "", "false", quota.ErrImpossible, nil},
		{"a call without a price", small, "/other", "unpriced", 400, "", "false", quota.ErrUnpriced, nil},
		{"an outage", small, "/get", "outage", 503, "", "", quota.ErrOutage, func(s quota.Store) quota.Store { return broken{s} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := 0
			r := priced(t, c.text, func(http.ResponseWriter, *http.Request) { sent++ })
			if c.store != nil {
				l, err := quota.New(r.ledger.Book(), c.store(newStore(r.clock)), &quota.Options{Clock: r.clock})
				if err != nil {
					t.Fatal(err)
				}
				r.ledger = l
			} else {
				for _, pool := range []string{"units", "days"} {
					if _, err := r.ledger.Admin().Adjust(t.Context(), quota.Pool{Upstream: "api", Account: "default", Name: pool}, 1, "a test"); err != nil {
						t.Fatal(err)
					}
				}
			}
			if c.kind == "blocked" {
				r.clock.Advance(25 * time.Hour)
				if err := r.ledger.BlockFor(t.Context(), quota.Pool{Upstream: "api", Account: "default", Name: "units"}, 39500*time.Millisecond, "a test"); err != nil {
					t.Fatal(err)
				}
			}
			r.meter(&meter.Options{Refused: meter.As429})
			resp, err := r.client.Get("http://api.example.com" + c.path)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			got := []string{strconv.Itoa(resp.StatusCode), resp.Header.Get("Headroom-Refused"), resp.Header.Get("Retry-After"), resp.Header.Get("x-should-retry")}
			if diff := cmp.Diff([]string{strconv.Itoa(c.status), c.kind, c.after, c.retry}, got); diff != "" {
				t.Errorf("the answer (-want +got):\n%s", diff)
			}
			why := meter.RefusalOf(resp)
			var said struct{ Error struct{ Message string } }
			if err := json.Unmarshal(text, &said); err != nil || why == nil || said.Error.Message != why.Error() || int64(len(text)) != resp.ContentLength {
				t.Errorf("the body is %s, of %v", text, why)
			}
			if !errors.Is(why, c.is) || sent > 0 {
				t.Errorf("the error is %v, want %v; %d requests were sent", why, c.is, sent)
			}
			// a retry that is made of the answer's own request is another call
			if again := (&http.Response{Request: resp.Request}); meter.RefusalOf(again) != nil {
				t.Error("another answer to the same request is taken for it")
			}
		})
	}
	t.Run("other errors stay errors", func(t *testing.T) {
		r := newRig(t, nil, &meter.Options{Refused: meter.As429, Keys: map[string]meter.KeySource{"api": meter.Key("")}})
		if _, _, err := r.do(t.Context(), "GET", items, ""); !errors.Is(err, meter.ErrCredential) {
			t.Errorf("error %v", err)
		}
	})
}

// broken is a store that cannot be reached.
type broken struct{ quota.Store }

func (broken) Reserve(context.Context, quota.Request) (quota.Verdict, error) {
	return quota.Verdict{}, errors.New("no route to host")
}

// A transport above another one knows that the upstream has not said it.
func TestAs429InAChain(t *testing.T) {
	r := priced(t, small, nil)
	if _, err := r.ledger.Admin().Adjust(t.Context(), quota.Pool{Upstream: "api", Account: "default", Name: "units"}, 1, "a test"); err != nil {
		t.Fatal(err)
	}
	b, err := book.Parse("costs.yaml", []byte(strings.Replace(small, "hosts:", "api_key: {header: X-Api-Key}\n    hosts:", 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	above, err := quota.New(b, newStore(r.clock), &quota.Options{Clock: r.clock})
	if err != nil {
		t.Fatal(err)
	}
	below := newTransport(t, r.ledger, &meter.Options{Base: r.base, Refused: meter.As429, Logger: discard})
	r.ledger = above
	r.meter(&meter.Options{Base: below, Keys: map[string]meter.KeySource{"api": meter.Key("secret")}})
	resp, err := r.client.Get("https://api.example.com/get")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests || !errors.Is(meter.RefusalOf(resp), quota.ErrRefused) {
		t.Errorf("%d, %v", resp.StatusCode, meter.RefusalOf(resp))
	}
	if resp.Request.Header.Get("X-Api-Key") != "" {
		t.Error("the key is in the request of the answer")
	}
	if u := r.usage("api/units"); u.Windows[0].Used != 0 || !u.Blocked.IsZero() {
		t.Errorf("above, %d are used, shut until %s; the call was never sent", u.Windows[0].Used, u.Blocked)
	}

	// the same from another process: charged, because nobody here knows, but no block
	r.meter(&meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 429, Header: http.Header{"Headroom-Refused": {"refused"}, "X-Left": {"0"}}, Body: http.NoBody}, nil
	})})
	if _, _, err := r.do(t.Context(), "GET", "http://api.example.com/get", ""); err != nil {
		t.Fatal(err)
	}
	if u := r.usage("api/units"); u.Windows[0].Used != 1 || !u.Blocked.IsZero() {
		t.Errorf("%d are used, shut until %s", u.Windows[0].Used, u.Blocked)
	}
}
