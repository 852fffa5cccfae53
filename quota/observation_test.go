package quota_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

const hubBook = `
revision: 1
upstreams:
  hub:
    pools:
      core: {quota: 5000, windows: [{per: 1h}]}
      large: {quota: 100, headroom: 10, limit: learn, windows: [{per: 1h}]}
      daily: {quota: 100, windows: [{per: 10m, quota: 50}, {per: day}]}
      tokens: {quota: 100, windows: [{per: 1m}]}
    feedback:
      - {pool: core, remaining: {header: X-Core-Left}}
      - {pool: tokens, remaining: {header: X-Left}, refills: true, counts: estimate}
    classes: {backfill: {keep_free: 50%}}
    methods:
      get: {pool: core, cost: 1}
      list: {pool: large, cost: 1}
      daily: {pool: daily, cost: 1}
      chat: {pool: tokens, cost: 20}
      both: {charge: {core: 1, tokens: 1}}
      three: {charge: {core: 3, tokens: 9}}
`

// counted is a store that counts its round trips.
type counted struct {
	quota.Store
	records, reserves atomic.Int64
}

func (s *counted) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	s.records.Add(1)
	return s.Store.Record(ctx, r)
}

func (s *counted) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	s.reserves.Add(1)
	return s.Store.Reserve(ctx, r)
}

// hub is the process of a client, and maybe others that share its ledger.
type hub struct {
	t      *testing.T
	clock  *quota.SimClock
	store  *counted
	ledger []*quota.Ledger
	events []quota.Event
}

func newHub(t *testing.T, processes int) *hub {
	h := &hub{t: t, clock: quota.NewSimClock(noon)}
	h.store = &counted{Store: memstore.New(&memstore.Options{Clock: h.clock})}
	for range processes {
		l, err := quota.New(mustParse(t, hubBook), h.store, &quota.Options{Clock: h.clock, Observer: quota.ObserverFunc(func(e quota.Event) {
			if e.Kind == quota.EventOthers || e.Kind == quota.EventLimit {
				h.events = append(h.events, e)
			}
		})})
		if err != nil {
			t.Fatal(err)
		}
		h.ledger = append(h.ledger, l)
	}
	return h
}

// hear takes a report of what is left of a pool's limit, and of the reset.
func (h *hub) hear(process int, pool string, left int64, reset time.Time, more ...func(*quota.Observation)) quota.Observed {
	h.t.Helper()
	o := quota.Observation{Pool: poolOf(pool), Remaining: &left, Reset: reset}
	for _, change := range more {
		change(&o)
	}
	seen, err := h.ledger[process].Observe(h.t.Context(), o)
	if err != nil {
		h.t.Fatal(err)
	}
	return seen
}

func poolOf(name string) quota.Pool {
	return quota.Pool{Upstream: "hub", Account: "default", Name: name}
}

func (h *hub) flush() {
	h.t.Helper()
	for _, l := range h.ledger {
		if err := l.Flush(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *hub) reserve(process int, method string) *quota.Reservation {
	h.t.Helper()
	return must(h.t, h.ledger[process], quota.Call{Method: method})
}

// used is what each window of a pool counts, after all that was heard is written.
func (h *hub) used(pool string) (used []int64) {
	h.t.Helper()
	h.flush()
	all, err := h.ledger[0].View().Usage(h.t.Context(), "hub", "")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, u := range all {
		if u.Pool.Name == pool {
			for _, w := range u.Windows {
				used = append(used, w.Used)
			}
		}
	}
	return used
}

func (h *hub) counts(pool string, want ...int64) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.used(pool)); diff != "" {
		h.t.Errorf("%s counts (-want +got):\n%s", pool, diff)
	}
}

// others is what the spend says that others spent.
func (h *hub) others(pool string) (units int64) {
	h.t.Helper()
	all, err := h.ledger[0].View().Spend(h.t.Context(), quota.SpendQuery{}, quota.ByPool, quota.ByMethod)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, s := range all {
		if s.Pool.Name == pool && s.Labels.Method == quota.Others {
			units += s.Units
		}
	}
	return units
}

var reset = noon.Add(20 * time.Minute)

