package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
)

// Each call of an array is decided apart from the others, in order.
func TestReserveBatch(t *testing.T) {
	r := newDecider(t, nil)
	var answers []problem.Problem
	r.post("/v1/reserve", `[
		{"method": "item.get", "id": "a"},
		{"pool": "units", "units": 8, "job": "import"},
		{"pool": "units", "units": 2},
		{"pool": "units", "unit": 1},
		7,
		{"method": "item.got"},
		{"method": "item.get", "id": "a"},
		{"family": "visitor", "key": "ann"}
	]`, &answers)
	want := []string{
		"granted 1/10", "granted 9/10", "429 refused call 2: ", "400 call 3: line 1, column 24: unknown field", "400 call 4: line 1, column 1: it must be an object",
		`422 unpriced call 5: `, "granted 9/10 again", "granted 1/3",
	}
	for i, a := range answers {
		got := fmt.Sprintf("%d %s %s", a.Status, a.Code, a.Detail)
		if a.Verdict != nil && a.Allowed {
			got = fmt.Sprintf("granted %d/%d", a.Used, a.Limit)
			if a.Repeat {
				got += " again"
			}
		}
		if got = strings.ReplaceAll(got, "  ", " "); !strings.HasPrefix(got, want[i]) {
			t.Errorf("call %d: %s, want %s", i, got, want[i])
		}
		if failed := a.Status != 0; failed != (a.Index != nil) || failed && *a.Index != i {
			t.Errorf("call %d: the index is %v", i, a.Index)
		}
	}
	if len(answers) != len(want) || r.used() != 9 {
		t.Errorf("%d answers, and %d units used, want %d and 9", len(answers), r.used(), len(want))
	}
	if v := answers[2].Verdict; v == nil || v.RetryAfter != 11 || v.Units != 2 {
		t.Errorf("refused: %+v", v)
	}
	many := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"family": "visitor", "key": "bob"},`, n), ",") + "]"
	}
	for _, n := range []int{0, 101} {
		if p := r.refuse(http.StatusUnprocessableEntity, "bad_input", "/v1/reserve", many(n)); p.Detail != fmt.Sprintf("send 1 to 100 calls in an array, not %d", n) {
			t.Errorf("%d calls: %s", n, p.Detail)
		}
	}
	r.post("/v1/reserve", many(100), &answers)
	if len(answers) != 100 || answers[3].Verdict == nil || answers[3].Code != "refused" {
		t.Errorf("100 calls: %d answers, of which the fourth is %+v", len(answers), answers[3])
	}
	r.problem(http.StatusBadRequest, "POST", "/v1/reserve", `[{"method": "item.get"}, {]`, withToken...)
	if got := r.used(); got != 9 {
		t.Errorf("an array that is no JSON took %d units", got-9)
	}
}

// A token without the right fails the calls that need it.
func TestReserveBatchRights(t *testing.T) {
	r := newDecider(t, nil)
	const text = "a-token-that-may-only-charge-the-families-0123"
	token, err := access.New("front", text, access.Limits)
	r.Must(err)
	r.Must(r.server.Update(web.Sources{Sources: r.Sources(), Tokens: []*access.Token{token}}, r.Ledger.Book()))
	a := r.ask("POST", "/v1/reserve", `[{"pool": "units"}, {"family": "visitor", "key": "ann"}]`, "Authorization", "Bearer "+text)
	var answers []problem.Problem
	r.Must(json.Unmarshal([]byte(a.body), &answers))
	if len(answers) != 2 || answers[0].Code != "no_right" || answers[1].Verdict == nil || !answers[1].Allowed {
		t.Errorf("%s", a.body)
	}
}

// X-RateLimit-* come only if the server is told to send them.
func TestXRateLimit(t *testing.T) {
	for _, on := range []bool{false, true} {
		r := newDecider(t, &web.Options{XRateLimit: on})
		for _, one := range []struct{ method, path, body, limit, remaining, reset string }{
			{"POST", "/v1/reserve", `{"pool": "units", "units": 7}`, "10", "3", "11"},
			{"POST", "/v1/reserve", `{"pool": "units", "units": 4}`, "10", "3", "11"},
			{"GET", "/api/v1/regions", "", "60", "59", "120"},
		} {
			want := [3]string{}
			if on {
				want = [3]string{one.limit, one.remaining, one.reset}
			}
			h := r.ask(one.method, one.path, one.body, withToken...).Header
			if got := [3]string{h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset")}; got != want {
				t.Errorf("%t: %s %s: %q, want %q", on, one.path, one.body, got, want)
			}
		}
	}
}
