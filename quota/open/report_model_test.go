package open_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// The random tests of reports drive several ledgers over one store, on a clock that is moved.
// In TestTrueReports an upstream of its own counts what is sent, and reports it late, in any
// order and in all forms. In TestFalseReports the reports are nonsense.

// eachReportStore runs a random test over each store. A failure prints the seed, with which
// it can be seen again.
func eachReportStore(t *testing.T, few int, run func(r *reportRig, operations int)) {
	operations, seed := few, uint64(1)
	if os.Getenv("HEADROOM_SOAK") == "1" {
		operations, seed = 100_000, rand.Uint64()
	}
	if given := os.Getenv("HEADROOM_SEED"); given != "" {
		if _, err := fmt.Sscan(given, &seed); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range stores {
		t.Run(name, func(t *testing.T) {
			t.Logf("to see it again: HEADROOM_SEED=%d", seed)
			operations := operations
			if name == "memory" && os.Getenv("HEADROOM_SOAK") != "1" {
				operations *= 10 // it is fast
			}
			clock := quota.NewSimClock(noon)
			r := &reportRig{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), clock: clock, open: storeOf(t, name, clock)}
			run(r, operations)
		})
	}
}

// reportRig is several processes that share a ledger.
type reportRig struct {
	*testing.T
	*rand.Rand
	clock *quota.SimClock
	open  func() quota.Store
	book  *quota.Book
	all   []*quota.Ledger
	store []quota.Store // of each
	said  []string      // what happened last
}

func (r *reportRig) start(text string, processes int) {
	var err error
	if r.book, err = book.Parse("costs.yaml", []byte(text), nil); err != nil {
		r.Fatal(err)
	}
	r.all = make([]*quota.Ledger, processes)
	for i := range r.all {
		r.store = append(r.store, r.open())
		r.restart(i)
	}
}

// restart starts a process, again or for the first time.
func (r *reportRig) restart(i int) {
	if r.all[i] != nil { // it flushes, as a program does before it ends
		if err := r.all[i].Flush(r.Context()); err != nil {
			r.fail("flush: %v", err)
		}
	}
	l, err := quota.New(r.book, r.store[i], &quota.Options{Clock: r.clock})
	if err != nil {
		r.Fatal(err)
	}
	r.all[i] = l
}

func (r *reportRig) say(format string, args ...any) {
	r.said = append(r.said, r.clock.Now().Format("02 15:04:05.0 ")+fmt.Sprintf(format, args...))
	if len(r.said) > 400 {
		r.said = r.said[1:]
	}
}

// fail ends the test with what happened before.
func (r *reportRig) fail(format string, args ...any) {
	r.Helper()
	for _, s := range r.said {
		r.Log(s)
	}
	r.Fatalf(format, args...)
}

func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// The pools of true reports. Each call costs 1 to 5 units.
const trueBook = `
revision: 1
upstreams:
  hub:
    accounts: {default: {}, team: {}}
    pools:
      hour: {quota: 200, windows: [{per: 1h}]}
      day: {quota: 500, windows: [{per: day}]}
      key: {quota: 200, limit: learn, windows: [{per: 1h}], by: {body: model}}
    feedback:
      - {pool: {header: X-Pool}, limit: {header: X-Limit}, remaining: {header: X-Left}}
    methods: {get: {pool: hour, cost: 1}}
`

// truePool is a pool as its upstream counts it.
type truePool struct {
	pool         quota.Pool
	per          time.Duration
	quota, limit int64 // of the book; of the upstream
	ends         time.Time
	used         int64 // in this window: ours, and of others
	ours, others int64 // ever
	before       int64 // ours, in the time of a window before this one: a process may take them for those that are reported
	lately       []sentUnits
	lowered      time.Time // when the limit was last changed
	known        []known   // by process
}

type sentUnits struct {
	at    time.Time
	units int64
}

// known is what a process knows of a pool, at least.
type known struct {
	used  int64     // of the window, less ours until then
	since time.Time // it, or another one, has heard of the present limit
	made  time.Time // of the last report of it
	own   bool      // it has itself
}

// knownFor is how long a lower limit holds after a report at least: an hour, but a report in
// the twelfth of an hour after another one may not prolong it.
const knownFor = time.Hour - 6*time.Minute