func TestUnitsOfOthersCountUntilTheUpstreamsReset(t *testing.T) {
	h := newHub(t, 1)
	h.reserve(0, "get")
	h.hear(0, "core", 4900, reset)
	h.counts("core", 100)
	if got := h.others("core"); got != 99 {
		t.Errorf("others spent %d, want 99", got)
	}
	if len(h.events) != 1 || h.events[0].Kind != quota.EventOthers || h.events[0].Units != 99 || h.events[0].Pool != poolOf("core") {
		t.Errorf("events %+v", h.events)
	}
	h.clock.Set(reset.Add(-time.Second))
	h.counts("core", 100)
	h.clock.Set(reset.Add(3 * time.Second)) // a ring is at most one precision late
	h.counts("core", 1)
}

// TestAReportOfTheLastSecondHidesNoOther: what it says counts for that second alone, so the
// ledger does not know what the next window's report says.
func TestAReportOfTheLastSecondHidesNoOther(t *testing.T) {
	h := newHub(t, 1)
	h.hear(0, "core", 4000, noon.Add(time.Second))
	h.flush()
	h.clock.Advance(4 * time.Second) // a ring is at most one precision late
	h.hear(0, "core", 4500, noon.Add(time.Hour))
	h.counts("core", 500)
}

// TestAVerdictOfYesterdayHidesNoReport: what a calendar counted has left at midnight, however lately
// the store said so.
func TestAVerdictOfYesterdayHidesNoReport(t *testing.T) {
	l, clock, _ := observing(t, `
revision: 1
upstreams:
  api: {pools: {units: {quota: 100, windows: [{per: day}]}}, methods: {a: 5}, feedback: [{pool: units, used: {header: X-Used}}]}
`, nil)
	midnight := noon.Truncate(24 * time.Hour).Add(24 * time.Hour)
	clock.Set(midnight.Add(-10 * time.Minute))
	for range 10 {
		must(t, l, quota.Call{Method: "a"})
	}
	clock.Set(midnight.Add(10 * time.Minute))
	used := int64(30)
	if _, err := l.Observe(t.Context(), quota.Observation{Pool: quota.Pool{Upstream: "api", Account: "default", Name: "units"}, Used: &used, Reset: midnight.Add(24 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := unitsUsed(t, l, "default"); got != used {
		t.Errorf("the day has %d units, want %d", got, used)
	}
}

// TestARefusalHidesNoReport: units that refuse a call leave when the refusal says so.
func TestARefusalHidesNoReport(t *testing.T) {
	h := newHub(t, 2)
	h.hear(0, "core", 0, noon.Add(time.Hour)) // others have spent all
	h.flush()
	h.clock.Advance(time.Hour)
	if _, err := h.ledger[1].Reserve(t.Context(), quota.Call{Method: "get"}); err == nil {
		t.Fatal("it is not refused, so it shows nothing")
	}
	h.hear(1, "core", 0, noon.Add(2*time.Hour)) // and again
	h.clock.Advance(5 * time.Second)
	h.hear(1, "core", 0, noon.Add(2*time.Hour))
	h.counts("core", 5000)
}

// TestUnitsOfTheLastWindowHideNoReport: they leave with the lateness of a ring, and are none of the
// next window.
func TestUnitsOfTheLastWindowHideNoReport(t *testing.T) {
	h := newHub(t, 2)
	h.hear(0, "core", 0, noon.Add(time.Hour)) // others have spent all
	h.flush()
	h.clock.Advance(time.Hour)
	for range 2 {
		h.hear(1, "core", 0, noon.Add(2*time.Hour)) // and again
		h.flush()
		h.clock.Advance(5 * time.Second)
	}
	h.counts("core", 5000)
}

func TestReportsAreAMaximum(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(h *hub)
		want int64
	}{
		{"reports that say the same", func(h *hub) { h.hear(0, "core", 4900, reset); h.flush(); h.hear(0, "core", 4900, reset) }, 100},
		{"in any order", func(h *hub) { h.hear(0, "core", 4900, reset); h.flush(); h.hear(0, "core", 4950, reset) }, 100},
		{"before any is written", func(h *hub) { h.hear(0, "core", 4900, reset); h.hear(0, "core", 4950, reset) }, 100},
		{"of two processes", func(h *hub) { h.hear(0, "core", 4900, reset); h.flush(); h.hear(1, "core", 4890, reset) }, 110},
		{"of two processes that read the reset differently", func(h *hub) {
			h.hear(0, "core", 4900, reset)
			h.flush()
			h.hear(1, "core", 4900, reset.Add(2*time.Second))
			h.flush()
			h.hear(1, "core", 4900, reset.Add(-2*time.Second))
		}, 100},
		{"with ours between them", func(h *hub) {
			h.hear(0, "core", 4900, reset)
			h.flush()
			h.reserve(1, "get")
			h.hear(0, "core", 4899, reset)
		}, 101},
		{"of what is in flight", func(h *hub) { h.reserve(1, "get"); h.reserve(1, "get"); h.hear(0, "core", 4999, reset) }, 2},
		{"of a window that has ended", func(h *hub) { h.hear(0, "core", 4900, noon.Add(-time.Second)) }, 0},
		{"that never give back", func(h *hub) { h.reserve(0, "get"); h.hear(0, "core", 5000, reset) }, 1},
		{"of the next window beside this one's", func(h *hub) {
			h.hear(0, "core", 4900, reset)
			h.flush()
			h.clock.Set(reset.Add(time.Minute))
			h.hear(0, "core", 4990, reset.Add(time.Hour))
		}, 10},
		{"late, of the window before", func(h *hub) {
			h.clock.Set(reset.Add(time.Minute))
			h.hear(0, "core", 4990, reset.Add(time.Hour))
			h.flush()
			h.hear(0, "core", 100, reset)
		}, 10},
		{"of more than there is", func(h *hub) { h.hear(0, "core", -5, reset) }, 0},
		{"of a bucket that refills", func(h *hub) {
			refills := func(o *quota.Observation) { o.Refills = true }
			h.hear(0, "core", 4900, reset, refills)
			h.flush()
			h.clock.Advance(time.Second)
			h.hear(0, "core", 4890, reset.Add(time.Second), refills)
		}, 110},
		{"without a reset", func(h *hub) {
			h.hear(0, "core", 4900, time.Time{})
			h.flush()
			h.clock.Advance(time.Minute)
			h.hear(1, "core", 4890, time.Time{})
		}, 110},
		{"with a reset, after one without that was not written yet", func(h *hub) {
			h.hear(0, "core", 4900, reset)
			h.flush()
			h.clock.Set(reset.Add(time.Minute))
			h.hear(0, "core", 4990, time.Time{})
			h.clock.Advance(time.Second)
			h.hear(0, "core", 4900, h.clock.Now().Add(time.Hour))
		}, 100},
		{"of a window that is longer than ours", func(h *hub) {
			h.hear(0, "core", 4900, noon.Add(24*time.Hour))
			h.flush()
			h.clock.Advance(2 * time.Hour)
			h.hear(0, "core", 4890, noon.Add(24*time.Hour))
		}, 110},
		{"of a window that is longer than ours, with ours between them", func(h *hub) {
			h.hear(0, "core", 4990, noon.Add(24*time.Hour))
			h.flush()
			h.clock.Advance(5 * time.Minute)
			must(h.t, h.ledger[0], quota.Call{Charges: quota.Units{"core": 4000}})
			h.clock.Set(noon.Add(time.Hour))
			h.hear(0, "core", 990, noon.Add(24*time.Hour))
			h.flush()
			h.clock.Advance(10 * time.Minute)
			h.reserve(0, "get")
			h.hear(0, "core", 989, noon.Add(24*time.Hour))
		}, 4011},
		{"that were written late, by a process that was frozen", func(h *hub) {
			h.hear(0, "core", 4900, noon.Add(24*time.Hour))
			h.clock.Advance(2 * time.Hour)
			h.flush()
			h.hear(0, "core", 4900, noon.Add(24*time.Hour))
		}, 100},
		{"by another clock", func(h *hub) {
			fast := func(o *quota.Observation) { o.Date = noon.Add(30 * time.Minute) }
			h.hear(0, "core", 4900, noon.Add(25*time.Minute), fast) // it has ended
			h.hear(0, "core", 4950, noon.Add(50*time.Minute), fast)
			h.flush()
			h.clock.Set(noon.Add(19 * time.Minute))
		}, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHub(t, 2)
			c.do(h)
			h.counts("core", c.want)
		})
	}
}

// A report of used units, or of a percentage, means the same as one of what is left.
func TestFormsOfReports(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name string
		o    quota.Observation
		want int64
	}{
		{"remaining", quota.Observation{Remaining: n(60)}, 40},
		{"used", quota.Observation{Used: n(40)}, 40},
		{"used of a limit", quota.Observation{Used: n(40), Limit: 100}, 40},
		{"a percentage", quota.Observation{UsedPercent: n(40)}, 40},
		{"an absurd percentage", quota.Observation{UsedPercent: n(1 << 62)}, 100},
		{"remaining of a lowered limit", quota.Observation{Remaining: n(30), Limit: 50}, 20},
		{"used of a lowered limit", quota.Observation{Used: n(20), Limit: 50}, 20},
		{"remaining of a larger limit", quota.Observation{Remaining: n(170), Limit: 200}, 0},
		{"little of a larger limit", quota.Observation{Remaining: n(30), Limit: 200}, 70},
		{"nothing", quota.Observation{}, 0},
		{"nothing but a larger limit", quota.Observation{Limit: 200}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHub(t, 1)
			c.o.Pool, c.o.Per, c.o.ResetIn = poolOf("daily"), 24*time.Hour, 3*time.Hour
			if _, err := h.ledger[0].Observe(t.Context(), c.o); err != nil {
				t.Fatal(err)
			}
			if got := h.used("daily"); got[1] != c.want {
				t.Errorf("%d are used, want %d", got[1], c.want)
			}
		})
	}
}

