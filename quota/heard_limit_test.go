package quota_test

import (
	"errors"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/window"
)

const heardBook = `
revision: 1
upstreams:
  hub:
    accounts: any
    pools:
      tokens: {quota: 2000000, limit: learn, windows: [{per: 1m}, {per: day}], by: {body: model, default: other}}
      core: {quota: 100, headroom: 5, limit: learn, windows: [{per: 1h}]}
      counted: {quota: 100, headroom: 5, limit: learn, metric: hub/counted, windows: [{per: 24h}]}
      bucket: {quota: 10, windows: [{per: 1h, algorithm: bucket, burst: 100}]}
    feedback:
      - {pool: tokens, per: 1m, limit: {header: X-Limit}, remaining: {header: X-Left}}
      - {pool: core, limit: {header: X-Limit}, remaining: {header: X-Left}}
      - {pool: bucket, limit: {header: X-Limit}, used: {header: X-Used}, refills: true}
    methods:
      chat: {pool: tokens, cost: 100}
      get: {pool: core, cost: 1}
      count: {pool: counted, cost: 1}
      big: {pool: core, cost: 90}
`

func observe(t *testing.T, l *sharedLedger, o quota.Observation) quota.Observed {
	t.Helper()
	seen, err := l.Observe(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return seen
}

func hubPool(name string) quota.Pool {
	p := poolOf(name)
	if name == "tokens" {
		p.Key = "sonnet"
	}
	return p
}

// first returns the first window of a pool as a ledger shows it.
func first(t *testing.T, l *sharedLedger, pool quota.Pool) quota.WindowUsage {
	t.Helper()
	all, err := l.View().Usage(t.Context(), "hub", pool.Account)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		if u.Pool == pool {
			return u.Allowances[0]
		}
	}
	t.Fatalf("no %s in %+v", pool, all)
	return quota.WindowUsage{}
}

func n(n int64) *int64 { return &n }

// TestALowerLimitIsNoSpend: what the upstream allows less than the book says was spent by nobody.
// Every process obeys the limit, and shows it.
func TestALowerLimitIsNoSpend(t *testing.T) {
	for name, open := range limitStores(t) {
		for _, pool := range []quota.Pool{hubPool("tokens"), {Upstream: "hub", Account: "team", Name: "tokens", Key: "sonnet"}, hubPool("core")} {
			t.Run(name+"/"+pool.String(), func(t *testing.T) {
				one, other := newSharedLedgerOf(t, open(), heardBook), newSharedLedgerOf(t, open(), heardBook)
				limit, units, per := int64(30000), int64(100), time.Minute
				call := quota.Call{Account: pool.Account, Method: "chat", Keys: map[string]string{"tokens": "sonnet"}}
				if pool.Name == "core" {
					limit, units, per, call = 50, 1, time.Hour, quota.Call{Method: "get"}
				}
				for i := range int64(5) {
					must(t, one.Ledger, call)
					observe(t, one, quota.Observation{Pool: pool, Per: per, Limit: limit, Remaining: n(limit - (i+1)*units), ResetIn: per})
				}
				other.clock.ahead.Add(int64(2 * time.Second))
				for what, l := range map[string]*sharedLedger{"who heard it": one, "another": other, "a later one": newSharedLedgerOf(t, open(), heardBook)} {
					w := first(t, l, pool)
					if w.Used != 5*units || w.Quota-w.Headroom == w.Limit || w.Limit > limit || w.Limit < limit-5 || w.Reported != limit {
						t.Errorf("%s shows %+v, want %d used of %d", what, w, 5*units, limit)
					}
					call := call
					call.Estimate = quota.Units{pool.Name: limit - 3*units}
					if _, err := l.Reserve(t.Context(), call); !errors.Is(err, quota.ErrRefused) {
						t.Errorf("%s: a call beyond the lower limit: %v", what, err)
					}
				}
				all, err := one.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByPool, quota.ByMethod)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range all {
					if s.Labels.Method == quota.Others && s.Pool.Name == pool.Name {
						t.Errorf("others spent %+v, want nothing", s)
					}
				}
			})
		}
	}
}

