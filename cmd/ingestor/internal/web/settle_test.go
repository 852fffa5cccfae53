package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

func TestSettle(t *testing.T) {
	type settled struct {
		ID                  string
		Back, Left, Charged int64
		Repeat              bool
	}
	r := newDecider(t, nil)
	say := func(path, body string) (s settled) {
		t.Helper()
		r.post(path, body, &s)
		return s
	}
	one := r.grant(`{"pool": "units", "units": 5, "id": "one"}`).Token
	if got := say("/v1/settle", `{"token": "`+one+`", "units": 3}`); got != (settled{ID: "one", Back: 2}) {
		t.Errorf("settled to less: %+v", got)
	}
	for _, path := range []string{"/v1/settle", "/v1/release"} {
		body := `{"token": "` + one + `"}`
		if path == "/v1/settle" {
			body = `{"token": "` + one + `", "units": {"units": 9}}`
		}
		if got := say(path, body); got != (settled{ID: "one", Back: 2, Repeat: true}) {
			t.Errorf("%s again: %+v", path, got)
		}
	}
	two := r.grant(`{"method": "order.put"}`).Token
	for body, says := range map[string]string{
		`"units": 5`:                                 `the call charged orders and units; send the units of each, such as {"orders": 1, ...}`,
		`"units": {}`:                                `the units of pool "orders" are missing`,
		`"units": {"units": 5}`:                      `the units of pool "orders" are missing; the call charged orders, units`,
		`"units": {"units": 5, "searches": 1}`:       `the units of pool "orders" are missing`,
		`"units": {"units": -1, "orders": 1}`:        "units of units must be 0 to 9007199254740991",
		`"units": {"units": 1, "orders": 1, "a": 0}`: `the call did not charge pool "a"; it charged orders, units`,
	} {
		if p := r.refuse(http.StatusUnprocessableEntity, "bad_input", "/v1/settle", `{"token": "`+two+`", `+body+`}`); !strings.Contains(p.Detail, says) {
			t.Errorf("%s: it says %q, not %q", body, p.Detail, says)
		}
	}
	if got := say("/v1/settle", `{"token": "`+two+`", "units": {"units": 1, "orders": 2}}`); got.Back != 3 || got.Charged != 1 {
		t.Errorf("settled by pool: %+v", got)
	}
	three := r.grant(`{"method": "order.put"}`).Token
	if got := say("/v1/release", `{"token": "`+three+`"}`); got.Back != 5 {
		t.Errorf("released: %+v", got)
	}
	if used := r.used(); used != 4 {
		t.Errorf("%d units are used, want 3 and 1", used)
	}
	here, err := r.Ledger.Reserve(t.Context(), quota.Call{Method: "item.get"}) // another program's token
	r.Must(err)
	if got := say("/v1/release", `{"token": "`+here.Token().String()+`"}`); got.Back != 1 {
		t.Errorf("released another program's: %+v", got)
	}
}

// TestSlots takes the two slots of a pool again and again: they come back with the end of a call, or after their ttl.
func TestSlots(t *testing.T) {
	r := newDecider(t, nil)
	costs, err := book.Parse("test", []byte(`
revision: 2
upstreams:
  shop:
    pools:
      units: {quota: 100, windows: [{per: 10s}]}
      orders: {quota: 100, windows: [{per: 10s}]}
      slots: {windows: [{in_flight: 2, ttl: 1s}]}
      long: {windows: [{in_flight: 2, ttl: 1h}]}
    methods:
      order.put: {charge: {units: 4, orders: 1, long: 1}}
`), nil)
	r.Must(err)
	r.Must(r.Ledger.SetBook(costs))
	r.token(theToken)
	const put, watch = `{"method": "order.put"}`, `{"pool": "long"}`
	for range 2 {
		one, two := r.grant(put).Token, r.grant(watch).Token
		r.refuse(http.StatusTooManyRequests, "refused", "/v1/reserve", put)
		r.post("/v1/settle", `{"token": "`+one+`", "units": {"units": 3, "orders": 1}}`, new(any))
		r.post("/v1/release", `{"token": "`+two+`"}`, new(any))
		one, two = r.grant(put).Token, r.grant(watch).Token
		for _, token := range []string{one, two} {
			r.post("/v1/release", `{"token": "`+token+`"}`, new(any))
		}
	}
	r.grant(`{"pool": "slots", "units": 2}`)
	end := time.Now().Add(time.Minute)
	for used := int64(2); used > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d slots are taken long after their ttl", used)
		}
		all, err := r.Ledger.View().Usage(t.Context(), "shop", "")
		r.Must(err)
		for _, u := range all {
			if u.Pool.Name == "slots" {
				used = u.Allowances[0].Used
			}
		}
	}
}

func TestTokensOfReservations(t *testing.T) {
	r := newDecider(t, nil)
	r.refuse(http.StatusUnprocessableEntity, "bad_input", "/v1/settle", `{"token": "x"}`)
	own := r.grant(`{"pool": "units"}`).Token
	bare, _, _ := strings.Cut(own, ".")
	for _, token := range []string{"", "x", "e30.units", strings.Repeat("A", 50_000), bare + ".", bare + ".units.", bare + ".a" + strings.Repeat(".a", 16), bare + ".units.units"} {
		r.refuse(http.StatusBadRequest, "malformed_token", "/v1/release", `{"token": "`+token+`"}`)
	}
	r.refuse(http.StatusBadRequest, "malformed_token", "/v1/release", `{}`)
	if p := r.refuse(http.StatusUnprocessableEntity, "bad_input", "/v1/settle", `{"token": "`+bare+`", "units": 1}`); !strings.Contains(p.Detail, `as {"units": 1}`) {
		t.Errorf("a number, of a token that names no pool: it says %q", p.Detail)
	}
	// a name that the token says is not believed
	if p := r.refuse(http.StatusUnprocessableEntity, "bad_input", "/v1/settle", `{"token": "`+bare+`.orders", "units": 1}`); !strings.Contains(p.Detail, "the call charged units") {
		t.Errorf("the token's pool was changed: it says %q", p.Detail)
	}
	var done struct{ Charged int64 }
	if r.post("/v1/settle", `{"token": "`+bare+`", "units": {"units": 3}}`, &done); done.Charged != 2 {
		t.Errorf("by pool, of a token that names none: %+v", done)
	}
	stranger := quota.Token{Upstream: "shop", Account: "default", ID: "x"}
	r.refuse(http.StatusGone, "no_receipt", "/v1/release", `{"token": "`+stranger.String()+`.units"}`)
	old := r.grant(`{"pool": "units"}`).Token
	r.Clock.Advance(quota.ReceiptLife + time.Second)
	r.refuse(http.StatusGone, "no_receipt", "/v1/release", `{"token": "`+old+`"}`)
}