func TestAReportIsAboutOneWindow(t *testing.T) {
	h := newHub(t, 1)
	h.hear(0, "daily", 90, time.Time{}) // the longest, until its midnight
	h.counts("daily", 0, 10)            // too long ago for the other
	h.hear(0, "daily", 45, time.Time{}, func(o *quota.Observation) { o.Per, o.ResetIn = 10*time.Minute, time.Minute })
	h.counts("daily", 5, 15)
	h.clock.Advance(2 * time.Minute)
	h.counts("daily", 0, 15)
	if _, err := h.ledger[0].Observe(t.Context(), quota.Observation{Pool: poolOf("daily"), Per: time.Hour}); err == nil {
		t.Error("a window that the pool does not have is no error")
	}
}

// The answers of a client that has the upstream for itself cost no round trip.
func TestReportsThatSayNothingNewAreNotWritten(t *testing.T) {
	for _, method := range []string{"get", "both"} {
		h := newHub(t, 1)
		used := int64(0)
		for range 200 {
			h.reserve(0, method)
			used++
			h.hear(0, "core", 5000-used, reset)
			h.clock.Advance(time.Second)
		}
		h.flush()
		if n := h.store.records.Load(); n > 0 {
			t.Errorf("%s: %d reports were written, want none", method, n)
		}
		h.counts("core", 200)
	}
}

