package quota_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// A dollar a day. At half of it calls are slowed down to five cents an hour, and from eighty cents on they are
// of another class, which leaves three of ten calls a minute to others.
const stepsBook = `
revision: 1
budgets:
  all: {quota: 1 USD, windows: [{per: 24h}], of: [big, small], then: [{at: 30%}, {at: 50%, slow: 0.05 USD, per: 1h}, {at: 80%, class: background}]}
  each: {quota: 1 USD, windows: [{per: 24h}], of: user, by: {header: X-User}, keys: {alice: 2 USD}, then: [{at: 50%, slow: 0.10 USD, per: 1h}]}
upstreams:
  big:
    classes: {background: {keep_free: 3}}
    pools: {calls: {quota: 10, windows: [{per: 1m}]}}
    methods: {ask: {cost: 1, bill: 0.10 USD}}
  small:
    classes: {background: {keep_free: 3}}
    pools: {calls: {quota: 10, windows: [{per: 1m}]}}
    methods: {ask: {cost: 1, bill: 0.01 USD}}
  user:
    pools: {calls: {quota: 100, windows: [{per: 1m}]}}
    methods: {ask: {cost: 1, bill: 0.10 USD}}
`

func eachStoreWithSteps(t *testing.T, test func(t *testing.T, clock *quota.SimClock, l *quota.Ledger)) {
	eachStore(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		if err := l.SetBook(mustParse(t, stepsBook)); err != nil {
			t.Fatal(err)
		}
		test(t, clock, l)
	})
}

func TestBudgetsSlowDown(t *testing.T) {
	eachStoreWithSteps(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		cent := quota.Call{Upstream: "small", Method: "ask"}
		of := func(cents int64) quota.Call {
			return quota.Call{Upstream: "small", Method: "ask", Estimate: quota.Units{book.Money: cents * 10_000}}
		}
		must(t, l, of(48))
		must(t, l, cent)
		must(t, l, cent) // half of it is spent, and not yet slowly
		if got := spent(t, l, "all-from-50"); got != 0 {
			t.Errorf("%d were spent slowly", got)
		}
		if _, err := l.Check(t.Context(), of(5)); err != nil {
			t.Errorf("five cents an hour: %v", err)
		}
		slow := must(t, l, of(4))
		for _, ask := range []func() error{
			func() error { _, err := l.Check(t.Context(), of(2)); return err },
			func() error { _, err := l.Reserve(t.Context(), of(2)); return err },
		} {
			err := ask()
			refused, is := errors.AsType[*quota.RefusedError](err)
			if !is || !strings.Contains(err.Error(), "budgets/all-from-50") || !strings.Contains(err.Error(), "0.04 USD of 0.05 USD spent in 1h") {
				t.Fatalf("the sixth cent: %v", err)
			}
			if in := refused.RetryAt.Sub(clock.Now()); in < time.Hour || in > time.Hour+2*time.Minute {
				t.Errorf("it may be sent in %v", in)
			}
		}
		// What it did not cost comes back to both.
		if _, err := slow.Settle(t.Context(), quota.Units{"calls": 1, book.Money: 10_000}); err != nil {
			t.Fatal(err)
		}
		must(t, l, of(4))
		if all, slowly := spent(t, l, "all"), spent(t, l, "all-from-50"); all != 550_000 || slowly != 50_000 {
			t.Errorf("%d, slowly %d", all, slowly)
		}
		// A call that is dearer than the rate takes all of it, and no more when it is settled.
		clock.Advance(time.Hour + 2*time.Minute)
		dear := must(t, l, quota.Call{Upstream: "big", Method: "ask"})
		if all, slowly := spent(t, l, "all"), spent(t, l, "all-from-50"); all != 650_000 || slowly != 50_000 {
			t.Errorf("%d, slowly %d", all, slowly)
		}
		if _, err := l.SettleBounded(t.Context(), dear.Token(), quota.Units{"calls": 1, book.Money: 120_000}); err != nil {
			t.Fatal(err)
		}
		if all, slowly := spent(t, l, "all"), spent(t, l, "all-from-50"); all != 670_000 || slowly != 50_000 {
			t.Errorf("settled: %d, slowly %d", all, slowly)
		}
		// The whole budget still holds, and names itself.
		if _, err := l.Reserve(t.Context(), of(34)); !errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), "budgets/all: ") {
			t.Errorf("above the budget: %v", err)
		}
		if _, err := l.Reserve(t.Context(), of(101)); !errors.Is(err, quota.ErrImpossible) {
			t.Errorf("more than the budget: %v", err)
		}
		// When the first spend has come back, nothing is slow.
		clock.Advance(24*time.Hour + 2*time.Minute)
		must(t, l, of(30))
		must(t, l, of(20))
		if got := spent(t, l, "all-from-50"); got != 0 {
			t.Errorf("the next day %d were spent slowly", got)
		}
	})
}

