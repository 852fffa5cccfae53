package quota_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// Two providers share a budget of one dollar a month, and every user has thirty cents of it.
const budgetBook = `
revision: 1
budgets:
  all: {quota: 1 USD, windows: [{per: month, zone: Europe/Berlin}], of: [big, small]}
  each: {quota: 0.30 USD, windows: [{per: month}], of: big, by: {header: X-User}, keys: {alice: 0.50 USD}}
upstreams:
  big:
    accounts: {default: {}, other: {}}
    pools: {calls: {quota: 3, windows: [{per: 1m}]}}
    methods: {ask: {cost: 1, bill: 0.10 USD}, list: {cost: 1, bill: 0 USD}, odd: 1}
  small:
    pools: {calls: {quota: 100, windows: [{per: 1m}]}}
    methods: {ask: {cost: 1, bill: 0.25 USD}}
`

// eachStore runs a test on a ledger in each of the stores that this package's tests have.
func eachStore(t *testing.T, test func(t *testing.T, clock *quota.SimClock, l *quota.Ledger)) {
	stores := map[string]func(*testing.T, *quota.SimClock) (quota.Store, error){
		"memory": func(_ *testing.T, clock *quota.SimClock) (quota.Store, error) {
			return memstore.New(&memstore.Options{Clock: clock}), nil
		},
		"SQLite": func(t *testing.T, clock *quota.SimClock) (quota.Store, error) {
			s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), &sqlitestore.Options{Clock: clock})
			if err == nil {
				t.Cleanup(func() { s.Close() })
			}
			return s, err
		},
		"Redis": func(t *testing.T, clock *quota.SimClock) (quota.Store, error) {
			server, err := redistest.Start(t.TempDir(), "--save", "", "--appendonly", "no")
			if err != nil {
				return nil, err
			}
			t.Cleanup(server.Kill)
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			t.Cleanup(func() { client.Close() })
			redisclock.Set(clock.Now)
			t.Cleanup(func() { redisclock.Set(nil) })
			return redisstore.New(client, nil)
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			clock := quota.NewSimClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
			store, err := open(t, clock)
			if err != nil {
				t.Fatal(err)
			}
			l, err := quota.New(mustParse(t, budgetBook), store, &quota.Options{Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			test(t, clock, l)
		})
	}
}

func spendOf(upstream, user string) quota.Call {
	c := quota.Call{Upstream: upstream, Method: "ask"}
	if user != "" {
		c.Keys = map[string]string{"budgets/each": user}
	}
	return c
}

// spent returns the millionths that a budget has spent.
func spent(t *testing.T, l *quota.Ledger, budget string) int64 {
	t.Helper()
	all, err := l.View().Usage(t.Context(), book.Budgets, "")
	if err != nil {
		t.Fatal(err)
	}
	name, key, _ := strings.Cut(budget, ":")
	for _, u := range all {
		if u.Pool.Name == name && u.Pool.Key == key {
			return u.Allowances[0].Used
		}
	}
	t.Fatalf("there is no budget %s in %v", budget, all)
	return 0
}

