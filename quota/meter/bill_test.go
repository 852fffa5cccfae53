package meter_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

const billPrices = `
revision: 1
budgets:
  all: {quota: 1 USD, windows: [{per: month}], of: model}
  agent: {quota: 0.80 USD, windows: [{per: month}], of: model, by: {call: caller, default: nobody}}
  user: {quota: 0.50 USD, windows: [{per: month}], of: model, by: {header: X-User, default: nobody}}
upstreams:
  model:
    mode: MODE
    hosts: [model.example.com]
    free: [{status: 429, pools: USD}, {status: 304}]
    pools: {requests: {quota: 100, windows: [{per: 10m}]}}
    prices:
      by: {body: model}
      default: DEFAULT
      cases: {big: {in: 100 USD, cached: 10 USD, out: 1000 USD}, small: {in: 1 USD, cached: 0.10 USD, out: 10 USD}}
    methods:
      ask:
        route: POST /ask
        cost: 1
        bill:
          estimate: [{bytes: body, price: in}, {body: max, default: 100, copies: n, price: out}]
          actual: [{body: used.in, less: used.cached, price: in}, {body: used.cached, default: 0, price: cached}, {body: used.out, price: out}]
      odd: {route: POST /odd, cost: 1}
`

// newBilled starts a rig of an upstream with budgets.
func newBilled(t *testing.T, mode, otherwise, answer string) *rig {
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		status := 200
		if code := req.Header.Get("X-Answer"); code != "" {
			_, _ = fmt.Sscan(code, &status)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}, nil)
	r.ledger = newLedger(t, strings.NewReplacer("MODE", mode, "DEFAULT", otherwise).Replace(billPrices), r.clock)
	r.meter(nil)
	return r
}

func (r *rig) ask(body string, headers ...string) error {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), "POST", "http://model.example.com/ask", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	r.flush()
	return err
}

// billed checks what is spent of the budget of all.
func (r *rig) billed(when string, want int64) {
	r.t.Helper()
	if got := r.used("budgets/all"); got != want {
		r.t.Errorf("%s: %d millionths are spent, want %d", when, got, want)
	}
}

func TestBills(t *testing.T) {
	r := newBilled(t, "enforce", "refuse", `{"used":{"in":30,"cached":10,"out":7}}`)
	send := func(body string, headers ...string) {
		t.Helper()
		if err := r.ask(body, headers...); err != nil {
			t.Error(err)
		}
	}
	send(`{"model":"small","max":50,"n":2}`, "X-User", "ann")
	r.billed("settled", 20+1+70)
	send(`{"model":"big"}`, "X-User", "ann")
	r.billed("another model", 91+2000+100+7000)
	send(`{"model":"small","max":50}`, "X-Answer", "429") // that costs no money
	r.billed("refused by the upstream", 9191)
	send(`{"model":"small","max":50}`, "X-Answer", "304")
	r.billed("free", 9191)
	for _, bad := range []string{`{"model":"tiny","max":50}`, `{"max":50}`, `{"model":"big","model":"small"}`} {
		if err := r.ask(bad); err == nil || r.used("model/requests") != 3 {
			t.Errorf("%s is sent: %v", bad, err)
		}
	}
	if err := r.ask(`{"model":"tiny"}`); !errors.Is(err, quota.ErrUnpriced) || !strings.Contains(err.Error(), `"tiny" has no price in money; add it to the cases of prices of model`) {
		t.Error(err)
	}
	if _, _, err := r.do(t.Context(), "POST", "http://model.example.com/odd", "{}"); !errors.Is(err, quota.ErrUnpriced) {
		t.Error(err)
	}
	r.billed("not sent", 9191)
	// 0.50 is the user's, and 250 tokens of two answers could cost 0.50 and more.
	if err := r.ask(`{"model":"big","max":250,"n":2}`, "X-User", "bob"); !errors.Is(err, quota.ErrImpossible) {
		t.Error(err)
	}
	if err := r.ask(`{"model":"big","max":490}`, "X-User", "ann"); !errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), "budgets/user:ann") {
		t.Error(err)
	}
	send(`{"model":"big","max":490}`, "X-User", "bob")
	r.billed("of another user", 9191+9100)
	spent, err := r.ledger.View().Spend(t.Context(), quota.SpendQuery{Upstream: book.Budgets}, quota.ByModel)
	if err != nil {
		t.Fatal(err)
	}
	models := map[string]int64{}
	for _, s := range spent {
		models[s.Pool.Name+" "+s.Model] = s.Units
	}
	if models["all big"] != 9100+9100 || models["all small"] != 91 {
		t.Errorf("by model: %v", models)
	}
}

