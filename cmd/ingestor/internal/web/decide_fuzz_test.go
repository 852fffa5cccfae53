package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
)

// told are the statuses that a request of somebody who has the token may have.
var told = []int{
	http.StatusOK, http.StatusBadRequest, http.StatusConflict, http.StatusGone,
	http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
}

// FuzzDecision sends any body: it is never an error of ours, what is not granted takes
// nothing, and what is granted is within the limit.
func FuzzDecision(f *testing.F) {
	r := newDecider(f, nil)
	token := r.grant(`{"charges": {"units": 2, "orders": 1}}`).Token
	for _, body := range []string{
		`{"method": "item.get", "job": "a", "region": "DE", "class": "backfill", "id": "a"}`, `{"method": "order.put"}`,
		`{"pool": "units", "units": 10}`, `{"pool": "shop@staging/units", "units": 11}`, `{"charges": {"units": 1, "orders": 1}}`,
		`{"family": "visitor", "key": "ann", "units": 2}`, `{"family": "visitor", "key": "\u0000"}`, `{"method": "item.get", "outage": "admit"}`,
		`{"token": "` + token + `", "units": {"units": 1, "orders": 1}}`, `{"token": "` + token + `"}`, `{"token": "` + token + `..", "units": 1}`,
		`{"token": "x.y", "units": 1e2}`, `{"pool": "units", "units": -9223372036854775808}`, `{"pool": "\ud800"}`, `{"pool": "a@b/c:d"}`,
		`[{"pool": "units"}, {"pool": "units", "units": 10}, 1]`, `{"a": {"a": {}}}`, `[[[[`, "\xff", `{"pool": "units", "pool": "units"}`, `{"charges": {"": 1}}`, `null`, `{"id": "\n", "pool": "units"}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r.Clock.Advance(11 * time.Second) // all is free again
		for _, path := range []string{"/v1/reserve", "/v1/settle", "/v1/release"} {
			before := r.look(t)
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+theToken)
			w := httptest.NewRecorder()
			r.server.ServeHTTP(w, req)
			var v problem.Verdict
			var all []problem.Verdict
			if err := json.Unmarshal(w.Body.Bytes(), &v); !slices.Contains(told, w.Code) || err != nil && json.Unmarshal(w.Body.Bytes(), &all) != nil {
				t.Fatalf("%s %q: %d %s", path, body, w.Code, w.Body)
			}
			if after := r.look(t); w.Code != http.StatusOK && after != before {
				t.Errorf("%s %q: %d, and yet %s was %s", path, body, w.Code, after, before)
			}
			for _, one := range all {
				if one.Used > one.Limit {
					t.Errorf("%q: granted %s", body, w.Body)
				}
			}
			if path == "/v1/reserve" && w.Code == http.StatusOK && all == nil && (!v.Allowed || v.Used > v.Limit) {
				t.Errorf("%q: granted %s", body, w.Body)
			}
		}
	})
}

// look is what is used of each pool.
func (r *rig) look(t *testing.T) string {
	all, err := r.Ledger.View().Usage(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	var used []int64
	for _, p := range all {
		used = append(used, p.Windows[0].Used)
	}
	return encoded(t, used)
}
