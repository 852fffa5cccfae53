package notify

import (
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

const stepsBook = `
revision: 1
budgets: {all: {quota: 20 USD, windows: [{per: day}], of: llm, then: [{at: 30%}, {at: 90%, slow: 0.10 USD, per: 1h}]}}
upstreams: {llm: {pools: {calls: {quota: 1000, windows: [{per: 1m}]}}, methods: {ask: {cost: 1, bill: 0.50 USD}}}}
`

// TestStepsOfABudgetAreTold: a step of a budget is told to all who are told of shares, whatever their own share is, and
// again when it is over. The page says what the budget does to calls, and names its rate while that refuses them.
func TestStepsOfABudgetAreTold(t *testing.T) {
	to := newReceiver(t)
	r := newRig(t, map[string]Target{"ops": {Webhook: to.URL, Share: 99}})
	b, err := book.Parse("costs.yaml", []byte(stepsBook), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.ledger, err = quota.New(b, memstore.New(&memstore.Options{Clock: r.clock}), &quota.Options{Clock: r.clock}); err != nil {
		t.Fatal(err)
	}
	r.inputs.Sources = &view.Sources{Ledger: r.ledger, Catalog: r.catalog}
	w := r.watcher(r.catalog)
	spend := func(cents int64) {
		t.Helper()
		if _, err := r.ledger.Reserve(t.Context(), quota.Call{Upstream: "llm", Method: "ask", Estimate: quota.Units{book.Money: cents * 10_000}}); err != nil {
			t.Fatal(err)
		}
		w.Look(t.Context())
	}
	notes := func() (text string) {
		is := r.inputs.Facts.Read(t.Context(), r.inputs.Sources)
		v := is.Verdict()
		for _, n := range v.Notes {
			text += n.Says.String() + "\n"
		}
		return text
	}
	for _, step := range []struct {
		cents int64
		told  int
		says  string
		slow  bool
	}{
		{590, 0, "", false},
		{10, 1, "budgets/all: 30% of day UTC is used, 6.00 USD of 20.00 USD; from 30% on, people are told", false},
		{1190, 1, "", false},
		{10, 2, "budgets/all: 90% of day UTC is used, 18.00 USD of 20.00 USD; from 90% on, calls spend at most 0.10 USD in 1h", true},
		{0, 2, "", true},
	} {
		spend(step.cents)
		if n := to.told(t); n != step.told || !strings.Contains(string(to.body), step.says) {
			t.Errorf("after %d cents %d things were told, want %d: %s", step.cents, n, step.told, to.body)
		}
		if got := notes(); strings.Contains(got, "budgets/all has passed a step: from 90% on, calls spend at most 0.10 USD in 1h") != step.slow {
			t.Errorf("after %d cents: %s", step.cents, got)
		}
	}
	word := func(want, says string) {
		t.Helper()
		if v := r.inputs.Facts.Read(t.Context(), r.inputs.Sources).Verdict(); v.Word != want || !strings.Contains(v.Says.String(), says) {
			t.Errorf("%s: %s, want %s", v.Word, v.Says.String(), want)
		}
	}
	word("Used up", "Calls that need budgets/all-from-90 are refused") // more was spent in this hour
	r.clock.Advance(time.Hour + 2*time.Minute)
	word("Nearly used up", "")
	spend(10)
	word("Used up", "Calls that need budgets/all-from-90 are refused")
	if n := to.told(t); n != 2 {
		t.Errorf("%d things were told of a rate that is used up again and again", n)
	}
	rate := quota.Pool{Upstream: book.Budgets, Account: quota.DefaultAccount, Name: "all-from-90"}
	if err := r.ledger.Block(t.Context(), rate, r.clock.Now().Add(2*time.Hour), "stop it"); err != nil {
		t.Fatal(err)
	}
	w.Look(t.Context())
	if n := to.told(t); n != 3 || !strings.Contains(string(to.body), "stop it") {
		t.Errorf("a block of the rate: %d things were told: %s", n, to.body)
	}
	word("Blocked", "budgets/all-from-90")
	r.clock.Advance(24 * time.Hour)
	w.Look(t.Context())
	if n := to.told(t); n != 6 || notes() != "" {
		t.Errorf("on the next day %d things were told: %s", n, notes())
	}
	word("Available", "")
}