// TestAHugeLimitIsCapped: a window cannot count more than its slots hold, so that is its limit.
func TestAHugeLimitIsCapped(t *testing.T) {
	for name, open := range limitStores(t) {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int64{5_000_000_000, window.MaxUnits, math.MaxInt64} {
				l := newSharedLedgerOf(t, open(), heardBook)
				observe(t, l, quota.Observation{Pool: hubPool("counted"), Limit: limit})
				observe(t, l, quota.Observation{Pool: hubPool("tokens"), Per: time.Minute, Limit: limit, Remaining: n(limit), ResetIn: time.Minute})
				for _, l := range []*sharedLedger{l, newSharedLedgerOf(t, open(), heardBook)} {
					must(t, l.Ledger, quota.Call{Method: "count"})
					if w := first(t, l, hubPool("counted")); w.Limit != 1<<32-2-5 {
						t.Errorf("the limit is %d", w.Limit)
					}
					must(t, l.Ledger, quota.Call{Method: "chat", Keys: map[string]string{"tokens": "sonnet"}})
				}
			}
			k := quota.KeyLimit{Family: "hub", Key: "counted", Quota: window.MaxUnits, By: "the upstream"} // as earlier versions kept it
			if _, err := open().(quota.LimitKeeper).SetLimit(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			l := newSharedLedgerOf(t, open(), heardBook)
			must(t, l.Ledger, quota.Call{Method: "count"})
			k.By = "ann"
			_, err := l.Admin().SetLimit(t.Context(), k)
			plain(t, err, quota.ErrBadInput, "has room for 4294967294 units")
		})
	}
}