// lateReport is a report on its way.
type lateReport struct {
	process int
	pool    *truePool
	o       quota.Observation
	made    time.Time
	ends    time.Time // the window that it is about
	used    int64     // if it says so
}

// TestTrueReports: however late reports come, no call passes a limit that could be known, and
// no unit is taken for one of others that was not.
func TestTrueReports(t *testing.T) {
	eachReportStore(t, 800, func(r *reportRig, operations int) {
		const processes = 3
		r.start(trueBook, processes)
		keeper, keeps := r.store[0].(quota.LimitKeeper)
		if keeps {
			_, err := keeper.KeyLimit(t.Context(), "hub", "hour")
			keeps = err == nil
		}
		var pools []*truePool
		for _, account := range []string{"default", "team"} {
			for name, key := range map[string]string{"hour": "", "day": "", "key": "large"} {
				p := &truePool{pool: quota.Pool{Upstream: "hub", Account: account, Name: name, Key: key}, per: time.Hour, quota: 200, ends: noon.Add(20 * time.Minute)}
				if name == "day" {
					p.per, p.quota, p.ends = 24*time.Hour, 500, noon.Truncate(24*time.Hour).Add(24*time.Hour)
				}
				p.limit, p.known = p.quota, make([]known, processes)
				pools = append(pools, p)
			}
		}
		slices.SortFunc(pools, func(a, b *truePool) int { return compareStrings(a.pool.String(), b.pool.String()) })
		var late []*lateReport
		granted := 0
		for range operations {
			p := pick(r.Rand, pools...)
			switch n := r.IntN(100); {
			case n < 50:
				if made := r.send(p, r.IntN(processes), keeps); made != nil {
					granted++
					late = append(late, made)
				}
			case n < 80 && len(late) > 0:
				i := r.IntN(len(late))
				r.deliver(late[i], keeps)
				late = slices.Delete(late, i, i+1)
			case n < 86:
				units := min(1+r.Int64N(20), max(p.limit-p.used, 0))
				p.used, p.others = p.used+units, p.others+units
				r.say("others spend %d of %s", units, p.pool)
			case n < 88:
				p.limit, p.lowered = pick(r.Rand, p.quota, p.quota, p.quota/2, p.quota/10, 7), r.clock.Now()
				for i := range p.known {
					p.known[i].since, p.known[i].made, p.known[i].own = time.Time{}, time.Time{}, false
				}
				r.say("the limit of %s becomes %d", p.pool, p.limit)
			case n < 89:
				i := r.IntN(processes)
				r.restart(i)
				r.say("process %d starts again", i)
				for _, p := range pools {
					p.known[i].own = p.known[i].own && keeps
				}
			default:
				r.clock.Advance(pick(r.Rand, 100*time.Millisecond, time.Second, 3*time.Second, 10*time.Second, time.Minute, 5*time.Minute))
				for _, p := range pools {
					p.turn(r.clock.Now())
				}
			}
			late = late[max(len(late)-40, 0):] // the others are lost
		}
		r.noMoreOthers(pools)
		t.Logf("%d calls were sent", granted)
	})
}

