package quota_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// pacific is a ledger whose pool counts days of California, as Google does.
type pacific struct {
	t      *testing.T
	clock  *quota.SimClock
	ledger []*quota.Ledger
	day    time.Time // the beginning of the present one
}

const pacificBook = `
revision: 1
upstreams:
  youtube:
    pools:
      units: {quota: 10000, headroom: 500, windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}, {per: 10m, quota: 2000, headroom: 0}]}
      learned: {quota: 10000, headroom: 500, limit: learn, windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}]}
      plain: {quota: 10000, windows: [{per: day, zone: America/Los_Angeles}]}
      utc: {quota: 10000, windows: [{per: 24h}, {per: day}]}
    methods:
      list: {pool: units, cost: 1}
      read: {pool: units, cost: 1, outage: admit}
      learned: {pool: learned, cost: 9000}
      plain: {pool: plain, cost: 1}
`

// newPacific returns a ledger at this time after midnight of a day.
func newPacific(t *testing.T, day string, since time.Duration, processes int) *pacific {
	t.Helper()
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	p := &pacific{t: t}
	if p.day, err = time.ParseInLocation(time.DateOnly, day, zone); err != nil {
		t.Fatal(err)
	}
	p.clock = quota.NewSimClock(p.day.Add(since))
	store := memstore.New(&memstore.Options{Clock: p.clock})
	for range processes {
		l, err := quota.New(mustParse(t, pacificBook), store, &quota.Options{Clock: p.clock})
		if err != nil {
			t.Fatal(err)
		}
		p.ledger = append(p.ledger, l)
	}
	return p
}

func (p *pacific) spend(method string, calls int) {
	p.t.Helper()
	for range calls {
		must(p.t, p.ledger[0], quota.Call{Upstream: "youtube", Method: method})
	}
}

// count is the upstream's count of a pool, up to a time before now.
func (p *pacific) count(pool string, units int64, late time.Duration) quota.UpstreamCount {
	return quota.UpstreamCount{
		Pool: quota.Pool{Upstream: "youtube", Name: pool}, Units: units, From: p.day, Until: p.clock.Now().Add(-late),
	}
}