func TestBudgets(t *testing.T) {
	eachStore(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		one := must(t, l, spendOf("big", "bob"))
		if n, has := one.Bill(); n != 100_000 || !has || one.Charges()["calls"] != 1 || len(one.Charges()) != 1 {
			t.Errorf("bill %d, %t; charges %v", n, has, one.Charges())
		}
		must(t, l, spendOf("small", ""))
		expect := func(when string, all, bob int64) {
			t.Helper()
			if got := spent(t, l, "all"); got != all {
				t.Errorf("%s: %d spent of all, want %d", when, got, all)
			}
			if got := spent(t, l, "each:bob"); got != bob {
				t.Errorf("%s: %d spent of bob's, want %d", when, got, bob)
			}
		}
		expect("reserved", 350_000, 100_000)
		if _, err := one.Settle(t.Context(), quota.Units{"calls": 1, book.Money: 70_001}); err != nil {
			t.Fatal(err)
		}
		expect("settled", 320_001, 70_001)
		if _, err := l.Release(t.Context(), must(t, l, spendOf("big", "bob")).Token()); err != nil {
			t.Fatal(err)
		}
		expect("released by its token", 320_001, 70_001)
		left := must(t, l, spendOf("big", "bob"))
		if _, err := left.Settle(t.Context(), quota.Units{"calls": 1}); err != nil {
			t.Fatal(err)
		}
		expect("settled without the money", 420_001, 170_001)

		// Bob has 0.13 left. The whole budget has more.
		must(t, l, spendOf("big", "bob"))
		_, err := l.Reserve(t.Context(), spendOf("big", "bob"))
		var refused *quota.RefusedError
		if !errors.As(err, &refused) || refused.Pool.String() != "budgets/each:bob" || refused.Remaining != 29_999 {
			t.Fatalf("%v", err)
		}
		for _, want := range []string{"budgets/each:bob", "0.270001 USD of 0.30 USD spent in month UTC", "0.029999 USD left and 0.10 USD asked for", "2026-12-01T00:01:00Z"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v lacks %s", err, want)
			}
		}
		expect("refused", 520_001, 270_001)
		if _, checked := l.Check(t.Context(), spendOf("big", "bob")); !errors.As(checked, &refused) || refused.Pool.String() != "budgets/each:bob" {
			t.Errorf("checked: %v", checked)
		}
		expect("checked", 520_001, 270_001)

		// The pool refuses, and the budget gets its units back.
		_, err = l.Reserve(t.Context(), spendOf("big", "alice"))
		if !errors.As(err, &refused) || refused.Pool.String() != "big/calls" {
			t.Fatalf("%v", err)
		}
		expect("refused by the pool", 520_001, 270_001)

		clock.Advance(time.Minute + time.Second)
		for range 3 {
			must(t, l, spendOf("big", "alice"))
		}
		clock.Advance(time.Minute + time.Second)
		must(t, l, quota.Call{Upstream: "big", Account: "other", Method: "ask", Keys: map[string]string{"budgets/each": "alice"}})
		if _, err = l.Reserve(t.Context(), spendOf("big", "carol")); !errors.As(err, &refused) || refused.Pool.String() != "budgets/all" {
			t.Errorf("%v", err)
		}
		expect("all is spent", 920_001, 270_001)
		must(t, l, quota.Call{Upstream: "big", Method: "list", Keys: map[string]string{"budgets/each": "carol"}}) // free

		clock.Advance(11 * 24 * time.Hour)
		must(t, l, spendOf("big", "bob"))
		expect("another month", 100_000, 100_000)
	})
}

