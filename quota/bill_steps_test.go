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
		must(t, l, cent)                                                             // half of it is spent, and not yet slowly
		if _, err := l.Check(t.Context(), cent); !errors.Is(err, quota.ErrRefused) { // all of it was spent in this hour
			t.Errorf("more in the same hour: %v", err)
		}
		clock.Advance(time.Hour + 2*time.Minute)
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
			if !is || !strings.Contains(err.Error(), "budgets/all-from-50") || !strings.Contains(err.Error(), "budget all slows calls down from 50% on: 0.04 USD of 0.05 USD spent in 1h") {
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
		// A call that is dearer than the rate is sent when nothing was spent in its time, and then nothing else is.
		dear := quota.Call{Upstream: "big", Method: "ask"}
		if _, err := l.Reserve(t.Context(), dear); !errors.Is(err, quota.ErrRefused) {
			t.Errorf("a dear call after others: %v", err)
		}
		clock.Advance(time.Hour + 2*time.Minute)
		sent := must(t, l, dear)
		if _, err := l.SettleBounded(t.Context(), sent.Token(), quota.Units{"calls": 1, book.Money: 120_000}); err != nil {
			t.Fatal(err)
		}
		if all, slowly := spent(t, l, "all"), spent(t, l, "all-from-50"); all != 670_000 || slowly != 120_000 {
			t.Errorf("settled: %d, slowly %d", all, slowly)
		}
		if _, err := l.Reserve(t.Context(), cent); !errors.Is(err, quota.ErrRefused) {
			t.Errorf("a cent after a dear call: %v", err)
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
		if _, err := l.Reserve(t.Context(), call); !errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), "small/calls") || !strings.Contains(err.Error(), "A step of budget all gives its calls the class background now") {
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
	eachStoreWithSteps(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
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
		clock.Advance(time.Hour + 2*time.Minute)
		must(t, l, of(5))
		set("all-from-50", 120_000)
		settled := must(t, l, of(7))
		if _, err := l.SettleBounded(t.Context(), settled.Token(), quota.Units{"calls": 1, book.Money: 70_000}); err != nil {
			t.Error(err)
		}
		if _, err := l.Reserve(t.Context(), of(1)); !errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), "0.12 USD of 0.12 USD") {
			t.Errorf("beyond the rate that was set: %v", err)
		}
	})
}

// Each key climbs the steps by itself, by its own quota, and a call that is asked for again with its ID is
// neither charged twice nor settled to less than it cost.
func TestStepsOfKeysAndIDs(t *testing.T) {
	eachStoreWithSteps(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		of := func(user string, cents int64) quota.Call {
			return quota.Call{Upstream: "user", Method: "ask", Keys: map[string]string{book.BudgetKey("each"): user}, Estimate: quota.Units{book.Money: cents * 10_000}}
		}
		must(t, l, of("alice", 100))
		must(t, l, of("bob", 50))
		clock.Advance(time.Hour + 2*time.Minute)
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

// A call whose own pool refused it is asked for again with its ID, on another step of the budget.
func TestAnIDThatWasReleasedOnAnotherStep(t *testing.T) {
	eachStoreWithSteps(t, func(t *testing.T, clock *quota.SimClock, l *quota.Ledger) {
		cent := quota.Call{Upstream: "small", Method: "ask"}
		for range 10 {
			must(t, l, cent)
		}
		again := cent
		again.ID = "again"
		if _, err := l.Reserve(t.Context(), again); !errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), "small/calls") {
			t.Fatal(err)
		}
		if _, err := l.Admin().Adjust(t.Context(), quota.Pool{Upstream: book.Budgets, Account: quota.DefaultAccount, Name: "all"}, 500_000, "spent elsewhere"); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Hour + 2*time.Minute)
		must(t, l, again)
		if all, slowly := spent(t, l, "all"), spent(t, l, "all-from-50"); all != 610_000 || slowly != 10_000 {
			t.Errorf("%d, slowly %d", all, slowly)
		}
		if err := l.SetBook(mustParse(t, strings.Replace(stepsBook, "slow: 0.05 USD", "slow: 0.01 USD", 1))); err != nil {
			t.Fatal(err)
		}
		if r := must(t, l, again); !r.Repeat {
			t.Error("with another rate it is another call")
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
		}
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		var all []grant
		sum := func(within time.Duration) (cents int64) {
			for _, g := range all {
				if clock.Now().Sub(g.at) < within {
					cents += g.cents
				}
			}
			return cents
		}
		for range 400 {
			clock.Advance(time.Duration(random.Int64N(int64(20 * time.Minute))))
			cents := random.Int64N(5) + 1
			day, hour := sum(24*time.Hour)+cents, sum(time.Hour)+cents
			_, err := l.Reserve(t.Context(), quota.Call{Upstream: "small", Method: "ask", Estimate: quota.Units{book.Money: cents * 10_000}})
			switch {
			case err == nil:
				if day > 50 && hour > 5 || day > 100 {
					t.Fatalf("seed %d: %d cents were granted, with them %d in a day and %d in an hour", seed, cents, day, hour)
				}
				all = append(all, grant{clock.Now(), cents})
			case !errors.Is(err, quota.ErrRefused):
				t.Fatal(err)
			default: // rings give units back a bucket late
				day, hour = sum(24*time.Hour+2*time.Minute)+cents, sum(time.Hour+2*time.Minute)+cents
				if day <= 50 || day <= 100 && hour <= 5 {
					t.Fatalf("seed %d: %d cents were refused, with them %d in a day and %d in an hour: %v", seed, cents, day, hour, err)
				}
			}
		}
	})
}
