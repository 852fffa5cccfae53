package storetest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
	"pgregory.net/rapid"
)

// testModel runs random operations on the store and on the model, and compares all
// answers.
//
// The model is exact for the counts of each kind of window, grants and refusals with
// every field of their verdicts, receipts, settlements, records in the past and
// corrections, blocks, pages that are laid out again or re-based, the results of Look,
// and the members of families. A ring is also compared with the exact log: it never
// counts less, and is at most one precision late.
//
// The clock moves at random: forward and back by microseconds or weeks, and years
// ahead and back again. Each page sees only some of that, so some pages of a request
// are ahead of the clock and others behind it.
//
// A block until the very end of 1969 stands a microsecond longer, because 0 means no
// block to a store.
//
// The model leaves one thing open: a store may or may not keep a page that was only
// refused since it was made or laid out. Such pages are charged before it can matter
// (see settled).
//
// The model leaves out full counters (see the table of record), ids older than their
// receipts' life, receipts across a clock that had been years ahead, full families
// (see families.go), spend, and the moment at which a page was born.
func testModel(t *testing.T, h Harness) {
	needClock(t, h)
	operations := h.Operations
	if operations == 0 {
		operations = scaled(3_000, 100_000)
	}
	const steps = 60
	setFlag(t, "rapid.steps", steps)
	setFlag(t, "rapid.checks", uint64(operations+operations/2)/steps+1)
	seed := suiteSeed(t)

	var made, granted, refused int
	rapid.Check(t, func(rt *rapid.T) {
		s := scope{TB: t}
		defer s.close()
		tr := newTrial(rt, &s, h)
		defer func() {
			made += tr.operations
			granted += tr.granted
			refused += tr.refused
		}()
		rt.Repeat(tr.actions())
	})
	t.Logf("%d operations (%d granted, %d refused); to see them again: -rapid.seed=%s", made, granted, refused, seed)
}

// suiteSeed returns the seed of all random tests of the suite: -rapid.seed, or else 1.
// A soak uses another seed each time.
func suiteSeed(t *testing.T) string {
	t.Helper()
	random := uint64(1)
	if soak() {
		random = rand.Uint64()
	}
	return setFlag(t, "rapid.seed", random)
}

// setFlag sets a flag of rapid for this test, unless it was given, and returns
// its value.
func setFlag(t *testing.T, name string, value uint64) string {
	t.Helper()
	f := flag.Lookup(name)
	given := false
	flag.Visit(func(g *flag.Flag) { given = given || g.Name == name })
	if !given {
		before := f.Value.String()
		if err := f.Value.Set(strconv.FormatUint(value, 10)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(before) })
	}
	return f.Value.String()
}

// scope closes the store of one timeline when that timeline ends.
type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) close() {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
}

// trial is one random timeline: a store, the model of it, and a clock.
type trial struct {
	tb         testing.TB
	h          Harness
	stores     []quota.Store // on the same data
	clock      instant
	home       instant // where the clock was before it jumped years ahead; 0: it did not
	pools      []*modelPool
	spare      *modelPool   // another key of the last pool
	family     *modelFamily // nil: the store keeps none
	receipts   []*modelReceipt
	ids        int
	operations int
	granted    int
	refused    int
}

// modelPool is a pool, or a family's member, with the model of its page.
type modelPool struct {
	pool     quota.Pool
	windows  []window.Limit
	revision int64
	maxKeys  int
	family   *modelFamily // of a member, or of a page of a keyed pool
	page     naivePage
	unsure   bool // only refused since it was made or laid out, or kept for a receipt: stores may have noted that or not
	lapsed   bool // it may have been forgotten, when nothing of it counted
	reborn   bool // and made again, which not every process need know
}

// beginnings are instants near a change of a clock or a calendar.
var beginnings = []string{
	"2026-03-02T12:00:00Z",
	"2026-03-08T09:59:00Z", // Los Angeles springs forward at 10:00
	"2026-11-01T08:58:30Z", // and falls back at 09:00
	"2026-04-04T14:58:00Z", // Lord Howe falls back by half an hour at 15:00
	"2018-11-04T02:58:00Z", // São Paulo skips midnight at 03:00
	"2027-12-31T23:59:58Z",
	"1969-12-31T23:59:57Z",
	"1901-12-13T20:45:50Z", // 32 bits of seconds begin
	"2100-02-28T23:59:30Z", // not a leap year
	"2179-12-31T23:59:58Z",
}

func newTrial(rt *rapid.T, tb testing.TB, h Harness) *trial {
	begin, err := time.Parse(time.RFC3339, rapid.SampledFrom(beginnings).Draw(rt, "begin"))
	if err != nil {
		tb.Fatal(err)
	}
	s := h.Open(tb)
	tr := &trial{tb: tb, h: h, stores: []quota.Store{s}}
	tr.setClock(window.At(begin))
	if h.Share != nil {
		tr.stores = append(tr.stores, h.Share(tb, s))
	}
	for i := range 3 {
		tr.pools = append(tr.pools, &modelPool{
			pool:     quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: fmt.Sprintf("pool%d", i)},
			windows:  drawWindows(rt),
			revision: 1,
		})
	}
	tr.spare = keyedPool(rt, tr.pools[2])
	if h.Families {
		tr.family = newModelFamily(rt)
	}
	return tr
}