func compareStrings(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// turn begins the window of now.
func (p *truePool) turn(now time.Time) {
	p.lately = slices.DeleteFunc(p.lately, func(s sentUnits) bool { return now.Sub(s.at) > p.per })
	if now.Before(p.ends) {
		return
	}
	for !now.Before(p.ends) {
		p.ends = p.ends.Add(p.per)
	}
	p.used, p.before = 0, 0
	for _, s := range p.lately {
		p.before += s.units
	}
	for i := range p.known {
		p.known[i].used = math.MinInt64 / 2
	}
}

// send makes a call, and returns its report.
func (r *reportRig) send(p *truePool, process int, keeps bool) *lateReport {
	units := 1 + r.Int64N(5)
	call := quota.Call{Upstream: "hub", Account: p.pool.Account, Charges: quota.Units{p.pool.Name: units}}
	if p.pool.Key != "" {
		call.Keys = map[string]string{p.pool.Name: p.pool.Key}
	}
	made, err := r.all[process].Reserve(r.Context(), call)
	now := r.clock.Now()
	if err != nil {
		var refused *quota.RefusedError
		if !errors.As(err, &refused) || refused.RetryAfter <= 0 || refused.RetryAfter > 25*time.Hour {
			r.fail("process %d, %s: %v", process, p.pool, err)
		}
		return nil
	}
	spent := units
	if r.IntN(4) == 0 { // it costs less than was thought
		spent = r.Int64N(units + 1)
		if _, err := made.Settle(r.Context(), quota.Units{p.pool.Name: spent}); err != nil {
			r.fail("settle: %v", err)
		}
	}
	p.used, p.ours = p.used+spent, p.ours+spent
	p.lately = append(p.lately, sentUnits{now, units})
	k := &p.known[process]
	limit := p.quota
	knows := k.own || keeps && !k.since.IsZero() && now.Sub(k.since) > 2*time.Second
	if knows && now.Sub(k.made) < knownFor {
		limit = p.limit
	}
	if sum := k.used + p.ours; sum > limit+p.before && sum > k.used+p.ours-spent {
		r.fail("process %d sends %d of %s: it knows of %d, and the limit is %d (%d were sent before)", process, spent, p.pool, sum, limit, p.before)
	}
	r.say("process %d sends %d of %s: the upstream counts %d of %d", process, spent, p.pool, p.used, p.limit)
	return r.report(p, process)
}

// report is what the upstream says of a pool now, in one of many forms.
func (r *reportRig) report(p *truePool, process int) *lateReport {
	now := r.clock.Now()
	l := &lateReport{process: process, pool: p, made: now, ends: p.ends, used: math.MinInt64 / 2}
	l.o = quota.Observation{Pool: p.pool}
	if r.IntN(4) > 0 {
		l.o.Limit = p.limit
	}
	left, used := max(p.limit-p.used, 0), p.used
	switch n := r.IntN(6); {
	case n < 3 && l.o.Limit > 0:
		l.o.Remaining = &left
		l.used = p.limit - left
	case n < 5:
		l.o.Used = &used
		l.used = min(used, p.limit)
	case n == 5 && l.o.Limit > 0:
		percent := p.used * 100 / p.limit
		l.o.UsedPercent = &percent
	}
	skew := pick(r.Rand, 0, 0, time.Hour, -10*time.Minute)
	switch r.IntN(4) {
	case 0, 1:
		l.o.Reset, l.o.Date = p.ends.Add(skew), now.Add(skew)
	case 2:
		l.o.Reset = p.ends
	default:
		l.o.ResetIn = p.ends.Sub(now)
	}
	return l
}

// deliver gives a report to its process.
func (r *reportRig) deliver(l *lateReport, keeps bool) {
	now, p := r.clock.Now(), l.pool
	l.o.Age = now.Sub(l.made)
	r.say("process %d hears %s of %s: limit %d, used %d", l.process, l.made.Format("15:04:05.0"), p.pool, l.o.Limit, l.used)
	if _, err := r.all[l.process].Observe(r.Context(), l.o); err != nil {
		r.fail("observe: %v", err)
	}
	if err := r.all[l.process].Flush(r.Context()); err != nil {
		r.fail("flush: %v", err)
	}
	for i := range p.known {
		k := &p.known[i]
		if l.ends.Equal(p.ends) && now.Before(p.ends) {
			// what was sent while a report was under way may be among what it reports
			k.used = max(k.used, min(l.used, p.quota)-p.ours)
		}
		if l.o.Limit > 0 && l.o.Limit == p.limit && l.made.After(p.lowered) && now.Before(l.ends) && (keeps || i == l.process) {
			if now.Sub(k.made) >= knownFor { // it had ended
				k.own = false
			}
			if k.since.IsZero() || now.Sub(k.made) >= knownFor || i == l.process && !k.own {
				k.since = now
			}
			k.own = k.own || i == l.process
			if l.made.After(k.made) {
				k.made = l.made
			}
		}
	}
}

// noMoreOthers checks that the spend has no units of others that others did not spend.
func (r *reportRig) noMoreOthers(pools []*truePool) {
	spent, err := r.all[0].View().Spend(r.Context(), quota.SpendQuery{}, quota.ByPool, quota.ByAccount, quota.ByMethod)
	if err != nil {
		r.Fatal(err)
	}
	for _, p := range pools {
		for _, s := range spent {
			of := p.pool
			of.Key = s.Pool.Key
			if s.Pool == of && s.Labels.Method == quota.Others && s.Units > p.others {
				r.fail("%d units of %s count as those of others, who have spent %d", s.Units, p.pool, p.others)
			}
		}
	}
}

// The pools of false reports: each kind of window.
const falseBook = `
revision: 1
upstreams:
  hub:
    accounts: any
    pools:
      minute: {quota: 60, headroom: 5, limit: learn, windows: [{per: 1m}]}
      hour: {quota: 100, headroom: 90, windows: [{per: 1h}]}
      day: {quota: 100, headroom: 5, limit: learn, metric: hub/day, windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}, {per: 10m, quota: 50}]}
      bucket: {quota: 50, windows: [{per: 1s, algorithm: bucket, burst: 500}], limit: learn}
      counter: {quota: 100, windows: [{per: 10m, algorithm: counter}], limit: learn}
      log: {quota: 100, windows: [{per: 1h, algorithm: log}]}
      calls: {windows: [{in_flight: 5, ttl: 30s}], limit: learn}
      key: {quota: 100, limit: learn, windows: [{per: 1h}], by: {body: model}, keys: {small: 10}}
    feedback:
      - {pool: {header: X-Pool}, limit: {header: X-Limit}, remaining: {header: X-Left}}
    methods: {get: {pool: hour, cost: 1}}
`

// healsWithin is what docs/price-book.md states: the longest window, a day for a lower limit,
// and ten minutes.
const healsWithin = 25*time.Hour + 10*time.Minute

// TestFalseReports: whatever is reported, a call is granted or refused with a time that is
// true, and every pool heals by itself.
func TestFalseReports(t *testing.T) {
	eachReportStore(t, 400, func(r *reportRig, operations int) {
		const processes = 3
		r.start(falseBook, processes)
		var pools []quota.Pool
		for _, account := range []string{"default", "team"} {
			for _, name := range []string{"minute", "hour", "day", "bucket", "counter", "log", "calls"} {
				pools = append(pools, quota.Pool{Upstream: "hub", Account: account, Name: name})
			}
			for _, key := range []string{"small", "large"} {
				pools = append(pools, quota.Pool{Upstream: "hub", Account: account, Name: "key", Key: key})
			}
		}
		for done := 0; done < operations; {
			for range 60 {
				done++
				p, process := pick(r.Rand, pools...), r.IntN(processes)
				switch n := r.IntN(100); {
				case n < 60:
					r.lie(process, p)
				case n < 80:
					if units := pick(r.Rand, 1, 1, allOf(p)); r.spend(process, p, units) != nil && r.IntN(4) == 0 {
						r.waits(process, p, units)
					}
				case n < 82:
					r.fill(process)
				case n < 84:
					if err := r.all[process].Flush(t.Context()); err != nil {
						r.fail("flush: %v", err)
					}
				case n < 87:
					r.restart(process)
					r.say("process %d starts again", process)
				default:
					r.clock.Advance(pick(r.Rand, time.Millisecond, time.Second, 3*time.Second, time.Minute, time.Hour, 7*time.Hour))
				}
			}
			for _, l := range r.all {
				if err := l.Flush(t.Context()); err != nil {
					r.fail("flush: %v", err)
				}
			}
			r.clock.Advance(healsWithin)
			r.say("no more reports")
			for _, p := range pools {
				for i := range processes {
					done++
					if err := r.spend(i, p, allOf(p)); err != nil {
						r.fail("%s after the last report: %v", healsWithin, err)
					}
				}
			}
		}
	})
}

// fill makes a process hear that more than all of a pool is used. Then nothing is left.
func (r *reportRig) fill(process int) {
	p := quota.Pool{Upstream: "hub", Account: pick(r.Rand, "default", "team"), Name: pick(r.Rand, "hour", "log")}
	used := pick[int64](r.Rand, 1<<53, 1<<62, math.MaxInt64)
	o := quota.Observation{Pool: p, Limit: pick[int64](r.Rand, 0, 5, 50), Used: &used, ResetIn: time.Hour}
	if _, err := r.all[process].Observe(r.Context(), o); err != nil {
		r.fail("observe: %v", err)
	}
	r.say("process %d hears that %d of %s are used, and the limit is %d", process, used, p, o.Limit)
	if r.spend(process, p, 1) == nil {
		r.fail("process %d spends of %s, of which nothing is left", process, p)
	}
}

// number returns a number that an answer could have, or nil.
func (r *reportRig) number() *int64 {
	n := pick(r.Rand, 0, 1, 4, 5, 6, 50, 95, 100, 150, 30_000, 1<<32-2, 1<<32, 5_000_000_000, 1<<53-1, 1<<53, 1<<62, math.MaxInt64, -1, -5, math.MinInt64, r.Int64N(200))
	if r.IntN(2) == 0 {
		return nil
	}
	return &n
}

// lie makes a process hear nonsense.
func (r *reportRig) lie(process int, p quota.Pool) {
	now := r.clock.Now()
	o := quota.Observation{Pool: p, Remaining: r.number(), Used: r.number(), UsedPercent: r.number(), Refills: r.IntN(4) == 0}
	if limit := r.number(); limit != nil {
		o.Limit = *limit
	}
	if p.Name == "day" {
		o.Per = pick(r.Rand, 0, 24*time.Hour, 10*time.Minute)
	}
	if r.IntN(2) == 0 {
		o.Date = pick(r.Rand, now, now.Add(time.Hour), now.Add(-time.Hour), time.Unix(0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}.Add(1))
	}
	if r.IntN(4) == 0 {
		o.Age = pick(r.Rand, time.Second, time.Minute, time.Hour, math.MaxInt64, -time.Hour, math.MinInt64)
	}
	switch ahead := time.Duration(r.Int64N(int64(40 * time.Hour))); r.IntN(6) {
	case 0:
		o.ResetIn = pick(r.Rand, -1, 1, time.Second, time.Minute, ahead, 365*24*time.Hour, 367*24*time.Hour, math.MaxInt64, math.MinInt64)
	case 1:
		o.Reset = pick(r.Rand, now, now.Add(-1), now.Add(-ahead), time.Unix(0, 0), time.Time{}.Add(1))
	case 2, 3:
		o.Reset = pick(r.Rand, now.Add(1), now.Add(time.Second), now.Add(ahead), now.AddDate(1, 0, 0), now.AddDate(5, 0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	text := fmt.Sprintf("limit %d", o.Limit)
	for what, n := range map[string]*int64{"remaining": o.Remaining, "used": o.Used, "percent": o.UsedPercent} {
		if n != nil {
			text += fmt.Sprintf(" %s %d", what, *n)
		}
	}
	_, err := r.all[process].Observe(r.Context(), o)
	r.say("process %d hears of %s per %s: %s; reset %s, in %s, date %s, age %s, refills %t", process, p, o.Per, text, o.Reset, o.ResetIn, o.Date, o.Age, o.Refills)
	if err != nil {
		r.fail("observe: %v", err)
	}
}

// allOf is the smallest limit of a pool, by the book.
func allOf(p quota.Pool) int64 {
	switch p.Name {
	case "minute":
		return 55
	case "day":
		return 45
	case "calls":
		return 5
	}
	return 10 // also of the small key
}

// spend makes a call, and gives the units back. It returns a refusal.
func (r *reportRig) spend(process int, p quota.Pool, units int64) error {
	call := quota.Call{Upstream: "hub", Account: p.Account, Charges: quota.Units{p.Name: units}}
	if p.Key != "" {
		call.Keys = map[string]string{p.Name: p.Key}
	}
	made, err := r.all[process].Reserve(r.Context(), call)
	if err == nil {
		r.say("process %d spends %d of %s", process, units, p)
		_, err = made.Release(context.Background())
		if err != nil {
			r.fail("release: %v", err)
		}
		return nil
	}
	var refused *quota.RefusedError
	if !errors.As(err, &refused) || refused.RetryAfter <= 0 || refused.RetryAfter > healsWithin {
		r.fail("process %d, %s: %v", process, p, err)
	}
	r.say("process %d: %v", process, err)
	return err
}

// waits waits as long as a refusal says. Then the call is granted, or another limit refuses
// it.
func (r *reportRig) waits(process int, p quota.Pool, units int64) {
	for range 25 { // each window has its own limit, and its own probes
		err := r.spend(process, p, units)
		var refused *quota.RefusedError
		if !errors.As(err, &refused) {
			return
		}
		r.clock.Advance(refused.RetryAfter)
	}
	r.fail("process %d waited 25 times for %d of %s", process, units, p)
}
