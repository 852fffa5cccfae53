package web_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

const theToken = "RECOGNISE0me0wherever0I0am"

var withToken = []string{"Authorization", "Bearer " + theToken}

// newDecider is a rig whose server has a token, and the price book of a shop.
func newDecider(t testing.TB, o *web.Options) *rig {
	t.Helper()
	r := newRig(t, o)
	costs, err := book.Parse("test", []byte(shop), nil)
	r.Must(err)
	r.Must(r.Ledger.SetBook(costs))
	r.token(theToken)
	return r
}

// token replaces the token of the server; "" removes it.
func (r *rig) token(text string) {
	r.Helper()
	src := web.Sources{Sources: view.Sources{Ledger: r.Ledger, Catalog: r.Catalog, Runner: r.Runner, Jobs: r.Config.List()}}
	if text != "" {
		token, err := access.New("", text, access.Rights...)
		r.Must(err)
		src.Tokens = []*access.Token{token}
	}
	r.Must(r.server.Update(src, r.Ledger.Book()))
}

// post asks for a decision that must be granted.
func (r *rig) post(path, body string, into any) {
	r.Helper()
	a := r.ask("POST", path, body, withToken...)
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "application/json" || a.Header.Get("Cache-Control") != "no-store" {
		r.Fatalf("%s %s: %s, %s", path, body, a.Status, a.body)
	}
	r.Must(json.Unmarshal([]byte(a.body), into))
}

// grant reserves what must be granted.
func (r *rig) grant(body string) (v problem.Verdict) {
	r.Helper()
	r.post("/v1/reserve", body, &v)
	return v
}

// refuse asks for what must be refused with a status and a code.
func (r *rig) refuse(status int, code, path, body string) problem.Problem {
	r.Helper()
	p := r.problem(status, "POST", path, body, withToken...)
	if p.Code != code {
		r.Errorf("%s %s: the code is %q, want %q: %s", path, body, p.Code, code, p.Detail)
	}
	return p
}

// used is what the first window of the pool of the shop counts.
func (r *rig) used() int64 {
	r.Helper()
	var got struct{ Pools []view.Pool }
	a := r.ask("GET", "/v1/pools", "", withToken...)
	r.Must(json.Unmarshal([]byte(a.body), &got))
	for _, p := range got.Pools {
		if p.Pool == "shop/units" {
			return p.Windows[0].Used
		}
	}
	r.Fatalf("there is no pool of the shop in %s", a.body)
	return 0
}

const shop = `
revision: 1
upstreams:
  shop:
    classes: {backfill: {keep_free: 50%}}
    accounts: {default: {}, staging: {}}
    pools:
      units: {quota: 12, headroom: 2, windows: [{per: 10s}]}
      orders: {quota: 5, windows: [{per: 10s}]}
    methods:
      item.get: {charge: {units: 1}}
      order.put: {charge: {units: 4, orders: 1}}
families:
  visitor: {quota: 3, windows: [{per: 10s}]}
`