// catalog lists the windows that pools can have.
var catalog = []window.Spec{
	{Per: time.Second, Precision: time.Second},
	{Per: 2 * time.Second, Algorithm: window.Exact},
	{Per: 10 * time.Second, Precision: time.Second},
	{Per: 9 * time.Second, Precision: 9 * time.Second},
	{Per: time.Minute, Precision: 250 * time.Millisecond},
	{Per: time.Hour, Precision: time.Minute},
	{Per: 24 * time.Hour},
	{Per: 15 * time.Second, Algorithm: window.Exact},
	{Per: 10 * time.Minute, Algorithm: window.Exact},
	{Per: 48 * time.Hour, Algorithm: window.Exact},
	{Per: 10 * time.Second, Algorithm: window.Estimate},
	{Per: 12500 * time.Millisecond, Algorithm: window.Estimate},
	{Per: time.Hour, Algorithm: window.Estimate},
	{Per: 15 * time.Second, Algorithm: window.InFlight},
	{Per: 10 * time.Minute, Algorithm: window.InFlight},
	{Per: 10 * time.Second, Precision: time.Second, Late: 1500 * time.Millisecond},
	{Per: time.Minute, Precision: 5 * time.Second, Wide: true},
	{Per: time.Hour, Precision: time.Minute, Late: 5 * time.Minute, Wide: true},
	{Per: time.Second, Algorithm: window.Leaky, Rate: 3},
	{Per: 7 * time.Second, Algorithm: window.Leaky, Rate: 50},
	{Per: 10 * time.Minute, Algorithm: window.Leaky, Rate: 45},
	{Per: 24 * time.Hour, Algorithm: window.Leaky, Rate: 11},
	{Period: window.Minute, Zone: zone("UTC")},
	{Period: window.Minute, Zone: zone("America/Los_Angeles"), Lag: 10 * time.Second},
	{Period: window.Hour, Zone: zone("Asia/Kathmandu")},
	{Period: window.Day, Zone: zone("America/Los_Angeles")},
	{Period: window.Day, Zone: zone("America/Sao_Paulo"), Lag: time.Hour},
	{Period: window.Day, Zone: zone("UTC"), Lag: -1},
	{Period: window.Week, Zone: zone("Australia/Lord_Howe")},
	{Period: window.Month, Zone: zone("Europe/Berlin")},
}

func zone(name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return z
}

// drawWindows returns one to three different windows.
func drawWindows(rt *rapid.T) []window.Limit {
	specs := rapid.SliceOfNDistinct(rapid.IntRange(0, len(catalog)-1), 1, 3, rapid.ID[int]).Draw(rt, "windows")
	for _, i := range specs {
		if catalog[i].InFlight() { // the only window of its pool
			specs = []int{i}
		}
	}
	var limits []window.Limit
	for _, i := range specs {
		limits = append(limits, limited(rapid.Int64Range(1, 120).Draw(rt, "limit"), catalog[i]))
	}
	return limits
}

// setClock moves the clock. Before that, stores give their blocks back: the model counts units when
// a call is sent, and a store counts them when their block is taken.
func (tr *trial) setClock(now instant) {
	if now == 0 {
		now = 1 // a store takes 0 for an instant that was not seen
	}
	tr.giveBack(nil)
	tr.clock = now
	for _, r := range tr.receipts {
		r.high = max(r.high, now)
	}
	tr.h.SetClock(tr.tb, tr.stores[0], now.Time())
}

// store draws one of the stores that share the data. The others give their blocks back, because the
// model does not count blocks as used.
func (tr *trial) store(rt *rapid.T) quota.Store {
	tr.operations++
	if len(tr.stores) == 1 {
		return tr.stores[0]
	}
	s := tr.stores[rapid.IntRange(0, len(tr.stores)-1).Draw(rt, "process")]
	tr.giveBack(s)
	return s
}

// giveBack lets all stores but one give back what they have in blocks.
func (tr *trial) giveBack(but quota.Store) {
	for _, s := range tr.stores {
		if s != but && tr.h.GiveBack != nil {
			tr.h.GiveBack(tr.tb, s)
		}
	}
}

// charge returns a charge of a pool by the latest price book.
func (p *modelPool) charge(units int64) quota.Charge {
	return quota.Charge{Pool: p.pool, Units: units, Windows: p.windows, Revision: p.revision, MaxKeys: p.maxKeys}
}

// enter prepares the model's page for a charge, as the store must prepare its own: it
// lays the page out by the latest book, and advances it to the instant that counts.
func (p *modelPool) enter(clock instant) (now instant, rebased bool) {
	if p.page.windows == nil {
		p.page = naivePage{revision: p.revision, latest: clock}
		p.page.layOut(clock, p.windows)
		p.unsure = true
	}
	if p.page.revision < p.revision {
		p.unsure = true
		return p.page.relayOut(clock, p.revision, p.windows)
	}
	return p.page.now(clock)
}

// add charges every window of the page.
func (p *modelPool) add(at instant, units int64) {
	for _, w := range p.page.windows {
		w.add(at, units)
	}
	p.wrote(max(at, p.page.latest))
}

// wrote notes that units were changed at an instant.
func (p *modelPool) wrote(at instant) {
	for i, seen := range p.page.seen {
		p.page.seen[i] = max(seen, at)
	}
	p.lapsed = p.lapsed && at < p.page.latest
	p.page.latest = max(p.page.latest, at)
	p.unsure = false
}

// look returns the state of the page and does not change it.
func (p *modelPool) look(clock instant) quota.PageState {
	known := p.page.windows != nil
	q := *p
	q.page = p.page.clone()
	now, _ := q.enter(clock)
	s := q.page.state(clock, now, q.charge(0))
	s.Known = known
	return s
}