// A report that could change the next decision is written before it, others later.
func TestReportsAreWrittenBeforeTheyMatter(t *testing.T) {
	h := newHub(t, 1)
	h.reserve(0, "get")
	h.hear(0, "core", 4998, reset)
	h.reserve(0, "get")
	if n := h.store.records.Load(); n != 0 {
		t.Errorf("a unit of others was written at once")
	}
	h.clock.Advance(time.Second)
	h.reserve(0, "get")
	if n := h.store.records.Load(); n != 1 {
		t.Errorf("after a second %d reports were written, want 1", n)
	}
	h.hear(0, "core", 0, reset)
	_, err := h.ledger[0].Reserve(t.Context(), quota.Call{Method: "get"})
	var e *quota.RefusedError
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if !e.RetryAt.After(reset.Add(-time.Second)) || e.RetryAt.After(reset.Add(5*time.Second)) {
		t.Errorf("refused until %s, want the reset %s", e.RetryAt, reset)
	}
	h.counts("core", 5000)
}

// A report that nothing follows is written by itself.
func TestALastReportIsWrittenByItself(t *testing.T) {
	h := newHub(t, 1)
	h.hear(0, "core", 4998, reset)
	for end := time.Now().Add(time.Minute); h.store.records.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it was never written")
		}
	}
}

