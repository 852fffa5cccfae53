package window

import (
	"fmt"
	"math/big"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The models are the naive windows: they keep every charge and count them anew
// at each question. They are slow and obviously right.

// model is what a naive window must know; naive makes a window of it.
type model interface {
	// used counts at an instant that is not before the latest.
	used(at Instant) int64
	// add notes units at an instant, if the window has not left it by latest.
	add(at, latest Instant, units int64) bool
	give(taken, latest Instant, units int64) int64
	forget(latest Instant, units int64)
	clear()
	// changes are instants at one of which used may fall for the last time.
	changes(at Instant) []Instant
}

// naive is a window whose time only moves forward, and only when it is changed.
type naive struct {
	model
	latest Instant
}

func (n *naive) Used(at Instant) int64 { return n.used(max(at, n.latest)) }

func (n *naive) Fits(at Instant, units, limit int64) bool {
	return units == 0 || n.Used(at)+units <= limit
}

func (n *naive) Take(at Instant, units, limit int64) bool {
	return n.Fits(at, units, limit) && n.Add(max(at, n.latest), units)
}

func (n *naive) Add(at Instant, units int64) bool {
	n.latest = max(n.latest, at)
	return n.add(at, n.latest, units)
}

func (n *naive) Give(at, taken Instant, units int64) int64 {
	n.latest = max(n.latest, at)
	return n.give(taken, n.latest, units)
}

func (n *naive) Forget(at Instant, units int64) {
	n.latest = max(n.latest, at)
	n.forget(n.latest, units)
}

func (n *naive) Rebase(at Instant) {
	var used int64
	if n.latest != longAgo {
		used = n.used(n.latest)
	}
	n.clear()
	n.latest = at
	n.Add(at, used)
}

func (n *naive) Free(at Instant, units, limit int64) Instant {
	if n.Fits(at, units, limit) {
		return at
	}
	if m, ok := n.model.(*naiveBucket); ok {
		if units > limit {
			return Never
		}
		return m.falls(max(at, n.latest), limit-units)
	}
	times := n.changes(max(at, n.latest))
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	first := sort.Search(len(times), func(i int) bool { return times[i] > max(at, n.latest) && n.Fits(times[i], units, limit) })
	if first == len(times) {
		return Never
	}
	return times[first]
}

type charge struct {
	at    Instant
	units int64
}

// naiveLog keeps charges by their bucket's end, or by their instant: an exact
// log is a ring of instants.
type naiveLog struct {
	charges []charge
	bucket  func(at Instant) Instant      // the latest instant of at's bucket
	leaves  func(bucket Instant) Instant  // when it has left
	counts  func(bucket, at Instant) bool // whether it counts at an instant
}

func (l *naiveLog) used(at Instant) (sum int64) {
	for _, c := range l.charges {
		if l.counts(c.at, at) {
			sum += c.units
		}
	}
	return sum
}

func (l *naiveLog) add(at, latest Instant, units int64) bool {
	if !l.counts(l.bucket(at), latest) {
		return false
	}
	l.charges = append(l.charges, charge{l.bucket(at), units})
	sort.SliceStable(l.charges, func(i, j int) bool { return l.charges[i].at < l.charges[j].at })
	return true
}

func (l *naiveLog) takeBack(latest Instant, units int64, from func(charge) bool) (given int64) {
	for i, c := range l.charges {
		if from(c) && l.counts(c.at, latest) {
			n := min(units-given, c.units)
			l.charges[i].units -= n
			given += n
		}
	}
	return given
}

func (l *naiveLog) give(taken, latest Instant, units int64) int64 {
	return l.takeBack(latest, units, func(c charge) bool { return c.at == l.bucket(taken) })
}

func (l *naiveLog) forget(latest Instant, units int64) {
	l.takeBack(latest, units, func(charge) bool { return true })
}

func (l *naiveLog) clear() { l.charges = nil }

func (l *naiveLog) changes(Instant) (times []Instant) {
	for _, c := range l.charges {
		times = append(times, l.leaves(c.at))
	}
	return times
}

func newNaiveLog(s Spec) *naive {
	per := Instant(s.Per.Microseconds())
	return &naive{latest: longAgo, model: &naiveLog{
		bucket: func(at Instant) Instant { return at },
		leaves: func(at Instant) Instant { return at + per },
		counts: func(at, now Instant) bool { return at+per > now },
	}}
}

func newNaiveRing(s Spec) *naive {
	per, precision := Instant(s.Per.Microseconds()), Instant(s.Precision.Microseconds())
	per += precision * Instant((s.Late+s.Precision-1)/s.Precision)
	last := func(at Instant) Instant {
		into := (at%precision + precision) % precision
		return at - into + precision - 1
	}
	return &naive{latest: longAgo, model: &naiveLog{
		bucket: last,
		leaves: func(bucket Instant) Instant { return bucket + 1 + per },
		counts: func(bucket, now Instant) bool { return bucket+per+1 > now },
	}}
}

// naiveCounter has what each fixed window counted, by its index.
type naiveCounter struct {
	per    int64
	steps  int64
	counts map[int64]int64
}

func newNaiveCounter(s Spec) *naive {
	return &naive{latest: longAgo, model: &naiveCounter{s.Per.Microseconds(), s.steps(), map[int64]int64{}}}
}

func (c *naiveCounter) index(at Instant) int64 {
	return new(big.Int).Div(big.NewInt(int64(at)), big.NewInt(c.per)).Int64() // Euclidean: floors
}

// used is the formula in exact fractions: the overlap is rounded up to a step,
// the estimate to a unit.
func (c *naiveCounter) used(at Instant) int64 {
	now := c.index(at)
	overlap := big.NewRat(((now+1)*c.per-int64(at))*c.steps, c.per)
	overlap = new(big.Rat).SetFrac(ceil(overlap), big.NewInt(c.steps))
	estimate := overlap.Mul(overlap, new(big.Rat).SetInt64(c.counts[now-1]))
	return ceil(estimate).Int64() + c.counts[now]
}

func ceil(r *big.Rat) *big.Int {
	minus := new(big.Int).Div(new(big.Int).Neg(r.Num()), r.Denom())
	return minus.Neg(minus)
}

func (c *naiveCounter) add(at, latest Instant, units int64) bool {
	if c.index(at) < c.index(latest)-1 {
		return false
	}
	c.counts[c.index(at)] += units
	return true
}

func (c *naiveCounter) give(taken, latest Instant, units int64) int64 {
	if i, now := c.index(taken), c.index(latest); i != now && i != now-1 {
		return 0
	}
	given := min(units, c.counts[c.index(taken)])
	c.counts[c.index(taken)] -= given
	return given
}

func (c *naiveCounter) forget(latest Instant, units int64) {
	now := c.index(latest)
	n := min(units, c.counts[now-1])
	c.counts[now-1] -= n
	c.counts[now] -= min(units-n, c.counts[now])
}

func (c *naiveCounter) clear() { clear(c.counts) }

// changes are at each step of this window and the two to come.
func (c *naiveCounter) changes(at Instant) (times []Instant) {
	step := c.per / c.steps
	first := c.index(at)*c.per - int64(at)
	for i := int64(0); i <= 3*c.steps; i++ {
		times = append(times, at+Instant(first+i*step))
	}
	return times
}

// naiveCalendar has what counts in each period, by its start.
type naiveCalendar struct {
	spec   Spec
	lag    Instant
	counts map[Instant]int64
}

func newNaiveCalendar(s Spec) *naive {
	return &naive{latest: longAgo, model: &naiveCalendar{s, s.lag(), map[Instant]int64{}}}
}

// around returns the starts of the period before at's, at's, and the two after.
func (c *naiveCalendar) around(at Instant) (starts [4]Instant, end Instant) {
	start, next := c.spec.Bounds(at)
	before, _ := c.spec.Bounds(start - 1)
	_, end = c.spec.Bounds(next)
	return [4]Instant{before, start, next, end}, end
}

// periods returns the starts of those in which an instant counts.
func (c *naiveCalendar) periods(at Instant) (starts []Instant) {
	a, _ := c.around(at)
	for i, start := range a[:3] {
		if at >= start-c.lag && at < a[i+1]+c.lag {
			starts = append(starts, start)
		}
	}
	return starts
}

func (c *naiveCalendar) used(at Instant) int64 {
	a, _ := c.around(at)
	used := c.counts[a[1]]
	if at < a[1]+c.lag {
		used = max(used, c.counts[a[0]])
	}
	return used
}

// decides reports whether a period decides at an instant.
func (c *naiveCalendar) decides(period, at Instant) bool {
	a, _ := c.around(at)
	return period == a[1] || period == a[0] && at < a[1]+c.lag
}

func (c *naiveCalendar) add(at, latest Instant, units int64) (counted bool) {
	for _, p := range c.periods(at) {
		c.counts[p] += units
		counted = counted || c.decides(p, latest)
	}
	return counted
}

func (c *naiveCalendar) give(taken, latest Instant, units int64) (given int64) {
	a, _ := c.around(latest)
	if taken >= a[2] {
		return 0
	}
	for _, p := range c.periods(taken) {
		n := min(units, c.counts[p])
		c.counts[p] -= n
		if c.decides(p, latest) {
			given = max(given, n)
		}
	}
	c.counts[a[2]] = min(c.counts[a[2]], c.counts[a[1]])
	return given
}

func (c *naiveCalendar) forget(latest Instant, units int64) {
	a, _ := c.around(latest)
	for _, p := range a[:2] {
		c.counts[p] -= min(units, c.counts[p])
	}
	c.counts[a[2]] = min(c.counts[a[2]], c.counts[a[1]])
}

func (c *naiveCalendar) clear() { clear(c.counts) }

func (c *naiveCalendar) changes(at Instant) []Instant {
	a, end := c.around(at)
	_, after := c.spec.Bounds(end)
	return []Instant{a[1] + c.lag, a[2], a[2] + c.lag, end, end + c.lag, after + c.lag}
}

// naiveBucket has every change of the level, as an exact fraction of a unit.
type naiveBucket struct {
	rate   *big.Rat // units per microsecond
	all    []raise
	spells [2]naiveSpell // the present one, and the one before
}

type naiveSpell struct {
	since Instant
	low   *big.Rat
}

type raise struct {
	at    Instant
	units *big.Rat
}

func newNaiveBucket(s Spec) *naive {
	b := &naiveBucket{rate: big.NewRat(s.Rate, s.Per.Microseconds())}
	b.clear()
	return &naive{latest: longAgo, model: b}
}

// level goes through all changes up to an instant.
func (b *naiveBucket) level(at Instant) *big.Rat {
	level, last := new(big.Rat), longAgo
	pass := func(to Instant) {
		if last != longAgo {
			drained := new(big.Rat).SetInt64(int64(to - last))
			if level.Sub(level, drained.Mul(drained, b.rate)); level.Sign() < 0 {
				level.SetInt64(0)
			}
		}
		last = to
	}
	for _, c := range b.all {
		pass(c.at)
		if level.Add(level, c.units); level.Sign() < 0 {
			level.SetInt64(0)
		}
	}
	pass(at)
	return level
}

func (b *naiveBucket) used(at Instant) int64 { return ceil(b.level(at)).Int64() }

// last is the instant of the last change, before which nothing is added.
func (b *naiveBucket) last() Instant {
	if n := len(b.all); n > 0 {
		return b.all[n-1].at
	}
	return longAgo
}

func (b *naiveBucket) add(at, latest Instant, units int64) bool {
	if units > 0 {
		at = max(at, b.last())
		present := &b.spells[0]
		low := lesser(present.low, b.level(at))
		b.change(at, new(big.Rat).SetInt64(units))
		level, twice := b.level(at), new(big.Rat).Add(low, low)
		switch {
		case present.since == at:
			low = level
		case level.Cmp(twice) >= 0:
			b.spells = [2]naiveSpell{{at, nil}, {present.since, low}}
			low = level
		}
		present.low = low
	}
	return units == 0 || b.used(latest) > 0
}

func (b *naiveBucket) change(at Instant, units *big.Rat) { b.all = append(b.all, raise{at, units}) }

// lower lowers the level of a spell.
func (s *naiveSpell) lower(units *big.Rat) {
	if s.low = new(big.Rat).Sub(s.low, units); s.low.Sign() < 0 {
		s.low = new(big.Rat)
	}
}

func lesser(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// give tries from when on the units may have drained: from the call on for as long as a
// spell had not begun, in which the level was not below its low.
func (b *naiveBucket) give(taken, latest Instant, units int64) int64 {
	if taken > latest {
		return 0
	}
	level := b.level(latest)
	left := func(until Instant, most ...*big.Rat) *big.Rat {
		gone := new(big.Rat).SetInt64(int64(max(until-taken, 0)))
		gone.Sub(new(big.Rat).SetInt64(units), gone.Mul(gone, b.rate))
		for _, m := range append(most, level) {
			gone = lesser(gone, m)
		}
		return gone
	}
	present, before := &b.spells[0], &b.spells[1]
	best := new(big.Rat)
	for _, way := range []*big.Rat{left(latest), left(present.since, present.low), left(before.since, present.low, before.low)} {
		if way.Cmp(best) > 0 {
			best = way
		}
	}
	if best.Sign() == 0 {
		return 0
	}
	present.low = lesser(present.low, level)
	present.lower(new(big.Rat).SetInt64(units))
	if taken < present.since {
		before.lower(new(big.Rat).SetInt64(units))
	}
	b.change(latest, new(big.Rat).Neg(best))
	return new(big.Int).Div(best.Num(), best.Denom()).Int64() // Euclidean: floors
}

func (b *naiveBucket) forget(latest Instant, units int64) {
	if level := b.level(latest); units > 0 && level.Sign() > 0 {
		gone := lesser(new(big.Rat).SetInt64(units), level)
		b.spells[0].low = lesser(b.spells[0].low, level)
		b.spells[0].lower(gone)
		b.spells[1].lower(gone)
		b.change(latest, new(big.Rat).Neg(gone))
	}
}

func (b *naiveBucket) clear() {
	b.all = nil
	b.spells = [2]naiveSpell{{low: new(big.Rat)}, {low: new(big.Rat)}}
}

func (b *naiveBucket) changes(Instant) []Instant { return nil } // see Free

// falls returns the first instant at which no more than some units are used.
func (b *naiveBucket) falls(at Instant, units int64) Instant {
	over := b.level(at)
	over.Sub(over, new(big.Rat).SetInt64(units))
	return at + Instant(ceil(over.Quo(over, b.rate)).Int64())
}

// timeline drives a window and its model through the same random operations and
// compares every answer.
type timeline struct {
	spec  Spec
	w     Window
	n     *naive
	clock Instant
	taken []charge
	bulk  int64 // units are drawn up to this
}

func (l *timeline) step(t *rapid.T) {
	span := l.spec.Span().Microseconds()
	switch rapid.IntRange(0, 9).Draw(t, "clock") {
	case 0, 1, 2, 3:
		l.clock += Instant(rapid.Int64Range(0, span/20).Draw(t, "forward"))
	case 4:
		l.clock += Instant(rapid.Int64Range(0, 2*span).Draw(t, "far forward"))
	case 5:
		l.clock -= Instant(rapid.Int64Range(0, span).Draw(t, "back"))
	case 6:
		_, at := l.w.Next(l.clock) // where something happens, or just before or after
		if at != Never {
			l.clock = at + Instant(rapid.Int64Range(-1, 1).Draw(t, "off"))
		}
	case 7:
		l.clock = l.w.Reset(l.clock) + Instant(rapid.Int64Range(-2*1e6, 2*1e6).Draw(t, "off"))
	}
	units := rapid.Int64Range(0, l.bulk).Draw(t, "units")
	limit := rapid.Int64Range(0, 6*l.bulk).Draw(t, "limit")
	past := l.clock - Instant(rapid.Int64Range(0, span+span/4).Draw(t, "past"))
	if len(l.taken) > 0 && rapid.Bool().Draw(t, "real") {
		c := rapid.SampledFrom(l.taken[max(0, len(l.taken)-8):]).Draw(t, "charge")
		past, units = c.at, rapid.Int64Range(0, c.units).Draw(t, "of it")
	}
	switch op := rapid.IntRange(0, 13).Draw(t, "op"); op {
	default:
		at := max(l.clock, l.n.latest)
		want := l.n.Take(l.clock, units, limit)
		if got := l.w.Take(l.clock, units, limit); got != want {
			t.Fatalf("Take(%d, %d, %d) = %t, want %t", l.clock, units, limit, got, want)
		}
		if want {
			l.taken = append(l.taken, charge{at, units})
		}
	case 8, 9:
		want := l.n.Add(past, units)
		if got := l.w.Add(past, units); got != want {
			t.Fatalf("Add(%d, %d) = %t, want %t", past, units, got, want)
		}
	case 10, 11:
		want := l.n.Give(l.clock, past, units)
		if got := l.w.Give(l.clock, past, units); got != want {
			t.Fatalf("Give(%d, %d, %d) = %d, want %d", l.clock, past, units, got, want)
		}
	case 12:
		l.n.Forget(l.clock, units)
		l.w.Forget(l.clock, units)
	case 13:
		switch rapid.IntRange(0, 2).Draw(t, "rare") {
		case 0:
			l.clock -= Instant(rapid.Int64Range(span, 100*span).Draw(t, "far back"))
			l.n.Rebase(l.clock)
			l.w.Rebase(l.clock)
			l.taken = nil
		case 1:
			r := &reader{b: l.w.appendState(nil, l.n.latest), latest: l.n.latest}
			w := New(l.spec)
			if w.readState(r); r.err != nil || len(r.b) > 0 {
				t.Fatalf("state does not read back: %v", r.err)
			}
			l.w = w
		}
	}
	l.compare(t)
}

func (l *timeline) compare(t *rapid.T) {
	ahead := l.clock + Instant(rapid.Int64Range(0, 2*l.spec.Span().Microseconds()).Draw(t, "ahead"))
	for _, at := range []Instant{l.clock, ahead} {
		if got, want := l.w.Used(at), l.n.Used(at); got != want {
			t.Fatalf("Used(%d) = %d, want %d", at, got, want)
		}
		units := rapid.Int64Range(0, l.bulk).Draw(t, "weight")
		limit := rapid.Int64Range(0, 6*l.bulk).Draw(t, "of")
		if got, want := l.w.Fits(at, units, limit), l.n.Fits(at, units, limit); got != want {
			t.Fatalf("Fits(%d, %d, %d) = %t, want %t", at, units, limit, got, want)
		}
		got, want := l.w.Free(at, units, limit), l.n.Free(at, units, limit)
		if got != want {
			t.Fatalf("Free(%d, %d, %d) = %d, want %d", at, units, limit, got, want)
		}
		l.honest(t, at, got, units, limit)
		l.next(t, at)
	}
}

// honest checks Free by its own word.
func (l *timeline) honest(t *rapid.T, at, free Instant, units, limit int64) {
	if free == at {
		return
	}
	if free == Never {
		if units <= limit {
			t.Fatalf("Free(%d, %d, %d) is never", at, units, limit)
		}
		return
	}
	if before := max(free.Add(-l.spec.Resolution()), at, l.n.latest); before < free && l.w.Fits(before, units, limit) {
		t.Fatalf("%d of %d are free at %d, but they fit at %d", units, limit, free, before)
	}
	for _, later := range []Instant{free, free + 1, free + Instant(rapid.Int64Range(0, 2*l.spec.Span().Microseconds()).Draw(t, "wait"))} {
		if !l.w.Fits(later, units, limit) {
			t.Fatalf("%d of %d are free at %d, but they do not fit at %d", units, limit, free, later)
		}
	}
}

// next checks Next and Reset against Used.
func (l *timeline) next(t *rapid.T, at Instant) {
	used := l.w.Used(at)
	n, next := l.w.Next(at)
	reset := l.w.Reset(at)
	if l.spec.Algorithm == ByCalendar {
		if _, end := l.spec.Bounds(max(at, l.n.latest)); reset != end {
			t.Fatalf("Reset(%d) = %d, want %d", at, reset, end)
		}
	} else if last := max(reset.Add(-l.spec.Resolution()), at, l.n.latest); l.w.Used(reset) != 0 || used > 0 && l.w.Used(last) == 0 {
		t.Fatalf("Reset(%d) = %d, but then %d is used, and %d at %d", at, reset, l.w.Used(reset), l.w.Used(last), last)
	}
	if used == 0 {
		if n != 0 || next != Never {
			t.Fatalf("Next(%d) = %d, %d of nothing", at, n, next)
		}
		return
	}
	before := max(next.Add(-l.spec.Resolution()), at, l.n.latest)
	if n <= 0 || l.w.Used(next) != used-n || l.w.Used(before) != used {
		t.Fatalf("Next(%d) = %d, %d: used is %d, then %d, then %d", at, n, next, used, l.w.Used(before), l.w.Used(next))
	}
}

var modelSpecs = map[Algorithm]struct {
	naive func(Spec) *naive
	specs []Spec
}{
	Sliding: {newNaiveRing, []Spec{
		{Per: time.Minute, Precision: 10 * time.Second},
		{Per: time.Minute, Precision: time.Minute},
		{Per: 7 * time.Millisecond, Precision: time.Millisecond},
		{Per: 10 * time.Minute},
		{Per: time.Minute, Precision: 10 * time.Second, Late: 11 * time.Second},
		{Per: time.Minute, Precision: 10 * time.Second, Wide: true},
	}},
	Leaky: {newNaiveBucket, []Spec{
		{Per: time.Second, Algorithm: Leaky, Rate: 3},
		{Per: time.Millisecond, Algorithm: Leaky, Rate: 7919},
		{Per: time.Minute, Algorithm: Leaky, Rate: 40},
		{Per: 24 * time.Hour, Algorithm: Leaky, Rate: 1},
	}},
	Exact: {newNaiveLog, []Spec{
		{Per: time.Millisecond, Algorithm: Exact},
		{Per: time.Hour, Algorithm: Exact},
	}},
	Estimate: {newNaiveCounter, []Spec{
		{Per: 1500 * time.Millisecond, Algorithm: Estimate}, // a thousand steps
		{Per: time.Millisecond, Algorithm: Estimate},
	}},
	ByCalendar: {newNaiveCalendar, []Spec{
		{Period: Minute},
		{Period: Minute, Lag: 20 * time.Second},
		{Period: Hour, Lag: -1},
		{Period: Hour, Zone: mustZone("Asia/Kathmandu"), Lag: 30 * time.Minute},
		{Period: Day, Zone: mustZone("America/Los_Angeles")},
		{Period: Day, Zone: mustZone("America/St_Johns"), Lag: time.Hour},
		{Period: Day, Zone: mustZone("Antarctica/Troll"), Lag: 5 * time.Hour},
		{Period: Week, Zone: mustZone("Africa/Cairo")},
		{Period: Month, Zone: mustZone("America/Havana"), Lag: time.Hour},
	}},
}

func mustZone(name string) *time.Location {
	z, err := loadZone(name)
	if err != nil {
		panic(err)
	}
	return z
}

// starts are before 1970 and after 2100, and before changes of clocks.
var starts = []Instant{
	epoch, 0, -1, At(time.Date(1931, 5, 5, 5, 5, 5, 0, time.UTC)), At(time.Date(2144, 2, 28, 0, 0, 0, 0, time.UTC)),
	At(time.Date(2026, 3, 6, 12, 0, 0, 0, time.UTC)), At(time.Date(2006, 10, 27, 0, 0, 0, 0, time.UTC)),
	At(time.Date(2028, 12, 29, 12, 0, 0, 0, time.UTC)),
}

func TestModel(t *testing.T) {
	for algorithm, m := range modelSpecs {
		t.Run(string(algorithm), func(t *testing.T) {
			for _, s := range m.specs {
				s = normal(t, s)
				t.Run(fmt.Sprintf("%s_lag_%s", s, s.Lag), func(t *testing.T) {
					rapid.Check(t, func(t *rapid.T) {
						l := &timeline{
							spec: s, w: New(s), n: m.naive(s),
							clock: rapid.SampledFrom(starts).Draw(t, "start"),
							bulk:  rapid.SampledFrom([]int64{1, 3, 100, s.MaxLimit() / 200}).Draw(t, "bulk"),
						}
						for range rapid.IntRange(40, 60).Draw(t, "steps") {
							l.step(t)
						}
					})
				})
			}
		})
	}
}

// TestRingAgainstTheLog lays a ring beside the exact log: what the log would
// not admit the ring does not, and it is one precision late at most.
func TestRingAgainstTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := rapid.SampledFrom(modelSpecs[Sliding].specs).Draw(t, "spec").Normal()
		if err != nil {
			t.Fatal(err)
		}
		late := s
		late.Per = s.Span()
		ring, early, last := NewRing(s), newNaiveLog(s), newNaiveLog(late)
		clock := rapid.SampledFrom(starts).Draw(t, "start")
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			clock += Instant(rapid.Int64Range(0, s.Per.Microseconds()/8).Draw(t, "forward"))
			units, limit := rapid.Int64Range(0, 10).Draw(t, "units"), rapid.Int64Range(0, 40).Draw(t, "limit")
			if ring.Take(clock, units, limit) {
				if !early.Fits(clock, units, limit) {
					t.Fatalf("granted %d of %d at %d, the log would not have", units, limit, clock)
				}
				early.Add(clock, units)
				last.Add(clock, units)
			} else if last.Fits(clock, units, limit) {
				t.Fatalf("refused %d of %d at %d, more than a precision late", units, limit, clock)
			}
			if used := ring.Used(clock); used < early.Used(clock) || used > last.Used(clock) {
				t.Fatalf("used %d at %d, the log %d, a precision longer %d", used, clock, early.Used(clock), last.Used(clock))
			}
		}
	})
}

