package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/book"
)

// A reservation over HTTP says its bill. It is settled beside the pools, or stands, and comes back with a release.
func TestBillsOverHTTP(t *testing.T) {
	r := newDecider(t, nil)
	costs, err := book.Parse("test", []byte(strings.NewReplacer(
		"revision: 1", "revision: 1\nbudgets: {all: {quota: 1 USD, windows: [{per: month}], of: shop}}",
		"item.get: {charge: {units: 1}}", "item.get: {charge: {units: 1}, bill: 0.30 USD}",
	).Replace(shop)), nil)
	r.Must(err)
	r.Must(r.Ledger.SetBook(costs))
	r.token(theToken)
	spent := func(want int64) {
		t.Helper()
		all, err := r.Ledger.View().Usage(t.Context(), book.Budgets, "")
		r.Must(err)
		if got := all[0].Windows[0].Used; got != want {
			t.Errorf("%d millionths are spent, want %d", got, want)
		}
	}
	v := r.grant(`{"method": "item.get"}`)
	if v.Bill == nil || *v.Bill != 300_000 || len(v.Charges) != 1 {
		t.Errorf("%+v", v)
	}
	spent(300_000)
	var done map[string]any
	r.post("/v1/settle", fmt.Sprintf(`{"token": %q, "units": {"units": 1, "USD": 120001}}`, v.Token), &done)
	spent(120_001)
	r.post("/v1/settle", fmt.Sprintf(`{"token": %q, "units": 1}`, r.grant(`{"method": "item.get"}`).Token), &done)
	spent(420_001)
	r.post("/v1/release", fmt.Sprintf(`{"token": %q}`, r.grant(`{"method": "item.get"}`).Token), &done)
	spent(420_001)
	r.grant(`{"charges": {"units": 1, "USD": 500000}}`)
	p := r.refuse(http.StatusTooManyRequests, "refused", "/v1/reserve", `{"method": "item.get"}`)
	if p.Pool != "budgets/all" || p.Remaining != 79_999 || !strings.Contains(p.Detail, "0.079999 USD left and 0.30 USD asked for") {
		t.Errorf("%+v", p)
	}
	r.refuse(http.StatusUnprocessableEntity, "unpriced", "/v1/reserve", `{"method": "order.put"}`)
	r.refuse(http.StatusUnprocessableEntity, "bad_input", "/v1/reserve", `{"upstream": "budgets", "charges": {"all": 1}}`)
	spent(920_001)
}