func TestLimitsInReports(t *testing.T) {
	limit := func(n int64) func(*quota.Observation) { return func(o *quota.Observation) { o.Limit = n } }
	t.Run("that are lower hold, and are told once per reset", func(t *testing.T) {
		h := newHub(t, 1)
		if seen := h.hear(0, "core", 1000, reset, limit(1000)); seen.Limit != 1000 || seen.Quota != 5000 || !seen.Until.Equal(noon.Add(time.Hour)) {
			t.Errorf("told %+v", seen)
		}
		if seen := h.hear(0, "core", 999, reset, limit(1000)); seen != (quota.Observed{}) {
			t.Errorf("told again: %+v", seen)
		}
		h.counts("core", 1)
		h.clock.Set(reset.Add(time.Minute))
		if seen := h.hear(0, "core", 1000, reset.Add(time.Hour), limit(1000)); seen.Limit != 1000 {
			t.Errorf("the next reset was not reported")
		}
	})
	t.Run("that are larger are ignored", func(t *testing.T) {
		h := newHub(t, 1)
		if seen := h.hear(0, "core", 9000, reset, limit(9000)); seen != (quota.Observed{}) {
			t.Errorf("told %+v", seen)
		}
	})
	t.Run("that are larger hold if the pool learns", func(t *testing.T) {
		h := newHub(t, 1)
		if seen := h.hear(0, "large", 990, reset, limit(1000)); seen.Limit != 1000 {
			t.Errorf("told %+v", seen)
		}
		h.counts("large", 10)
		if r := h.reserve(0, "list"); r.Limit != 990 { // less the headroom
			t.Errorf("the limit is %d, want 990", r.Limit)
		}
		if r := must(t, h.ledger[0], quota.Call{Method: "list", Class: "backfill"}); r.Limit != 495 {
			t.Errorf("that of the class is %d, want 495", r.Limit)
		}
		h.clock.Set(reset)
		if r := h.reserve(0, "list"); r.Limit != 90 {
			t.Errorf("after the reset the limit is %d, want 90", r.Limit)
		}
	})
	t.Run("alone take the place of the quota", func(t *testing.T) {
		h := newHub(t, 1)
		h.hear(0, "core", -1, reset, limit(40))
		if r := h.reserve(0, "get"); r.Limit != 40 || r.Used != 1 {
			t.Errorf("%d of %d are used, want 1 of 40", r.Used, r.Limit)
		}
	})
}

// An upstream that counts what was requested gets nothing back.
func TestRequestedUnitsStay(t *testing.T) {
	h := newHub(t, 1)
	if _, err := h.reserve(0, "chat").Settle(t.Context(), quota.Units{"tokens": 5}); err != nil {
		t.Fatal(err)
	}
	h.counts("tokens", 20)
	if _, err := h.reserve(0, "chat").Settle(t.Context(), quota.Units{"tokens": 25}); err != nil {
		t.Fatal(err)
	}
	h.counts("tokens", 45)
	if _, err := h.reserve(0, "chat").Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.counts("tokens", 45) // that one was never sent
}