func TestBudgetsChangeTheClass(t *testing.T) {
	eachStoreWithSteps(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		call := quota.Call{Upstream: "small", Method: "ask", Estimate: quota.Units{book.Money: 0}}
		if _, err := l.Admin().Adjust(t.Context(), quota.Pool{Upstream: book.Budgets, Account: quota.DefaultAccount, Name: "all"}, 790_000, "spent elsewhere"); err != nil {
			t.Fatal(err)
		}
		for range 8 { // ordinary calls, which may use all ten
			must(t, l, call)
		}
		call.Estimate = quota.Units{book.Money: 20_000} // beyond 80 cents
		if _, err := l.Reserve(t.Context(), call); !errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), "small/calls") {
			t.Errorf("the class leaves three calls to others: %v", err)
		}
		if got := spent(t, l, "all"); got != 790_000 {
			t.Errorf("what was refused has left %d", got)
		}
		call.Estimate = quota.Units{book.Money: 0}
		must(t, l, call)
		clock.Advance(time.Minute + time.Second)
		call.Estimate = quota.Units{book.Money: 20_000}
		must(t, l, call)
		spend, err := l.View().Spend(t.Context(), quota.SpendQuery{Upstream: "small"}, quota.ByClass)
		if err != nil || !strings.Contains(fmt.Sprint(spend), "background") {
			t.Errorf("%v, %v", spend, err)
		}
	})
}

// A limit at run time moves the steps of a budget, and their rates have limits of their own.
func TestStepsAtRunTime(t *testing.T) {
	eachStoreWithSteps(t, func(t *testing.T, _ *quota.SimClock, l *quota.Ledger) {
		of := func(cents int64) quota.Call {
			return quota.Call{Upstream: "small", Method: "ask", Estimate: quota.Units{book.Money: cents * 10_000}}
		}
		set := func(budget string, millionths int64) {
			t.Helper()
			if _, err := l.Admin().SetLimit(t.Context(), quota.KeyLimit{Family: book.Budgets, Key: budget, Quota: millionths, By: "Zoë"}); err != nil {
				t.Fatal(err)
			}
		}
		must(t, l, of(50))
		set("all", 1_200_000)
		must(t, l, of(10)) // the half of 1.20 dollars
		if got := spent(t, l, "all-from-50"); got != 0 {
			t.Errorf("%d were spent slowly", got)
		}
		must(t, l, of(5))
		set("all-from-50", 120_000)
		must(t, l, of(7))
		if _, err := l.Reserve(t.Context(), of(1)); !errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), "0.12 USD of 0.12 USD") {
			t.Errorf("beyond the rate that was set: %v", err)
		}
	})
}

// Each key climbs the steps by itself, by its own quota, and a call that is asked for again with its ID is
// neither charged twice nor settled to less than it cost.
func TestStepsOfKeysAndIDs(t *testing.T) {
	eachStoreWithSteps(t, func(t *testing.T, _ *quota.SimClock, l *quota.Ledger) {
		of := func(user string, cents int64) quota.Call {
			return quota.Call{Upstream: "user", Method: "ask", Keys: map[string]string{book.BudgetKey("each"): user}, Estimate: quota.Units{book.Money: cents * 10_000}}
		}
		must(t, l, of("alice", 100))
		must(t, l, of("bob", 50))
		for _, user := range []string{"alice", "bob"} {
			call := of(user, 7)
			call.ID = "a call of " + user
			must(t, l, call)
			again := must(t, l, call)
			if !again.Repeat {
				t.Errorf("%s: asked again, it is another call", user)
			}
			if _, err := again.Settle(t.Context(), quota.Units{"calls": 1, book.Money: 60_000}); err != nil {
				t.Error(err)
			}
			if _, err := l.Reserve(t.Context(), of(user, 5)); !errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), "each-from-50") {
				t.Errorf("%s: %v", user, err)
			}
		}
		must(t, l, of("carol", 50))
		for user, want := range map[string]int64{"alice": 1_060_000, "bob": 560_000, "carol": 500_000} {
			if got := spent(t, l, "each:"+user); got != want {
				t.Errorf("%s has spent %d, want %d", user, got, want)
			}
		}
	})
}

// Whatever is asked, settled and corrected, nothing beyond a step is spent faster than its rate, and nothing that
// fits is refused.
func TestRandomSteps(t *testing.T) {
	eachStoreWithSteps(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		type grant struct {
			at    time.Time
			cents int64
			slow  bool
		}
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		var all []grant
		sum := func(within time.Duration, slow bool) (cents int64) {
			for _, g := range all {
				if clock.Now().Sub(g.at) < within && (!slow || g.slow) {
					cents += g.cents
				}
			}
			return cents
		}
		for range 400 {
			clock.Advance(time.Duration(random.Int64N(int64(20 * time.Minute))))
			cents := random.Int64N(5) + 1
			before := sum(24*time.Hour, false)
			slow := before+cents > 50
			_, err := l.Reserve(t.Context(), quota.Call{Upstream: "small", Method: "ask", Estimate: quota.Units{book.Money: cents * 10_000}})
			switch {
			case err == nil:
				if slow && sum(time.Hour, true)+cents > 5 || before+cents > 100 {
					t.Fatalf("seed %d: %d cents were granted after %d, %d of them slowly within an hour", seed, cents, before, sum(time.Hour, true))
				}
				all = append(all, grant{clock.Now(), cents, slow})
			case !errors.Is(err, quota.ErrRefused):
				t.Fatal(err)
			default: // rings give units back a bucket late
				late := sum(24*time.Hour+2*time.Minute, false)+cents > 50
				if !late || late && sum(time.Hour+2*time.Minute, true)+cents <= 5 && sum(24*time.Hour+2*time.Minute, false)+cents <= 100 {
					t.Fatalf("seed %d: %d cents were refused after %d, %d of them slowly within an hour: %v", seed, cents, before, sum(time.Hour, true), err)
				}
			}
		}
	})
}