func TestReserve(t *testing.T) {
	r := newDecider(t, nil)
	v := r.grant(`{"method": "item.get", "job": "import", "region": "DE", "id": "a"}`)
	want := problem.Verdict{
		Allowed: true, ID: "a", Token: v.Token, Charges: map[string]int64{"units": 1}, Pool: "shop/units", Window: "10s",
		Units: 1, Used: 1, Limit: 10, Remaining: 9, ResetAt: v.ResetAt, At: v.At,
	}
	if got, all := encoded(t, v), encoded(t, want); got != all || v.Token == "" || v.ResetAt == nil || !v.At.Equal(noon) {
		t.Errorf("granted %s\nwant    %s", got, all)
	}
	if again := r.grant(`{"method": "item.get", "id": "a"}`); !again.Repeat || again.Token != v.Token || again.Used != 1 {
		t.Errorf("the same id again: %+v", again)
	}
	if v := r.grant(`{"pool": "units", "units": 3}`); v.Used != 4 || v.ID == "" {
		t.Errorf("a pool: %+v", v)
	}
	if v := r.grant(`{"pool": "shop@default/units"}`); v.Used != 5 || v.Units != 1 {
		t.Errorf("a pool by its whole name: %+v", v)
	}
	if v := r.grant(`{"charges": {"units": 1, "orders": 2}}`); v.Charges["orders"] != 2 || v.Pool != "shop/orders" {
		t.Errorf("two pools: %+v", v)
	}
	if v := r.grant(`{"family": "visitor", "key": "ann", "units": 2}`); v.Pool != "visitor:ann" || v.Remaining != 1 || v.Token != "" {
		t.Errorf("a family: %+v", v)
	}
	if v := r.grant(`{"upstream": "shop", "account": "staging", "method": "item.get", "class": "backfill"}`); v.Pool != "shop@staging/units" || v.Limit != 5 {
		t.Errorf("an account, and a class: %+v", v)
	}
	spent, err := r.Ledger.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByJob, quota.ByRegion, quota.ByMethod)
	r.Must(err)
	found := false
	for _, s := range spent {
		found = found || s.Labels == quota.Labels{Method: "item.get", Job: "import", Region: "DE"}
	}
	if !found {
		t.Errorf("the labels are not in the spend: %+v", spent)
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The status tells why a call is not granted, and the code tells it more exactly.
func TestWhatIsNotGranted(t *testing.T) {
	r := newDecider(t, nil)
	r.grant(`{"pool": "units", "units": 9, "id": "a"}`)
	r.Clock.Advance(2500 * time.Millisecond)
	p := r.refuse(http.StatusTooManyRequests, "refused", "/v1/reserve", `{"pool": "units", "units": 2, "id": "b"}`)
	if p.Verdict == nil || p.Allowed || p.ID != "b" || p.Pool != "shop/units" || p.Window != "10s" || p.Units != 2 || p.Used != 9 || p.Limit != 10 ||
		p.Remaining != 1 || p.Verdict.RetryAfter != 8.5 || !p.RetryAt.Equal(noon.Add(11*time.Second)) || p.Token != "" {
		t.Errorf("refused: %s", encoded(t, p))
	}
	a := r.ask("POST", "/v1/reserve", `{"pool": "units", "units": 2}`, withToken...)
	wait, err := strconv.Atoi(a.Header.Get("Retry-After"))
	r.Must(err)
	if wait != 9 {
		t.Errorf("Retry-After is %d, 8.5 rounded up is 9", wait)
	}
	r.Clock.Advance(8499 * time.Millisecond)
	r.refuse(http.StatusTooManyRequests, "refused", "/v1/reserve", `{"pool": "units", "units": 2}`)
	r.Clock.Advance(time.Millisecond)
	r.grant(`{"pool": "units", "units": 2}`)

	r.Must(r.Ledger.BlockFor(t.Context(), quota.Pool{Upstream: "shop", Name: "orders"}, 90*time.Second, "the shop is shut"))
	p = r.refuse(http.StatusTooManyRequests, "blocked", "/v1/reserve", `{"method": "order.put"}`)
	if !p.Blocked || p.Reason != "the shop is shut" || p.Verdict.RetryAfter != 90 {
		t.Errorf("blocked: %s", encoded(t, p))
	}
	p = r.refuse(http.StatusUnprocessableEntity, "impossible", "/v1/reserve", `{"pool": "units", "units": 11, "id": "d"}`)
	if !p.Impossible || p.ID != "d" || p.Limit != 10 || p.Units != 11 || p.Pool != "shop/units" {
		t.Errorf("impossible: %s", encoded(t, p))
	}
	p = r.refuse(http.StatusUnprocessableEntity, "unpriced", "/v1/reserve", `{"method": "item.got"}`)
	if strings.Join(p.Known, " ") != "item.get order.put" || !strings.Contains(p.Detail, `did you mean "item.get"`) {
		t.Errorf("unpriced: %s", encoded(t, p))
	}
	r.grant(`{"pool": "units", "id": "c"}`)
	r.refuse(http.StatusConflict, "other_charges", "/v1/reserve", `{"pool": "units", "units": 2, "id": "c"}`)
	for body, says := range map[string]string{
		`{"pool": "unit"}`:                             "the price book has orders, units",
		`{"pool": "mall/units"}`:                       "the price book has shop",
		`{"pool": "a/b/c"}`:                            "is not written upstream/pool",
		`{"pool": "shop/units", "upstream": "shop"}`:   "leave those fields out",
		`{"family": "visitors", "key": "ann"}`:         "the price book has visitor",
		`{"family": "visitor"}`:                        "the key is empty",
		`{"family": "visitor", "key": "a", "id": ""}`:  "id is empty",
		`{"family": "visitor", "key": "a", "id": "a"}`: "a family keeps no receipts",
		`{"pool": "units", "id": ""}`:                  "id is empty",
		`{"method": "item.get", "class": "nope"}`:      "the price book has backfill",
		`{"method": "item.get", "account": "nope"}`:    "the price book has default, staging",
		`{"method": "item.get", "units": 1}`:           "the price book has the price of a method",
		`{"method": "item.get", "pool": "units"}`:      "not method and pool",
		`{}`:                            "send exactly one of method, pool, charges and family, not none",
		`{"pool": "units", "units": 0}`: "units must be 1 or more",
		`{"pool": "units", "units": 9223372036854775807}`: "units must be 1 to 9007199254740991",
		`{"charges": {}}`: "charges are empty",
		`{"method": "item.get", "outage": "maybe"}`:                         "neither refuse nor admit",
		`{"method": "item.get", "job": "` + strings.Repeat("x", 129) + `"}`: "at most 128",
		`{"method": "item.get", "id": "` + strings.Repeat("x", 129) + `"}`:  "1 to 128 printable bytes",
	} {
		if p := r.refuse(http.StatusUnprocessableEntity, "bad_input", "/v1/reserve", body); !strings.Contains(p.Detail, says) {
			t.Errorf("%s: it says %q, not %q", body, p.Detail, says)
		}
	}
}

func TestRequestsAreReadStrictly(t *testing.T) {
	r := newDecider(t, nil)
	for body, says := range map[string]string{
		``:                                      "unexpected end",
		`{"method": "item.get"`:                 "unexpected end",
		`{"method": "item.get"} {}`:             "line 1, column 24: invalid character '{' after top-level value",
		"{\n  \"method\": item.get}":            "line 2, column 13: invalid character",
		`7`:                                     "it must be an object",
		`"item.get"`:                            "it must be an object",
		`{"methods": "item.get"}`:               "unknown field \"methods\"; the fields are account,",
		`{"Method": "item.get"}`:                "unknown field \"Method\"",
		`{"method": "a", "method": "item.get"}`: "\"method\" is there twice",
		`{"method": 1}`:                         "method must be a string, not number",
		`{"method": null}`:                      "method is null; leave it out",
		`{"pool": "units", "units": "5"}`:       "units must be a whole number, not string",
		`{"pool": "units", "units": 1.5}`:       "units must be a whole number, not number 1.5",
		`{"pool": "units", "units": 99999999999999999999}`: "units must be a whole number",
		`{"charges": 5}`:                        "an object of whole numbers",
		`{"charges": {"units": "5"}}`:           "charges: units must be a whole number",
		`{"charges": {"units": 1, "units": 5}}`: "charges: \"units\" is there twice",
		"{\"method\": \"item.get\xff\"}":        "not UTF-8",
		strings.Repeat("[", 60_000):             "exceeded max depth",
	} {
		if p := r.refuse(http.StatusBadRequest, "", "/v1/reserve", body); !strings.Contains(p.Detail, says) {
			t.Errorf("%.80s: it says %q, not %q", body, p.Detail, says)
		}
	}
	r.refuse(http.StatusRequestEntityTooLarge, "", "/v1/reserve", `{"method": "`+strings.Repeat("x", 64<<10)+`"}`)
	if used := r.used(); used != 0 {
		t.Errorf("%d units are used", used)
	}
}

func TestPools(t *testing.T) {
	r := newDecider(t, nil)
	var got struct{ Pools []view.Pool }
	for query, want := range map[string]int{"": 4, "?account=staging": 2, "?upstream=shop&account=default": 2} {
		a := r.ask("GET", "/v1/pools"+query, "", withToken...)
		r.Must(json.Unmarshal([]byte(a.body), &got))
		if len(got.Pools) != want {
			t.Errorf("%s: %s", query, a.body)
		}
	}
	if p := r.problem(http.StatusUnprocessableEntity, "GET", "/v1/pools?upstream=mall", "", withToken...); !strings.Contains(p.Detail, "the price book has shop") {
		t.Errorf("it says %q", p.Detail)
	}
	r.problem(http.StatusBadRequest, "GET", "/v1/pools?pool=units", "", withToken...)
	r.problem(http.StatusMethodNotAllowed, "GET", "/v1/reserve", "", withToken...)
}

// TestCallersHaveAName on the first page, as jobs have.
func TestCallersHaveAName(t *testing.T) {
	r := newDecider(t, nil)
	if a := r.ask("POST", "/v1/reserve", `{"method": "item.get", "job": "python-etl"}`, withToken...); a.StatusCode != http.StatusOK {
		t.Fatal(a.Status, a.body)
	}
	if a := r.ask("GET", "/", ""); !strings.Contains(a.body, "python-etl</th>") || strings.Contains(a.body, "not named") {
		t.Errorf("it is not named:\n%s", a.body)
	}
}