func (p *pacific) compare(c quota.UpstreamCount) quota.Comparison {
	p.t.Helper()
	got, err := p.ledger[0].View().Compare(p.t.Context(), c)
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

func (p *pacific) reconcile(process int, c quota.UpstreamCount, down bool) int64 {
	p.t.Helper()
	got, err := p.ledger[process].Admin().Reconcile(p.t.Context(), c, down)
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

// The upstream counts late. Units that were reserved after its count are not missing in
// ours, and must not hide what others have spent either.
func TestCompareWithALateCount(t *testing.T) {
	p := newPacific(t, "2026-11-20", 9*time.Hour, 1)
	p.spend("list", 40)
	p.clock.Advance(30 * time.Minute)
	p.spend("list", 7)
	p.clock.Advance(5 * time.Minute)
	c := p.count("units", 540, 20*time.Minute)
	if diff := cmp.Diff(quota.Comparison{Ours: 47, Late: 7, Missing: 500, Known: true}, p.compare(c)); diff != "" {
		t.Error(diff)
	}
	if n := p.reconcile(0, c, false); n != 500 {
		t.Errorf("recorded %d, want 500", n)
	}
	if diff := cmp.Diff(quota.Comparison{Ours: 47, Others: 500, Late: 7, Known: true}, p.compare(c)); diff != "" {
		t.Error(diff)
	}
	for window, want := range map[string]int64{"24h": 547, "day America/Los_Angeles": 547, "10m": 7} {
		if n := used(t, p.ledger[0], "units", window); n != want {
			t.Errorf("%s: used %d, want %d", window, n, want)
		}
	}
	p.clock.Advance(p.day.AddDate(0, 0, 1).Add(2 * time.Minute).Sub(p.clock.Now()))
	if n := used(t, p.ledger[0], "units", "day America/Los_Angeles"); n != 0 {
		t.Errorf("used %d in the next day, want none: others count until their day ends", n)
	}
}

// A count that comes late, twice, or to two processes records nothing twice, and nothing
// is given back unasked.
func TestReconcileOnce(t *testing.T) {
	p := newPacific(t, "2026-11-20", 9*time.Hour, 2)
	p.spend("list", 40)
	p.clock.Advance(10 * time.Minute)
	for i, step := range []struct {
		process     int
		units, want int64
	}{{0, 140, 100}, {1, 140, 0}, {1, 150, 10}, {0, 150, 0}, {0, 90, 0}, {1, 0, 0}} {
		if n := p.reconcile(step.process, p.count("units", step.units, 5*time.Minute), false); n != step.want {
			t.Errorf("step %d: recorded %d, want %d", i, n, step.want)
		}
	}
	if n := used(t, p.ledger[0], "units", "24h"); n != 150 {
		t.Errorf("used %d, want 150", n)
	}
}

// Only down gives back, once, and never units that the upstream may count later.
func TestReconcileDown(t *testing.T) {
	p := newPacific(t, "2026-11-20", 9*time.Hour, 2)
	p.spend("list", 40)
	p.clock.Advance(10 * time.Minute)
	p.reconcile(0, p.count("units", 140, 5*time.Minute), false)
	p.clock.Advance(40 * time.Minute)
	p.spend("list", 3)
	p.clock.Advance(5*time.Minute + 30*time.Second)
	c := p.count("units", 90, 5*time.Minute) // ends just after the 3
	if diff := cmp.Diff(quota.Comparison{Ours: 43, Others: 100, Missing: -53, Known: true}, p.compare(c)); diff != "" {
		t.Error(diff)
	}
	if n := p.reconcile(0, c, false); n != 0 {
		t.Errorf("recorded %d without down", n)
	}
	if n := p.reconcile(0, c, true); n != -50 {
		t.Errorf("recorded %d, want -50: the 3 may be counted later", n)
	}
	if n := p.reconcile(1, c, true); n != 0 {
		t.Errorf("recorded %d again", n)
	}
	if n := used(t, p.ledger[0], "units", "24h"); n != 93 {
		t.Errorf("used %d, want 93", n)
	}
	if got := p.compare(c); got.Others != 50 {
		t.Errorf("others %d, want the 50 that are left", got.Others)
	}
}

// Two processes that give back the same units at once give them back once.
func TestReconcileDownAtOnce(t *testing.T) {
	p := newPacific(t, "2026-11-20", 9*time.Hour, 1)
	store := &overtaken{Store: memstore.New(&memstore.Options{Clock: p.clock})}
	for i := range 2 {
		l, err := quota.New(mustParse(t, pacificBook), store, &quota.Options{Clock: p.clock})
		if err != nil {
			t.Fatal(err)
		}
		p.ledger = append(p.ledger[:i], l)
	}
	p.spend("list", 40)
	p.clock.Advance(time.Hour)
	c := p.count("units", 10, 5*time.Minute)
	store.meanwhile = func() {
		if n := p.reconcile(1, c, true); n != -30 {
			t.Errorf("the first gives back %d, want -30", n)
		}
	}
	p.reconcile(0, c, true)
	if n := used(t, p.ledger[0], "units", "24h"); n != 10 {
		t.Errorf("used %d, want 10", n)
	}
}

// Units that come back are told, and calls that were refused for them are let through.
func TestReconcileGivesBack(t *testing.T) {
	p := newPacific(t, "2026-11-20", 9*time.Hour, 1)
	var told []quota.Event
	l, err := quota.New(mustParse(t, pacificBook), memstore.New(&memstore.Options{Clock: p.clock}), &quota.Options{
		Clock: p.clock, Observer: quota.ObserverFunc(func(e quota.Event) { told = append(told, e) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.ledger[0] = l
	call := quota.Call{Upstream: "youtube", Charges: quota.Units{"units": 2000}}
	must(t, l, call)
	p.clock.Advance(8 * time.Minute)
	if _, err := l.Reserve(t.Context(), call); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("beyond the limit of ten minutes: %v", err)
	}
	told = nil
	c := p.count("units", 0, 0)
	c.Until = p.clock.Now().Add(31 * time.Minute)
	for range 2 { // the second one finds that nothing is missing
		p.reconcile(0, c, true)
	}
	if len(told) != 1 || told[0].Kind != quota.EventAdjusted || told[0].Pool.String() != "youtube/units" || told[0].Units != -2000 || told[0].Reason == "" {
		t.Errorf("the observer hears %+v", told)
	}
	must(t, l, call)
}

// overtaken is a store on which something happens before it records, once.
type overtaken struct {
	quota.Store
	meanwhile func()
}

func (o *overtaken) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	if then := o.meanwhile; then != nil {
		o.meanwhile = nil
		then()
	}
	return o.Store.Record(ctx, r)
}

// The end of a count is uncertain. Upward by a minute: units that were reserved just after it
// may be in it. Downward by half an hour: units that were reserved before it may not be.
func TestReconcileAtTheEndOfACount(t *testing.T) {
	for after, want := range map[time.Duration]int64{50 * time.Second: 0, 70 * time.Second: 10} {
		p := newPacific(t, "2026-11-20", 9*time.Hour, 1)
		p.clock.Advance(10 * time.Minute)
		p.spend("list", 10)
		c := p.count("units", 10, after)
		p.clock.Advance(5 * time.Minute)
		if n := p.reconcile(0, c, false); n != want {
			t.Errorf("reserved %s after the end: recorded %d of others, want %d", after, n, want)
		}
	}
	for before, want := range map[time.Duration]int64{29 * time.Minute: 0, 31 * time.Minute: -10} {
		p := newPacific(t, "2026-11-20", 9*time.Hour, 1)
		p.spend("list", 10)
		p.clock.Advance(before)
		if n := p.reconcile(0, p.count("units", 0, 0), true); n != want {
			t.Errorf("reserved %s before the end: recorded %d, want %d", before, n, want)
		}
	}
}

// A correction by hand is no call that the upstream has yet to count: it says what the
// upstream has counted.
func TestCompareAfterAnAdjustment(t *testing.T) {
	p := newPacific(t, "2026-11-20", 9*time.Hour, 1)
	p.clock.Advance(10 * time.Minute)
	if _, err := p.ledger[0].Admin().Adjust(t.Context(), quota.Pool{Upstream: "youtube", Name: "units"}, 250, "tried in the console"); err != nil {
		t.Fatal(err)
	}
	if n := p.reconcile(0, p.count("units", 250, 5*time.Minute), false); n != 0 {
		t.Errorf("recorded %d units of others that a person had added", n)
	}
}

// Days of 23 and 25 hours are whole days, also where the 24 hours do not reach back to
// their beginning.
func TestReconcileOnDaysOfOtherLengths(t *testing.T) {
	for day, length := range map[string]time.Duration{"2026-03-08": 23 * time.Hour, "2026-11-01": 25 * time.Hour} {
		p := newPacific(t, day, -time.Hour, 1)
		p.spend("list", 5) // yesterday's
		p.clock.Advance(90 * time.Minute)
		p.spend("list", 20)
		p.clock.Advance(length - 35*time.Minute)
		p.spend("list", 1)
		p.clock.Advance(4 * time.Minute)
		if p.clock.Now().Sub(p.day) != length-time.Minute {
			t.Fatalf("%s: not one minute before its end", day)
		}
		if n := p.reconcile(0, p.count("units", 320, 7*time.Minute), false); n != 300 {
			t.Errorf("%s: recorded %d, want 300", day, n)
		}
		if n := used(t, p.ledger[0], "units", "day America/Los_Angeles"); n != 321 {
			t.Errorf("%s: used %d, want 321", day, n)
		}
	}
}

// A pool that knows only its day cannot say what was reserved since the count. So it says
// what others have spent at least, and gives nothing back.
func TestCompareWithoutASlidingWindow(t *testing.T) {
	p := newPacific(t, "2026-11-20", 9*time.Hour, 1)
	p.spend("plain", 40)
	p.clock.Advance(10 * time.Minute)
	if diff := cmp.Diff(quota.Comparison{Ours: 40, Missing: 60}, p.compare(p.count("plain", 100, 5*time.Minute))); diff != "" {
		t.Error(diff)
	}
	if n := p.reconcile(0, p.count("plain", 30, 5*time.Minute), true); n != 0 {
		t.Errorf("recorded %d", n)
	}
}

func TestCompareBadInput(t *testing.T) {
	p := newPacific(t, "2026-11-20", 9*time.Hour, 1)
	for name, test := range map[string]struct {
		change func(*quota.UpstreamCount)
		want   string
	}{
		"a pool that counts other days":  {func(c *quota.UpstreamCount) { c.Pool.Name = "utc" }, "youtube/utc has no calendar window that began at 2026-11-20T08:00:00Z"},
		"a count of yesterday":           {func(c *quota.UpstreamCount) { c.From = c.From.AddDate(0, 0, -1) }, "has no calendar window that began at"},
		"an unknown pool":                {func(c *quota.UpstreamCount) { c.Pool.Name = "x" }, `no pool "x"`},
		"negative units":                 {func(c *quota.UpstreamCount) { c.Units = -1 }, "units must be 0 to"},
		"a count that ends before it is": {func(c *quota.UpstreamCount) { c.Until = c.From }, "ends before it begins"},
	} {
		c := p.count("units", 5, time.Minute)
		test.change(&c)
		_, err := p.ledger[0].View().Compare(t.Context(), c)
		plain(t, err, quota.ErrBadInput, test.want)
		_, err = p.ledger[0].Admin().Reconcile(t.Context(), c, true)
		plain(t, err, quota.ErrBadInput, test.want)
		if !errors.Is(err, quota.ErrBadInput) {
			t.Error(name)
		}
	}
}

// A larger limit holds in every window of the day, or the other one would keep calls out.
func TestALargerLimitOfADayIsAdopted(t *testing.T) {
	p := newPacific(t, "2026-11-20", 9*time.Hour, 1)
	pool := quota.Pool{Upstream: "youtube", Name: "learned"}
	p.spend("learned", 1)
	if _, err := p.ledger[0].Reserve(t.Context(), quota.Call{Upstream: "youtube", Method: "learned"}); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("18,000 of 9,500: %v", err)
	}
	seen, err := p.ledger[0].Observe(t.Context(), quota.Observation{Pool: pool, Per: 24 * time.Hour, Limit: 50_000, Reset: p.day.AddDate(0, 0, 1)})
	if err != nil || seen.Limit != 50_000 || seen.Quota != 10_000 {
		t.Fatalf("seen %+v: %v", seen, err)
	}
	p.spend("learned", 4)
}

// A limit that was adopted is the one that people see.
func TestUsageShowsALimitThatWasAdopted(t *testing.T) {
	p := newPacific(t, "2026-11-20", 9*time.Hour, 1)
	if _, err := p.ledger[0].Observe(t.Context(), quota.Observation{Pool: quota.Pool{Upstream: "youtube", Name: "units"}, Per: 24 * time.Hour, Limit: 4_000}); err != nil {
		t.Fatal(err)
	}
	limits := func() (all []int64) {
		usage, err := p.ledger[0].View().Usage(t.Context(), "youtube", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range usage {
			if u.Pool.Name == "units" {
				for _, w := range u.Allowances {
					all = append(all, w.Limit, w.Remaining)
				}
			}
		}
		return all
	}
	if diff := cmp.Diff([]int64{3800, 3800, 3800, 3800, 2000, 2000}, limits()); diff != "" {
		t.Error(diff)
	}
	p.clock.Advance(24*time.Hour + 10*time.Minute)
	if diff := cmp.Diff([]int64{9500, 9500, 9500, 9500, 2000, 2000}, limits()); diff != "" {
		t.Error(diff)
	}
}

// Calls that were admitted in an outage are the upstream's too, and nobody else's. They are
// charged before others are, also those of another process.
func TestReconcileAfterAnOutage(t *testing.T) {
	p := newPacific(t, "2026-11-20", 9*time.Hour, 1)
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), "memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	store := &broken{Store: memstore.New(&memstore.Options{Clock: p.clock}), reserve: true}
	for i := range 2 {
		l, err := quota.New(mustParse(t, pacificBook), store, &quota.Options{Clock: p.clock, Journal: j})
		if err != nil {
			t.Fatal(err)
		}
		p.ledger = append(p.ledger[:i], l)
	}
	if err := p.ledger[1].Replay(t.Context()); err != nil { // it has nothing to wait for
		t.Fatal(err)
	}
	p.spend("read", 5)
	store.reserve = false
	p.clock.Advance(10 * time.Minute)
	if n := p.reconcile(1, p.count("units", 105, 5*time.Minute), false); n != 100 {
		t.Errorf("recorded %d, want the 100 that were not admitted", n)
	}
	if err := p.ledger[0].Replay(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := used(t, p.ledger[0], "units", "24h"); n != 105 {
		t.Errorf("used %d, want 105", n)
	}
}