// TestPageModel drives a page with several windows: time back and forth, other
// windows now and then. The exact log of all that was granted is its judge.
func TestPageModel(t *testing.T) {
	la := mustZone("America/Los_Angeles")
	rapid.Check(t, func(t *rapid.T) {
		layout := func() (l []Limit) {
			// the first ring is never shorter than one to come
			for i, s := range [][]Spec{
				{{Per: 2 * time.Hour}, {Per: 2 * time.Hour, Precision: 10 * time.Minute}},
				{{Per: time.Hour, Precision: time.Minute}, {Per: time.Hour, Precision: 7*time.Minute + 30*time.Second}, {Per: 10 * time.Minute}},
				{{Period: Day, Zone: la}, {Period: Day, Zone: la, Lag: -1}},
			} {
				s, err := rapid.SampledFrom(s).Draw(t, "window").Normal()
				if err != nil {
					t.Fatal(err)
				}
				l = append(l, NewLimit(s, []int64{60, 40, 200}[i]))
			}
			return l
		}
		l := layout()
		clock := rapid.SampledFrom(starts).Draw(t, "start")
		p := NewPage(clock, 1, l)
		var taken []charge
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "clock") {
			default:
				clock += Instant(rapid.Int64Range(0, 20*60*1e6).Draw(t, "forward"))
			case 8:
				clock -= Instant(rapid.Int64Range(0, 3600*1e6).Draw(t, "back"))
			case 9:
				clock += Instant(rapid.Int64Range(0, 9*3600*1e6).Draw(t, "far forward"))
			}
			now, rebased := p.Now(clock)
			if rebased || now < clock {
				t.Fatalf("at %d it is %d, rebased %t", clock, now, rebased)
			}
			if rapid.IntRange(0, 9).Draw(t, "op") == 0 {
				l = layout()
				p.LayOut(now, p.Revision+1, l)
			}
			units := rapid.Int64Range(1, 20).Draw(t, "units")
			granted := p.Fits(now, units, l)
			if granted {
				p.Add(now, units)
				taken = append(taken, charge{now, units})
			} else {
				free, w := p.Free(now, units, l)
				if !p.Fits(free, units, l) || p.Fits(free.Add(-l[w].Spec.Resolution()), units, l) {
					t.Fatalf("%d units at %d: free at %d, by window %d, is not honest", units, now, free, w)
				}
			}
			for i, w := range l[:2] {
				var sum int64
				for _, c := range taken {
					if c.at.Add(w.Spec.Per) > now {
						sum += c.units
					}
				}
				if granted && sum > w.Limit { // else it may be of windows that there were
					t.Fatalf("at %d, %d of %d in %s", now, sum, w.Limit, w.Name)
				}
				if used := p.Windows()[i].Used(now); used < sum {
					t.Fatalf("at %d, %s has used %d, the log %d", now, w.Name, used, sum)
				}
			}
		}
		// all comes back, late by what a bucket of the old and one of the new are
		now, _ := p.Now(clock)
		for i, w := range l[:2] {
			if used := p.Windows()[i].Used(now.Add(w.Spec.Span() + 10*time.Minute)); used != 0 {
				t.Fatalf("%s still has used %d", w.Name, used)
			}
		}
	})
}