// So it does if another process settles, by the text of the token.
func TestRequestedUnitsStayByToken(t *testing.T) {
	h := newHub(t, 2)
	settle := func(method string, units quota.Units) quota.Settlement {
		t.Helper()
		token, err := quota.ParseToken(h.reserve(0, method).Token().String())
		if err != nil {
			t.Fatal(err)
		}
		s, err := h.ledger[1].Settle(t.Context(), token, units)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	settle("chat", quota.Units{"tokens": 5})
	h.counts("tokens", 20)
	settle("chat", quota.Units{"tokens": 25})
	h.counts("tokens", 45)
	settle("chat", quota.Units{"tokens": 0}) // free of charge as a whole
	h.counts("tokens", 45)
	if s := settle("three", quota.Units{"core": 1, "tokens": 4}); s.Back != 2 {
		t.Errorf("%d units came back, want the 2 of core alone", s.Back)
	}
	h.counts("tokens", 54)
}

// Several processes and another spender share a quota that the upstream counts by the
// hour. Answers come late and in any order. It refuses nobody.
func TestOthersShareTheQuota(t *testing.T) {
	const (
		quotaOf   = 5000
		headroom  = 500
		processes = 4
	)
	h := newHub(t, processes)
	for i, l := range h.ledger {
		b := mustParse(t, `{revision: 1, upstreams: {hub: {pools: {core: {quota: 5000, headroom: 500, windows: [{per: 1h}]}}, methods: {get: {pool: core, cost: 1}}}}}`)
		if err := l.SetBook(b); err != nil {
			t.Fatal(i, err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	type answer struct {
		process int
		left    int64
		reset   time.Time
	}
	var late []answer
	var ours, others, hours, refused int64
	var counted int64
	ends := noon.Add(time.Hour)
	for at := noon; at.Before(noon.Add(5 * time.Hour)); at = at.Add(500 * time.Millisecond) {
		h.clock.Set(at)
		if !at.Before(ends) {
			ends, counted, hours = ends.Add(time.Hour), 0, hours+1
		}
		if rng.IntN(180) == 0 { // bursts of 2% of the quota, 30% in an hour
			burst := min(quotaOf*2/100, quotaOf-counted)
			counted, others = counted+burst, others+burst
		}
		for range 4 {
			p := rng.IntN(processes)
			if _, err := h.ledger[p].Reserve(t.Context(), quota.Call{Method: "get"}); err != nil {
				continue
			}
			if counted++; counted > quotaOf {
				refused++
			}
			ours++
			late = append(late, answer{p, max(quotaOf-counted, 0), ends.Add(time.Duration(rng.IntN(3)-1) * time.Second)})
		}
		for len(late) > 12 {
			i := rng.IntN(len(late))
			h.hear(late[i].process, "core", late[i].left, late[i].reset)
			late = append(late[:i], late[i+1:]...)
		}
	}
	t.Logf("ours %d, others %d in 5 hours; %d refused; %d reservations, %d reports written", ours, others, refused, h.store.reserves.Load(), h.store.records.Load())
	if refused > 0 {
		t.Errorf("the upstream refused %d calls", refused)
	}
	if most := 5*quotaOf - others; ours < (most-5*headroom)*95/100 {
		t.Errorf("of %d that others left, ours are %d", most, ours)
	}
	if most := h.store.reserves.Load() / 10; h.store.records.Load() > most {
		t.Errorf("%d reports were written for %d reservations, want %d at most", h.store.records.Load(), h.store.reserves.Load(), most)
	}
}

// Reports of a short window are written first: what others spent in ten minutes is part of their day.
func TestOthersOfAShortWindowArePartOfTheDay(t *testing.T) {
	for range 10 { // windows are remembered in no order
		h := newHub(t, 1)
		h.hear(0, "daily", 20, noon.Add(5*time.Minute), func(o *quota.Observation) { o.Per = 10 * time.Minute })
		h.hear(0, "daily", 60, time.Time{}, func(o *quota.Observation) { o.Per = 24 * time.Hour })
		h.counts("daily", 30, 40)
	}
}

// A report that says nothing new is not written again.
func TestAReportThatIsKnown(t *testing.T) {
	h := newHub(t, 1)
	for range 3 {
		h.hear(0, "core", 4900, reset)
		h.flush()
		h.clock.Advance(6 * time.Minute)
	}
	if n := h.store.records.Load(); n != 1 {
		t.Errorf("it was written %d times", n)
	}
}

// Calls after the upstream's reset count in its next window, also if no answer has reported that one.
func TestCallsAfterTheResetAreOurs(t *testing.T) {
	for name, test := range map[string]struct {
		calls          []time.Duration // after noon
		others, writes int64           // 2 are used in the end
	}{
		"both in the next window":                  {[]time.Duration{30 * time.Minute, 40 * time.Minute}, 0, 0},
		"one in a window that nobody reported":     {[]time.Duration{30 * time.Minute, 90 * time.Minute}, 1, 1},
		"one before the reset, one after the next": {[]time.Duration{10 * time.Minute, 90 * time.Minute}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, 1)
			h.hear(0, "core", 5000, reset)
			for _, at := range test.calls {
				h.clock.Set(noon.Add(at))
				h.reserve(0, "get")
			}
			last := test.calls[len(test.calls)-1]
			h.clock.Set(noon.Add(last + 10*time.Minute)) // the last verdict is of a while ago
			h.hear(0, "core", 4998, reset.Add(last.Truncate(time.Hour)+time.Hour))
			h.flush()
			if n := h.others("core"); n != test.others || h.store.records.Load() != test.writes {
				t.Errorf("others have spent %d by %d writes, want %d by %d", n, h.store.records.Load(), test.others, test.writes)
			}
		})
	}
}