// TestBudgetsAtRunTime: somebody changes a budget of all, and that of a key, for a while.
func TestBudgetsAtRunTime(t *testing.T) {
	eachStore(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		set := func(key string, millionths int64, d time.Duration) {
			t.Helper()
			k := quota.KeyLimit{Family: book.Budgets, Key: key, Quota: millionths, By: "Zoë", Reason: "a busy week"}
			if d > 0 {
				k.Until = clock.Now().Add(d)
			}
			if _, err := l.Admin().SetLimit(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
		refused := func(when string, c quota.Call, pool string) *quota.RefusedError {
			t.Helper()
			var refused *quota.RefusedError
			if _, err := l.Reserve(t.Context(), c); !errors.As(err, &refused) || refused.Pool.String() != pool {
				t.Fatalf("%s: %v, want a refusal of %s", when, err, pool)
			}
			if _, err := l.Check(t.Context(), c); !errors.As(err, &refused) || refused.Pool.String() != pool {
				t.Errorf("%s: checked: %v, want a refusal of %s", when, err, pool)
			}
			return refused
		}
		other := spendOf("big", "Ann Lee") // a key with a space
		set("each:Ann Lee", 100_000, 0)
		must(t, l, other)
		refused("lowered", other, "budgets/each:Ann Lee")
		long := spendOf("big", strings.Repeat("long", 20)) // a key that is hashed
		set("each:"+strings.Repeat("long", 20), 100_000, 0)
		must(t, l, long)
		var hashed *quota.RefusedError
		if _, err := l.Reserve(t.Context(), long); !errors.As(err, &hashed) || hashed.Pool.Name != "each" || hashed.Limit != 100_000 {
			t.Errorf("a long key: %v", err)
		}
		set("each:bob", 50_000, time.Hour)
		if r := refused("lowered below one call", spendOf("big", "bob"), "budgets/each:bob"); r.RetryAfter != time.Hour {
			t.Errorf("a call that a limit of an hour makes impossible may come after %s", r.RetryAfter)
		}
		clock.Advance(time.Hour)
		must(t, l, spendOf("big", "bob"))
		set("each:bob", 400_000, 24*time.Hour)
		set("all", 1_200_000, 0)
		for range 3 {
			clock.Advance(time.Minute + time.Second)
			must(t, l, spendOf("big", "bob"))
		}
		refused("raised, and used up", spendOf("big", "bob"), "budgets/each:bob")
		trial, err := l.Admin().TryLimit(t.Context(), quota.KeyLimit{Family: book.Budgets, Key: "each:bob", Quota: 350_000, By: "Zoë"})
		if err != nil || trial.Used != 400_000 || trial.Before != 400_000 || trial.Limit != 350_000 || !trial.Refused {
			t.Errorf("the trial of a limit: %+v, %v", trial, err)
		}
		all, err := l.View().Usage(t.Context(), book.Budgets, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range all {
			if w := u.Allowances[0]; u.Pool.Key == "bob" && (w.Limit != 400_000 || w.Reported != 400_000 || !w.ByHand || w.ReportedUntil.IsZero()) {
				t.Errorf("the budget of bob shows %+v", w)
			}
		}
		clock.Advance(24 * time.Hour)
		if r := refused("after the end", spendOf("big", "bob"), "budgets/each:bob"); r.Limit != 300_000 {
			t.Errorf("after the end the limit is %d", r.Limit)
		}
		must(t, l, spendOf("small", ""))
		must(t, l, spendOf("small", "")) // 1.00 is spent
		if r := refused("the budget of all", spendOf("small", ""), "budgets/all"); r.Limit != 1_200_000 {
			t.Errorf("the limit of all is %d", r.Limit)
		}
	})
}

// A limit that is set for a budget is that of each of its windows.
func TestALimitOfABudgetWithWindows(t *testing.T) {
	eachStore(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		if err := l.SetBook(mustParse(t, strings.NewReplacer("revision: 1", "revision: 2", "quota: 1 USD, windows: [{per: month, zone: Europe/Berlin}]",
			"quota: 0.20 USD, windows: [{per: month}, {per: 24h}]").Replace(budgetBook))); err != nil {
			t.Fatal(err)
		}
		limit := quota.KeyLimit{Family: book.Budgets, Key: "all", Quota: 300_000, By: "Zoë"}
		if trial, err := l.Admin().TryLimit(t.Context(), limit); err != nil || trial.Limit != 300_000 {
			t.Errorf("the trial: %+v, %v", trial, err)
		}
		if _, err := l.Admin().SetLimit(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			must(t, l, spendOf("big", "alice"))
		}
		clock.Advance(2 * time.Minute)
		_, err := l.Reserve(t.Context(), spendOf("big", "alice"))
		if refused, is := errors.AsType[*quota.RefusedError](err); !is || refused.Limit != 300_000 {
			t.Errorf("beyond the limit: %v", err)
		}
	})
}

// A budget bounds the calls of one upstream, whatever another one that shares it lets through. An upstream that is only
// observed once lifted the limit for all.
func TestAnObservedUpstreamLeavesABudgetAsItIs(t *testing.T) {
	text := strings.Replace(budgetBook, "  big:\n", "  big:\n    mode: observe\n", 1)
	l, err := quota.New(mustParse(t, text), memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // two dollars
		must(t, l, spendOf("big", "bob"))
	}
	if _, err := l.Reserve(t.Context(), spendOf("small", "")); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("beyond the budget: %v", err)
	}
	all, err := l.View().Usage(t.Context(), book.Budgets, "")
	if err != nil || all[0].Allowances[0].Limit != 1_000_000 {
		t.Errorf("%v, %+v", err, all)
	}
}

