package web_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// asked is a request of a decision, and the status that it gets.
type asked struct {
	request string
	body    string
	status  int
}

// TestOpenAPIDecisions holds real answers of the decision service against the document:
// of every status that it has for a route.
func TestOpenAPIDecisions(t *testing.T) {
	r := newDecider(t, nil)
	costs, err := book.Parse("test", []byte(strings.Replace(shop, "    pools:\n", "    pools:\n      secret: {quota: {learn: {from: 100}}}\n", 1)), nil)
	r.Must(err)
	r.Must(r.Ledger.SetBook(costs))
	d, all := r.documented()
	operations, missing := map[string]operation{}, map[string]bool{}
	for _, o := range all {
		if !strings.HasPrefix(o.path, "/v1/") || strings.HasPrefix(o.path, "/v1/limits/") { // those need another store
			continue
		}
		operations[o.String()] = o
		for status := range o.is["responses"].(map[string]any) {
			missing[o.String()+" "+status] = status != "default"
		}
	}
	try := func(a asked, headers ...string) {
		t.Helper()
		method, path, _ := strings.Cut(a.request, " ")
		route, _, _ := strings.Cut(a.request, "?")
		r.answers(d, operations[route], a.status, r.ask(method, path, a.body, headers...))
		delete(missing, fmt.Sprint(route, " ", a.status))
	}
	token := r.grant(`{"charges": {"units": 2, "orders": 1}, "id": "b"}`).Token
	other := r.grant(`{"pool": "units"}`).Token
	stranger := quota.Token{Upstream: "shop", Account: "default", ID: "x"}.String()
	secret := r.grant(`{"pool": "secret"}`).Token
	large := `{"token": "` + strings.Repeat("x", 64<<10) + `"}`
	for _, a := range []asked{
		{"POST /v1/reserve", `{"method": "item.get", "id": "a"}`, http.StatusOK},
		{"POST /v1/reserve", `{"family": "visitor", "key": "ann"}`, http.StatusOK},
		{"POST /v1/reserve", `[{"method": "item.get"}, {"pool": "units", "units": 10}, {"pool": 1}, {"method": "item.got"}]`, http.StatusOK},
		{"POST /v1/reserve", `{"pool": "units", "units": 10}`, http.StatusTooManyRequests},
		{"POST /v1/reserve", `{"pool": "units", "units": 11}`, http.StatusUnprocessableEntity},
		{"POST /v1/reserve", `{"method": "item.got"}`, http.StatusUnprocessableEntity},
		{"POST /v1/reserve", `{"pool": "units", "id": "b"}`, http.StatusConflict},
		{"POST /v1/reserve", `{`, http.StatusBadRequest},
		{"POST /v1/reserve", large, http.StatusRequestEntityTooLarge},
		{"POST /v1/settle", `{"token": "` + token + `", "units": {"units": 1, "orders": 1}}`, http.StatusOK},
		{"POST /v1/settle", `{"token": "` + other + `", "units": -1}`, http.StatusUnprocessableEntity},
		{"POST /v1/settle", `{"token": "` + stranger + `", "units": {"units": 1}}`, http.StatusGone},
		{"POST /v1/settle", `{"token": "x", "units": 1}`, http.StatusBadRequest},
		{"POST /v1/settle", large, http.StatusRequestEntityTooLarge},
		{"POST /v1/release", `{"token": "` + strings.Replace(other, ".", ".orders.", 1) + `"}`, http.StatusUnprocessableEntity},
		{"POST /v1/release", `{"token": "` + other + `"}`, http.StatusOK},
		{"POST /v1/release", `{"token": "` + stranger + `"}`, http.StatusGone},
		{"POST /v1/release", `{}`, http.StatusBadRequest},
		{"POST /v1/release", large, http.StatusRequestEntityTooLarge},
		{"POST /v1/refused", `{"token": "` + secret + `", "retry_after": -1}`, http.StatusBadRequest},
		{"POST /v1/refused", `{"token": "` + secret + `", "retry_after": 30}`, http.StatusOK},
		{"POST /v1/refused", `{"token": "` + secret + `"}`, http.StatusGone},
		{"POST /v1/refused", `{"retry_after": "soon"}`, http.StatusBadRequest},
		{"POST /v1/refused", large, http.StatusRequestEntityTooLarge},
		{"GET /v1/pools", "", http.StatusOK},
		{"GET /v1/pools?upstream=shop&account=default", "", http.StatusOK},
		{"GET /v1/pools?upstream=none", "", http.StatusUnprocessableEntity},
		{"GET /v1/pools?none=1", "", http.StatusBadRequest},
	} {
		try(a, withToken...)
	}
	try(asked{"GET /v1/pools", "", http.StatusNotModified}, append([]string{"If-None-Match", "*"}, withToken...)...)
	everywhere := func(status int, headers ...string) {
		t.Helper()
		for _, request := range slices.Sorted(maps.Keys(operations)) {
			body := `{"token": "` + token + `"}`
			switch request {
			case "POST /v1/reserve":
				body = `{"method": "item.get"}`
			case "POST /v1/settle":
				body = `{"token": "` + token + `", "units": {"units": 1, "orders": 1}}`
			}
			if request == "POST /v1/refused" && status == http.StatusServiceUnavailable {
				continue // another ledger knows nothing of the call
			}
			try(asked{request, body, status}, headers...)
		}
	}
	everywhere(http.StatusUnauthorized)
	const powerless = "a-token-that-has-no-right-at-all-0123456789"
	none, err := access.New("none", powerless)
	r.Must(err)
	src := web.Sources{Sources: r.Sources(), Tokens: []*access.Token{none}}
	r.Must(r.server.Update(src, r.Ledger.Book()))
	everywhere(http.StatusForbidden, "Authorization", "Bearer "+powerless)
	r.token(theToken)
	for range 20 {
		r.ask("GET", "/v1/pools", "", "Authorization", "Bearer wrong")
	}
	everywhere(http.StatusTooManyRequests, "Authorization", "Bearer wrong")
	r.Clock.Advance(2 * time.Minute)
	r.lose()
	everywhere(http.StatusServiceUnavailable, withToken...)
	r.token("")
	everywhere(http.StatusNotFound, withToken...)
	maps.DeleteFunc(missing, func(_ string, is bool) bool { return !is })
	if len(missing) > 0 {
		t.Errorf("the document has answers that were not had: %v", slices.Sorted(maps.Keys(missing)))
	}
}