// A bound of a run counts its bills by budget, and not among its units.
func TestBillsOfARun(t *testing.T) {
	r := newBilled(t, "enforce", "refuse", `{"used":{"in":30,"cached":10,"out":7}}`)
	b := meter.NewBudget(10)
	spent := func(when string, requests, millionths int64) {
		t.Helper()
		r.flush()
		want := map[string]int64{"model/requests": requests, "budgets/all": millionths, "budgets/agent": millionths, "budgets/user": millionths}
		if requests == 0 {
			want = map[string]int64{}
		}
		if got := b.Pools(); !maps.Equal(got, want) || b.Spent() != requests {
			t.Errorf("%s: %d units, %v, want %v", when, b.Spent(), got, want)
		}
	}
	ask := func(body string, headers ...string) error {
		req, err := http.NewRequestWithContext(meter.WithBudget(t.Context(), b), "POST", "http://model.example.com/ask", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		_, _, err = r.send(req)
		return err
	}
	if err := ask(`{"model":"big","max":250,"n":2}`); err == nil {
		t.Error("more than a user has was spent")
	}
	spent("refused", 0, 0)
	if err := ask(`{"model":"small","max":50,"n":2}`); err != nil {
		t.Fatal(err)
	}
	spent("settled", 1, 20+1+70)
	if err := ask(`{"model":"small","max":50}`, "X-Answer", "429"); err != nil {
		t.Fatal(err)
	}
	spent("free of money", 2, 91)
}

// A budget per caller goes by the name before the first slash of the job: that of the token.
func TestBillsOfCallers(t *testing.T) {
	r := newBilled(t, "enforce", "refuse", `{"used":{"in":30,"out":7}}`)
	for _, job := range []string{"etl", "etl/nightly", "etl/x/y", "web", ""} {
		req, err := http.NewRequestWithContext(meter.WithJob(t.Context(), job), "POST", "http://model.example.com/ask", strings.NewReader(`{"model":"small","max":50}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.send(req); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	for caller, want := range map[string]int64{"etl": 300, "web": 100, "nobody": 100} {
		if got := r.used("budgets/agent:" + caller); got != want {
			t.Errorf("%s has spent %d, want %d", caller, got, want)
		}
	}
	call := quota.Call{Upstream: "model", Method: "ask", Job: "etl/other", Keys: map[string]string{"budgets/user": "bob"}, Estimate: quota.Units{book.Money: 11}}
	if _, err := r.ledger.Reserve(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if got := r.used("budgets/agent:etl"); got != 311 {
		t.Errorf("etl has spent %d", got)
	}
}

// An answer without its usage keeps what was reserved. A model without a price costs the dearest, if the
// book says so.
func TestBillsThatNobodyHears(t *testing.T) {
	r := newBilled(t, "enforce", "dearest", `{"text":"none"}`)
	if err := r.ask(`{"model":"small","max":50}`); err != nil {
		t.Fatal(err)
	}
	r.billed("a model with a price", 26+500)
	if err := r.ask(`{"model":"tiny","max":50}`); err != nil {
		t.Fatal(err)
	}
	r.billed("the dearest", 526+2500+50_000)
}

// With mode observe, a call is sent whatever it costs, and what has a price is counted.
func TestBillsThatAreObserved(t *testing.T) {
	r := newBilled(t, "observe", "refuse", `{"used":{"in":30,"out":900}}`)
	for range 2 {
		if err := r.ask(`{"model":"big","max":5000}`); err != nil {
			t.Fatal(err)
		}
	}
	r.billed("past the limit", 2*(3000+900_000))
	if err := r.ask(`{"model":"tiny","max":5000}`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.do(t.Context(), "POST", "http://model.example.com/odd", "{}"); err != nil {
		t.Error(err)
	}
	r.billed("a model without a price costs the dearest", 3*903_000)
}

// keyed is a book in which alice and the job etl alone have budgets.
const keyed = `
revision: 1
budgets:
  vip: {quota: none, windows: [{per: month}], of: model, by: {header: X-User}, keys: {alice: 0.50 USD}}
upstreams:
  model:
    hosts: [model.example.com]
    pools: {requests: {quota: 100, windows: [{per: 10m}]}}
    prices: {by: {body: model}, cases: {small: {in: 1 USD}, small from DAY: {in: 10 USD}}}
    methods:
      ask: {route: POST /ask, cost: 1, bill: {estimate: [{bytes: body, price: in}, {body: max, default: 100, copies: n, price: in}], actual: [{body: used.in, price: in}]}}
      odd: {route: POST /odd, cost: 1}
`

// A key that has a budget pays for each call. Its calls of a method without a bill are refused, and those of others are not.
func TestKeysWithABudgetPayForEachCall(t *testing.T) {
	r := newBilled(t, "enforce", "refuse", `{"used":{"in":30}}`)
	r.ledger = newLedger(t, strings.Replace(keyed, "DAY", "2099-01-01", 1), r.clock)
	r.meter(nil)
	odd := func(user string) error {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://model.example.com/odd", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-User", user)
		resp, err := r.client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	if err := odd("alice"); !errors.Is(err, quota.ErrUnpriced) || !strings.Contains(err.Error(), "budget vip needs one") {
		t.Errorf("alice: %v", err)
	}
	if err := odd("bob"); err != nil {
		t.Errorf("bob: %v", err)
	}
}

// A bill that goes by the caller does not change what others may send.
func TestABudgetOfAnotherCallerReadsNothing(t *testing.T) {
	r := newBilled(t, "enforce", "refuse", `{"used":{"in":30}}`)
	r.ledger = newLedger(t, strings.NewReplacer("DAY", "2099-01-01", "by: {header: X-User}", "by: {call: caller}").Replace(keyed), r.clock)
	for job, refused := range map[string]bool{"alice": true, "bob": false} {
		r.meter(nil)
		_, _, err := r.do(meter.WithJob(t.Context(), job), "POST", "http://model.example.com/ask", `{"model":"tiny","model":"small"`)
		if (err != nil) != refused {
			t.Errorf("the body of %s, which is no JSON: %v", job, err)
		}
	}
}

// A number above any quota is impossible, and not the default. Of no copies, one may be made.
func TestEnormousMaximum(t *testing.T) {
	r := newBilled(t, "enforce", "refuse", `{"used":{"in":0,"out":0}}`)
	for _, most := range []string{"9007199254740991", "9007199254740992", "9223372036854775807", "1e30", "99999999999999999999999"} {
		if err := r.ask(`{"model":"small","max":` + most + `}`); !errors.Is(err, quota.ErrImpossible) {
			t.Errorf("at most %s: %v", most, err)
		}
	}
	if err := r.ask(`{"model":"big","max":1000,"n":0}`); !errors.Is(err, quota.ErrImpossible) { // 1 USD and more
		t.Errorf("no copies: %v", err)
	}
}

// The price of a call that waits may change meanwhile: it reserves the higher one, and settles to that of the time at
// which it is sent.
func TestAPriceThatMayChangeInAWait(t *testing.T) {
	day := time.Now().UTC().Add(48 * time.Hour)
	r := newBilled(t, "enforce", "refuse", "")
	r.ledger = newLedger(t, strings.Replace(keyed, "DAY", day.Format(time.DateOnly), 1), r.clock)
	spent := func() (n int64) {
		all, err := r.ledger.View().Usage(t.Context(), book.Budgets, "")
		if err != nil {
			t.Error(err)
		}
		for _, u := range all {
			n += u.Allowances[0].Used
		}
		return n
	}
	reserved := int64(-1)
	base := meterBase(func(*http.Request) (*http.Response, error) {
		reserved = spent()
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"used":{"in":30}}`))}, nil
	})
	for wait, want := range map[time.Duration]int64{0: 36 + 70, 72 * time.Hour: 10 * (36 + 70)} {
		r.meter(&meter.Options{MaxWait: wait, Base: base})
		before := spent()
		if err := r.ask(`{"model":"small","max":70,"t":"..."}`, "X-User", "alice"); err != nil {
			t.Fatal(err)
		}
		if reserved-before != want {
			t.Errorf("with a wait of %s it reserves %d, want %d", wait, reserved-before, want)
		}
		if n := spent() - before; n != 30 {
			t.Errorf("with a wait of %s it is settled to %d, want 30", wait, n)
		}
	}
}

type meterBase func(*http.Request) (*http.Response, error)

func (f meterBase) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