// A call with an id of its own is charged once, and again after it was refused.
func TestBillsOfOwnIDs(t *testing.T) {
	eachStore(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		c := spendOf("big", "bob")
		c.ID, c.Owner = "one", "etl"
		first := must(t, l, c)
		again := must(t, l, c)
		if first.Token() != again.Token() || !again.Repeat {
			t.Errorf("%v, then %v", first.Token(), again.Token())
		}
		if got := spent(t, l, "all"); got != 100_000 {
			t.Errorf("%d", got)
		}
		text, err := quota.ParseToken(again.Token().String())
		if err != nil || text != again.Token() {
			t.Fatalf("%v, %v", text, err)
		}
		if _, err := l.SettleBounded(t.Context(), text, quota.Units{"calls": 1, book.Money: 1_000_001}); !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), "must be 0 to 1000000 millionths of USD, not 1000001: the call reserved 0.10 USD") {
			t.Errorf("ten times as much and more: %v", err)
		}
		if _, err := l.SettleBounded(t.Context(), text, quota.Units{"calls": 1, book.Money: 5}); err != nil {
			t.Error(err)
		}
		if got := spent(t, l, "all"); got != 5 {
			t.Errorf("%d", got)
		}
		must(t, l, spendOf("big", "bob"))
		must(t, l, spendOf("big", "bob"))
		c.ID, c.Keys = "two", spendOf("big", "alice").Keys
		for range 2 {
			if _, err := l.Reserve(t.Context(), c); !errors.Is(err, quota.ErrRefused) {
				t.Fatal(err)
			}
		}
		if got := spent(t, l, "all"); got != 200_005 {
			t.Errorf("refused: %d", got)
		}
		clock.Advance(time.Minute + time.Second)
		must(t, l, c)
		if got := spent(t, l, "all"); got != 300_005 {
			t.Errorf("granted after it was refused: %d", got)
		}
	})
}