// TestAResetOfNowGivesNothingToWaitFor: the window of the report is over, and its limit is not.
func TestAResetOfNowGivesNothingToWaitFor(t *testing.T) {
	for name, o := range map[string]quota.Observation{
		"now":           {ResetIn: -1},
		"long ago":      {ResetIn: -time.Hour},
		"in the past":   {Reset: time.Now().Add(-time.Second)},
		"in the year 1": {Reset: time.Time{}.Add(time.Second)},
	} {
		l := newSharedLedgerOf(t, limitStores(t)["sqlite"](), heardBook)
		o.Pool, o.Remaining = hubPool("core"), n(0)
		observe(t, l, o)
		if _, err := l.Reserve(t.Context(), quota.Call{Method: "get"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := newSharedLedgerOf(t, limitStores(t)["sqlite"](), heardBook)
	observe(t, l, quota.Observation{Pool: hubPool("core"), Limit: 20, Reset: time.Now().Add(-time.Minute)}) // late
	if w := first(t, l, hubPool("core")); w.Limit != 95 {
		t.Errorf("the limit is %d by a report of a window that had ended", w.Limit)
	}
	observe(t, l, quota.Observation{Pool: hubPool("core"), Limit: 20, Remaining: n(0), ResetIn: -1})
	if w := first(t, l, hubPool("core")); w.Limit != 19 || w.Used != 0 {
		t.Errorf("%d of %d are used, want 0 of 19", w.Used, w.Limit)
	}
}

// TestALowLimitEnds: no low limit shuts a pool for ever, in any process, and its Retry-After is true.
func TestALowLimitEnds(t *testing.T) {
	for name, open := range limitStores(t) {
		for _, of := range []struct {
			pool, method string
			life         time.Duration
		}{{"core", "big", time.Hour}, {"counted", "count", 24 * time.Hour}} {
			t.Run(name+"/"+of.pool, func(t *testing.T) {
				one, other := newSharedLedgerOf(t, open(), heardBook), newSharedLedgerOf(t, open(), heardBook)
				observe(t, one, quota.Observation{Pool: hubPool(of.pool), Limit: 1})
				call := quota.Call{Method: of.method}
				for _, l := range []*sharedLedger{one, other, newSharedLedgerOf(t, open(), heardBook)} {
					ahead := func(d time.Duration) { l.clock.ahead.Store(int64(d)) }
					refused := func(least, most time.Duration) {
						t.Helper()
						_, err := l.Reserve(t.Context(), call)
						var e *quota.RefusedError
						if !errors.As(err, &e) || e.RetryAfter < least || e.RetryAfter > most {
							t.Errorf("%v, want a refusal for %s to %s", err, least, most)
						}
					}
					passes := func() {
						t.Helper()
						r, err := l.Reserve(t.Context(), call)
						if err != nil {
							t.Error(err)
							return
						}
						if _, err := r.Release(t.Context()); err != nil {
							t.Error(err)
						}
					}
					if of.method == "count" {
						r, err := l.Reserve(t.Context(), call) // a low limit leaves one unit to ask with
						if err != nil || r.Limit != 1 {
							t.Errorf("%+v, %v", r, err)
						}
					}
					refused(of.life-time.Minute, of.life)
					ahead(of.life - time.Minute)
					refused(0, time.Minute)
					if err := func() error { _, err := l.Check(t.Context(), call); return err }(); !errors.Is(err, quota.ErrRefused) {
						t.Errorf("check: %v", err)
					}
					ahead(of.life + time.Second)
					passes() // a probe
					refused(time.Second, time.Minute)
					ahead(of.life + 62*time.Second)
					passes()
					refused(time.Second, time.Minute)
					ahead(of.life + 11*time.Minute)
					passes()
					passes()
					ahead(0)
					if of.method == "count" {
						break // its one unit is spent
					}
				}
			})
		}
	}
}

// TestALowLimitIsRenewed by each report, and ends with one of the quota.
func TestALowLimitIsRenewed(t *testing.T) {
	clock := quota.NewSimClock(noon)
	s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), &sqlitestore.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	l := &sharedLedger{T: t}
	if l.Ledger, err = quota.New(mustParse(t, heardBook), s, &quota.Options{Clock: clock}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		clock.Advance(40 * time.Minute)
		observe(t, l, quota.Observation{Pool: hubPool("core"), Limit: 40})
		if w := first(t, l, hubPool("core")); w.Limit != 38 {
			t.Fatalf("the limit is %d, want 38", w.Limit)
		}
	}
	if changes, err := l.Admin().LimitChanges(t.Context(), 100); err != nil || len(changes) > 21 {
		t.Errorf("%d changes, %v", len(changes), err)
	}
	clock.Advance(2 * time.Minute)
	observe(t, l, quota.Observation{Pool: hubPool("core"), Limit: 100})
	if w := first(t, l, hubPool("core")); w.Limit != 95 {
		t.Errorf("of the quota: %+v", w)
	}
}

// newHeardLedger is a process over a store in memory, on a clock that is moved.
func newHeardLedger(t *testing.T, clock quota.Clock, s quota.Store) *sharedLedger {
	t.Helper()
	l := &sharedLedger{T: t}
	var err error
	if l.Ledger, err = quota.New(mustParse(t, heardBook), s, &quota.Options{Clock: clock}); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestALowLimitHoldsAfterItsLastReport: each report counts, not only the first one.
func TestALowLimitHoldsAfterItsLastReport(t *testing.T) {
	clock := quota.NewSimClock(noon)
	s := memstore.New(&memstore.Options{Clock: clock})
	l := newHeardLedger(t, clock, s)
	for range 3 {
		observe(t, l, quota.Observation{Pool: hubPool("core"), Limit: 40})
		clock.Advance(10 * time.Minute)
	}
	clock.Advance(45 * time.Minute) // 55 since the last report, 75 since the first one
	if w := first(t, newHeardLedger(t, clock, s), hubPool("core")); w.Limit != 38 {
		t.Errorf("the limit is %d, want 38", w.Limit)
	}
}

// TestTheLaterAnswerHolds, whenever they arrive, in another process, too.
func TestTheLaterAnswerHolds(t *testing.T) {
	clock := quota.NewSimClock(noon)
	s := memstore.New(&memstore.Options{Clock: clock})
	one, other := newHeardLedger(t, clock, s), newHeardLedger(t, clock, s)
	clock.Advance(time.Hour)
	observe(t, one, quota.Observation{Pool: hubPool("core"), Limit: 60, Age: 20 * time.Minute})
	clock.Advance(3 * time.Second)
	observe(t, other, quota.Observation{Pool: hubPool("core"), Limit: 40, Age: 10 * time.Minute})
	for range 2 {
		if w := first(t, newHeardLedger(t, clock, s), hubPool("core")); w.Limit != 38 || !w.ReportedUntil.Equal(noon.Add(110*time.Minute+3*time.Second)) {
			t.Errorf("the limit is %d until %s, want 38 until an hour after the later answer", w.Limit, w.ReportedUntil)
		}
		clock.Advance(3 * time.Second)                                                              // until it knows of what the other one has heard
		observe(t, one, quota.Observation{Pool: hubPool("core"), Limit: 20, Age: 15 * time.Minute}) // older
	}
}

// TestALateAnswerRaisesNoLimitThatWasHeardAgain: the store keeps when a limit was first heard, and not
// each time. An answer from between comes late, in any process.
func TestALateAnswerRaisesNoLimitThatWasHeardAgain(t *testing.T) {
	clock := quota.NewSimClock(noon)
	s := memstore.New(&memstore.Options{Clock: clock})
	one, other := newHeardLedger(t, clock, s), newHeardLedger(t, clock, s)
	holds := func(limit int64) {
		t.Helper()
		if w := first(t, newHeardLedger(t, clock, s), hubPool("core")); w.Limit != limit {
			t.Errorf("the limit is %d, want %d", w.Limit, limit)
		}
	}
	observe(t, one, quota.Observation{Pool: hubPool("core"), Limit: 40})
	clock.Advance(4 * time.Minute)
	observe(t, one, quota.Observation{Pool: hubPool("core"), Limit: 40})
	for _, l := range []*sharedLedger{one, other} {
		observe(t, l, quota.Observation{Pool: hubPool("core"), Limit: 100, Age: 2 * time.Minute})
		holds(38)
	}
	clock.Advance(4 * time.Minute) // what was heard after five minutes would have been kept
	observe(t, other, quota.Observation{Pool: hubPool("core"), Limit: 100, Age: 2 * time.Minute})
	holds(95)
}

// TestALimitOfAMomentAgoStands: a process that has not heard of it yet renews no older one in its place.
func TestALimitOfAMomentAgoStands(t *testing.T) {
	clock := quota.NewSimClock(noon)
	s := memstore.New(&memstore.Options{Clock: clock})
	one, other := newHeardLedger(t, clock, s), newHeardLedger(t, clock, s)
	observe(t, other, quota.Observation{Pool: hubPool("core"), Limit: 60})
	clock.Advance(6 * time.Minute)
	must(t, other.Ledger, quota.Call{Method: "get"}) // now it knows the limits
	observe(t, one, quota.Observation{Pool: hubPool("core"), Limit: 40})
	observe(t, other, quota.Observation{Pool: hubPool("core"), Limit: 60, Age: 100 * time.Millisecond})
	if w := first(t, newHeardLedger(t, clock, s), hubPool("core")); w.Limit != 38 {
		t.Errorf("the limit is %d, want 38", w.Limit)
	}
}

// TestUseBeyondALowLimit: what an answer without a limit says is used counts also after a lower
// limit that was heard before has ended.
func TestUseBeyondALowLimit(t *testing.T) {
	clock := quota.NewSimClock(noon)
	l := newHeardLedger(t, clock, memstore.New(&memstore.Options{Clock: clock}))
	observe(t, l, quota.Observation{Pool: hubPool("core"), Limit: 10, ResetIn: 10 * time.Minute})
	clock.Advance(59 * time.Minute)
	observe(t, l, quota.Observation{Pool: hubPool("core"), Used: n(90), ResetIn: 50 * time.Minute})
	clock.Advance(12 * time.Minute)
	if w := first(t, l, hubPool("core")); w.Used != 90 || w.Limit != 95 {
		t.Errorf("%d of %d are used, want 90 of 95", w.Used, w.Limit)
	}
}

// TestUnitsGivenBackHideNoOthers: what a verdict has shown as used is less by what came back.
func TestUnitsGivenBackHideNoOthers(t *testing.T) {
	clock := quota.NewSimClock(noon)
	l := newHeardLedger(t, clock, memstore.New(&memstore.Options{Clock: clock}))
	observe(t, l, quota.Observation{Pool: hubPool("core"), Limit: 100, Used: n(0), ResetIn: time.Hour})
	r := must(t, l.Ledger, quota.Call{Method: "big"})
	if _, err := r.Settle(t.Context(), quota.Units{"core": 10}); err != nil {
		t.Fatal(err)
	}
	observe(t, l, quota.Observation{Pool: hubPool("core"), Limit: 100, Used: n(50), ResetIn: time.Hour})
	if w := first(t, l, hubPool("core")); w.Used != 50 {
		t.Errorf("%d are used, want 50: 10 of ours, and 40 of others", w.Used)
	}
}

// TestAbsurdUse: no report says more than that nothing is left, and none says that all is.
func TestAbsurdUse(t *testing.T) {
	for _, limit := range []int64{0, 50, 100, 200, math.MaxInt64} {
		for _, used := range []int64{1 << 53, 1 << 62, math.MaxInt64} {
			l := newSharedLedgerOf(t, limitStores(t)["sqlite"](), heardBook)
			for _, pool := range []string{"core", "bucket"} {
				observe(t, l, quota.Observation{Pool: hubPool(pool), Limit: limit, Used: &used, Refills: pool == "bucket"})
				_, err := l.Reserve(t.Context(), quota.Call{Charges: quota.Units{pool: 1}})
				var e *quota.RefusedError
				if !errors.As(err, &e) || pool == "core" && e.RetryAfter > time.Hour+time.Minute || pool == "bucket" && e.RetryAfter > 10*time.Minute {
					if limit <= 200 || pool == "bucket" { // of a huge limit that is learned, as much may be left
						t.Errorf("%s: %d used of %d: %v", pool, used, limit, err)
					}
				}
			}
		}
	}
}
