package window

import (
	"math/big"
	"sort"
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