// A call whose bill nobody knows is refused, and takes nothing.
func TestUnknownBills(t *testing.T) {
	eachStore(t, func(t *testing.T, _ *quota.SimClock, l *quota.Ledger) {
		for name, test := range map[string]struct {
			call quota.Call
			want error
			text string
		}{
			"a method without a bill": {quota.Call{Upstream: "big", Method: "odd"}, quota.ErrUnpriced, "it has no bill, and budget all needs one"},
			"no method":               {quota.Call{Upstream: "big", Method: "none"}, quota.ErrUnpriced, "it has no bill"},
			"charges without money":   {quota.Call{Upstream: "big", Charges: quota.Units{"calls": 1}}, quota.ErrUnpriced, "its charges have no USD"},
			"no key":                  {spendOf("big", ""), quota.ErrBadInput, `budget each is for each key, and the call names none; set Keys["budgets/each"]`},
			"a negative bill":         {quota.Call{Upstream: "small", Method: "ask", Estimate: quota.Units{book.Money: -1}}, quota.ErrBadInput, "a bill must be 0 to"},
			"more than the budget":    {quota.Call{Upstream: "small", Method: "ask", Estimate: quota.Units{book.Money: 1_000_001}}, quota.ErrImpossible, "1.000001 USD asked for, the limit of month Europe/Berlin is 1.00 USD"},
		} {
			_, err := l.Reserve(t.Context(), test.call)
			if _, checked := l.Check(t.Context(), test.call); fmt.Sprint(checked) != fmt.Sprint(err) {
				t.Errorf("%s: %v, and checked %v", name, err, checked)
			}
			if !errors.Is(err, test.want) || !strings.Contains(fmt.Sprint(err), test.text) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := spent(t, l, "all"); got != 0 {
			t.Errorf("%d are spent", got)
		}
		r := must(t, l, quota.Call{Upstream: "small", Charges: quota.Units{"calls": 2, book.Money: 42}})
		if n, _ := r.Bill(); n != 42 || spent(t, l, "all") != 42 {
			t.Errorf("charges: %d", n)
		}
		must(t, l, quota.Call{Upstream: "small", Method: "ask", Estimate: quota.Units{book.Money: 1_000_000 - 42}})
		if got := spent(t, l, "all"); got != 1_000_000 {
			t.Errorf("the last millionth: %d", got)
		}
	})
}

// Settling tells the budgets, whose spend names upstream and method.
func TestSpendOfBudgets(t *testing.T) {
	eachStore(t, func(t *testing.T, _ *quota.SimClock, l *quota.Ledger) {
		must(t, l, spendOf("small", ""))
		must(t, l, spendOf("big", "bob"))
		for _, model := range []string{"large", "large", "a name of " + strings.Repeat("many words ", 12)} {
			call := spendOf("small", "")
			call.Model, call.Estimate = model, quota.Units{book.Money: 1000}
			must(t, l, call)
		}
		byModel, err := l.View().Spend(t.Context(), quota.SpendQuery{Upstream: book.Budgets}, quota.ByModel)
		if err != nil || len(byModel) != 4 {
			t.Fatalf("by model: %v, %v", byModel, err)
		}
		for i, want := range []quota.Spent{{Units: 350_000, Calls: 2}, {Model: "large", Units: 2000, Calls: 2}} {
			if s := byModel[i]; s.Pool.Name != "all" || s.Model != want.Model || s.Units != want.Units || s.Calls != want.Calls || s.Labels.Method != "" {
				t.Errorf("by model: %+v, want %+v", s, want)
			}
		}
		if s := byModel[2]; !strings.HasPrefix(s.Model, "a name of many words many") || s.Units != 1000 {
			t.Errorf("a long name: %+v", s)
		}
		got, err := l.View().Spend(t.Context(), quota.SpendQuery{Upstream: book.Budgets}, quota.ByMethod)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, s := range got {
			all = append(all, fmt.Sprint(s.Pool.Name, " ", s.Labels.Method, " ", s.Units))
		}
		if text := strings.Join(all, ", "); text != "all small/ask 253000, all big/ask 100000, each big/ask 100000" {
			t.Error(text)
		}
	})
}

// A model that is written as keys are is a model.
func TestAModelIsNoKey(t *testing.T) {
	l, err := quota.New(mustParse(t, `
revision: 1
budgets: {team: {quota: 500 USD, windows: [{per: month}], of: llm}}
upstreams: {llm: {pools: {calls: {quota: 100000, windows: [{per: 24h}]}}, methods: {ask: {pool: calls, cost: 1, bill: 0.01 USD}}}}
`), memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	must(t, l, quota.Call{Method: "ask", Model: "=team=bob small"})
	got, err := l.View().Spend(t.Context(), quota.SpendQuery{Upstream: book.Budgets}, quota.ByKey, quota.ByModel)
	if err != nil || len(got) != 1 || got[0].Key != "" || got[0].Model != "=team=bob small" {
		t.Errorf("the spend is %+v, %v", got, err)
	}
}

// The spend of budgets has the keys of its calls, of all their budgets.
func TestSpendOfBudgetsByKey(t *testing.T) {
	longMethod := "a.cloud.service.v1.Predictions." + strings.Repeat("Stream", 5)
	eachStore(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		if err := l.SetBook(mustParse(t, `
revision: 1
budgets:
  team: {quota: 500 USD, windows: [{per: month}], of: llm}
  user: {quota: 50 USD, windows: [{per: month}], of: llm, by: {header: X-User, default: none}}
  agent: {quota: 50 USD, windows: [{per: month}], of: llm, by: {header: X-Agent, default: none}}
upstreams: {llm: {pools: {calls: {quota: 100000, windows: [{per: 24h}]}}, methods: {ask: {pool: calls, cost: 1, bill: 0.01 USD}, `+longMethod+`: {pool: calls, cost: 1, bill: 0.01 USD}}}}
`)); err != nil {
			t.Fatal(err)
		}
		model := "large 2"
		ask := func(user, agent string) {
			t.Helper()
			must(t, l, quota.Call{Method: "ask", Model: model, Keys: map[string]string{book.BudgetKey("user"): user, book.BudgetKey("agent"): agent}})
		}
		sums := func(by ...quota.Dimension) string {
			t.Helper()
			got, err := l.View().Spend(t.Context(), quota.SpendQuery{Upstream: book.Budgets}, by...)
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, s := range got {
				all = append(all, fmt.Sprintf("%s %q %d", s.Pool.Name, s.Key+s.Model, s.Units/10_000))
			}
			slices.Sort(all)
			return strings.Join(all, "; ")
		}
		ask("al=ice & co", "bot")
		ask("al=ice & co", "bot")
		ask("bot", "bot")
		ask(strings.Repeat("k", 100), "bot") // its text would leave no room for others
		want := `agent "bot" 3; agent "others" 1; team "bot" 1; team "bot, al=ice & co" 2; team "others" 1; user "al=ice & co" 2; user "bot" 1; user "others" 1`
		if got := sums(quota.ByKey); got != want {
			t.Errorf("by key: %s", got)
		}
		if got := sums(quota.ByModel); got != `agent "large 2" 4; team "large 2" 4; user "large 2" 4` {
			t.Errorf("by model: %s", got)
		}
		for i := range 190 { // beyond so many labels, keys are not told apart in this hour, and all else is
			for j := range 11 {
				model = fmt.Sprint("model ", j)
				ask(fmt.Sprint("user-", i), "bot")
			}
		}
		if got := sums(quota.ByKey); strings.Count(got, "user \"user-") != 91 || !strings.Contains(got, `user "others" 1094`) {
			t.Errorf("many keys: %s", got)
		}
		if got := sums(quota.ByModel); strings.Count(got, ` 190`) != 3*11 || !strings.Contains(got, `user "large 2" 4`) {
			t.Errorf("many keys, by model: %s", got)
		}
		model = "large 2"
		clock.Advance(time.Hour)
		long := quota.Call{Method: longMethod, Model: "large 2", Keys: map[string]string{book.BudgetKey("user"): strings.Repeat("k", 48), book.BudgetKey("agent"): "bot"}}
		must(t, l, long) // the label has no room for its keys, and a part of a key may be another key
		if got := sums(quota.ByKey); strings.Contains(got, "kkk") || !strings.Contains(got, `user "others" 1095`) {
			t.Errorf("a key that has no room: %s", got)
		}
		if got := sums(quota.ByModel); !strings.Contains(got, `user "large 2" 5`) {
			t.Errorf("by model, with a long method: %s", got)
		}
		ask("user-249", "bot")
		if got := sums(quota.ByKey); !strings.Contains(got, `user "user-249" 1`) {
			t.Errorf("in the next hour: %s", got)
		}
	})
}

// A book that gets a budget, another quota or a higher revision keeps what is counted.
func TestBudgetsOfAChangedBook(t *testing.T) {
	eachStore(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		before, after, found := strings.Cut(budgetBook, "budgets:")
		_, after, _ = strings.Cut(after, "upstreams:")
		if !found {
			t.Fatal("the book has no budgets")
		}
		set := func(text string) {
			t.Helper()
			if err := l.SetBook(mustParse(t, text)); err != nil {
				t.Fatal(err)
			}
		}
		set(before + "upstreams:" + after)
		old := must(t, l, spendOf("big", ""))
		if _, has := old.Bill(); has {
			t.Error("without a budget a call has a bill")
		}
		set(budgetBook)
		if _, err := old.Settle(t.Context(), quota.Units{"calls": 1, book.Money: 5}); err != nil {
			t.Errorf("settle a call of before: %v", err)
		}
		must(t, l, spendOf("big", "bob"))
		if got := spent(t, l, "all"); got != 100_000 {
			t.Errorf("%d", got)
		}
		set(strings.NewReplacer("quota: 1 USD", "quota: 0.15 USD", "revision: 1", "revision: 2", "per: month, zone: Europe/Berlin", "per: day").Replace(budgetBook))
		if _, err := l.Reserve(t.Context(), spendOf("big", "bob")); !errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), "0.10 USD of 0.15 USD spent in day UTC") {
			t.Error(err)
		}
	})
}

// A call that waits gets what another one of the budget has not cost.
func TestBillsThatWait(t *testing.T) {
	eachStore(t, func(t *testing.T, _ *quota.SimClock, l *quota.Ledger) {
		dear := quota.Call{Upstream: "small", Method: "ask", Estimate: quota.Units{book.Money: 900_000}}
		first := must(t, l, dear)
		granted := make(chan error, 1)
		go func() {
			_, err := l.Wait(t.Context(), dear, 365*24*time.Hour)
			granted <- err
		}()
		for l.Waiting() == 0 {
			time.Sleep(time.Millisecond)
		}
		if _, err := first.Settle(t.Context(), quota.Units{"calls": 1, book.Money: 1}); err != nil {
			t.Fatal(err)
		}
		if err := <-granted; err != nil {
			t.Error(err)
		}
		if got := spent(t, l, "all"); got != 900_001 {
			t.Errorf("%d", got)
		}
	})
}

// A call that draws from a hold pays its bill like any other. The receipt of a bill is renewed with its call.
func TestBillsOfHoldsAndLongCalls(t *testing.T) {
	eachStore(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		h, err := l.Hold(t.Context(), quota.Call{Upstream: "small", Method: "ask"}, 3)
		if err != nil {
			t.Fatal(err)
		}
		if got := spent(t, l, "all"); got != 0 {
			t.Errorf("the hold has spent %d", got)
		}
		r, err := l.Reserve(h.Context(t.Context()), spendOf("small", ""))
		if err != nil {
			t.Fatal(err)
		}
		if l.OpenSlots() != 1 {
			t.Errorf("%d receipts are renewed", l.OpenSlots())
		}
		for range 5 {
			clock.Advance(quota.ReceiptLife / 2)
			l.Renew()
		}
		if _, err := r.Settle(t.Context(), quota.Units{"calls": 1, book.Money: 7}); err != nil || l.OpenSlots() != 0 {
			t.Errorf("%v, and %d receipts are renewed", err, l.OpenSlots())
		}
		if got := spent(t, l, "all"); got != 7 {
			t.Errorf("%d", got)
		}
	})
}

// A budget that cannot be given back what a refused call has not spent stays charged, and an observer hears why.
func TestABillThatStaysCharged(t *testing.T) {
	store := &broken{Store: memstore.New(nil)}
	var told []quota.Event
	l, err := quota.New(mustParse(t, budgetBook), store, &quota.Options{Observer: quota.ObserverFunc(func(e quota.Event) { told = append(told, e) })})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		must(t, l, spendOf("big", "alice"))
	}
	told, store.settle = nil, true
	if _, err := l.Reserve(t.Context(), spendOf("big", "bob")); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("beyond the limit of the upstream: %v", err)
	}
	var failed []quota.Event
	for _, e := range told {
		if e.Kind == quota.EventFailed {
			failed = append(failed, e)
		}
	}
	if len(failed) != 1 || failed[0].Pool.String() != "budgets/all" || !errors.Is(failed[0].Err, errBroken) {
		t.Errorf("the observer hears %+v of %+v", failed, told)
	}
	if n := spent(t, l, "all"); n != 400_000 {
		t.Errorf("%d are spent", n)
	}
}

// A budget with quota none bounds the calls of its keys, also by a limit that is set at run time. Others spend nothing of
// it, and their methods need no bill.
func TestBudgetOfKeysAlone(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	l, err := quota.New(mustParse(t, `
revision: 1
budgets: {callers: {quota: none, windows: [{per: day}], of: big, by: {call: caller}, keys: {etl: 0.30 USD}}}
upstreams:
  big:
    pools: {calls: {quota: 100, windows: [{per: 1m}]}}
    methods: {ask: {cost: 1, bill: 0.10 USD}, odd: 1}
`), memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(job, method string) error {
		_, err := l.Reserve(t.Context(), quota.Call{Upstream: "big", Method: method, Job: job})
		return err
	}
	for n, want := range []error{nil, nil, nil, quota.ErrRefused} {
		if err := ask("etl/nightly", "ask"); !errors.Is(err, want) {
			t.Errorf("call %d of etl: %v", n, err)
		}
		if err := errors.Join(ask("other", "ask"), ask("", "odd")); err != nil {
			t.Errorf("others are bounded: %v", err)
		}
	}
	if got := spent(t, l, "callers:etl"); got != 300_000 {
		t.Errorf("%d are spent", got)
	}
	if err := ask("etl", "odd"); !errors.Is(err, quota.ErrUnpriced) {
		t.Errorf("a call without a bill: %v", err)
	}
	set := func(key string) error {
		_, err := l.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: book.Budgets, Key: "callers:" + key, Quota: 400_000, By: "a test"})
		return err
	}
	if err := set("bob"); err == nil || !strings.Contains(err.Error(), "is that of its keys alone: etl") {
		t.Errorf("a limit of another key: %v", err)
	}
	if err := errors.Join(set("etl"), ask("etl", "ask")); err != nil {
		t.Errorf("with a higher limit: %v", err)
	}
	if err := ask("etl", "ask"); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("above the higher limit: %v", err)
	}
}
