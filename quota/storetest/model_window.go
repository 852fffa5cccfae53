package storetest

import (
	"maps"
	"math/big"
	"slices"
	"sort"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// The model of a window: what was charged and when, and the definition of what
// counts. It is slow and has no tricks. Of quota/window it uses the words (Spec,
// Instant) and the boundaries of calendars, and none of the arithmetic.

type instant = window.Instant

func micros(d time.Duration) instant { return instant(d.Microseconds()) }

// naive is one window.
type naive interface {
	used(now instant) int64
	add(at instant, units int64)
	// give takes back units where they were taken, as far as they still count.
	give(now, taken instant, units int64) int64
	// since returns the units that count since an instant, and where to add to them. It
	// returns false if that instant has left the window.
	since(now, from instant) (units int64, first instant, ok bool)
	// forget takes back the oldest.
	forget(now instant, units int64)
	// over is when nothing that counts now counts any more.
	over(now instant) instant
	// clear empties it.
	clear()
	clone() naive
}

func newNaive(s window.Spec) naive {
	switch s.Algorithm {
	case window.ByCalendar:
		return &naiveCalendar{spec: s, lag: micros(max(s.Lag, 0)), counts: map[instant]int64{}, bounds: map[instant][2]instant{}}
	case window.Estimate:
		steps := instant(1_000)
		if s.Per%time.Second == 0 {
			steps = 1_000_000
		}
		per := micros(s.Per)
		return &naiveCounter{naiveList: naiveList{cell: per, keep: 1, per: per}, steps: steps}
	case window.Exact, window.InFlight:
		return &naiveList{cell: 1, keep: micros(s.Per) - 1, per: micros(s.Per)}
	case window.Leaky:
		return &naiveBucket{rate: big.NewRat(s.Rate, int64(micros(s.Per)))}
	}
	late := instant((s.Late + s.Precision - 1) / s.Precision)
	return &naiveList{cell: micros(s.Precision), keep: instant(s.Per/s.Precision) + late, per: micros(s.Precision) * (instant(s.Per/s.Precision) + late)}
}

// charge is an entry of a list.
type charge struct {
	at    instant
	units int64
}

// naiveList is a plain list of charges. Time is cut into cells; a charge counts
// while its cell is at most keep cells old. In a ring a cell is a bucket; in a
// log it is a microsecond.
type naiveList struct {
	cell    instant
	keep    instant
	per     instant
	charges []charge
}

// in returns the cell of an instant, also before 1970.
func (l *naiveList) in(at instant) instant {
	cell := at / l.cell
	if at < 0 && cell*l.cell != at {
		cell--
	}
	return cell
}

func (l *naiveList) counts(now, at instant) bool { return l.in(now)-l.in(at) <= l.keep }

func (l *naiveList) used(now instant) int64 { return l.sum(now, 0, l.keep) }

// sum adds up the charges whose age in cells is between from and to.
func (l *naiveList) sum(now, from, to instant) (sum int64) {
	for _, c := range l.charges {
		if age := l.in(now) - l.in(c.at); age >= from && age <= to {
			sum += c.units
		}
	}
	return sum
}

// within adds up the charges of a trailing window, to the microsecond.
func (l *naiveList) within(now, last instant) (sum int64) {
	for _, c := range l.charges {
		if c.at > now-last {
			sum += c.units
		}
	}
	return sum
}

func (l *naiveList) add(at instant, units int64) {
	l.charges = append(l.charges, charge{at, units})
	sort.SliceStable(l.charges, func(i, j int) bool { return l.charges[i].at < l.charges[j].at })
}

func (l *naiveList) give(now, taken instant, units int64) int64 {
	return l.takeBack(units, func(c charge) bool { return l.in(c.at) == l.in(taken) && l.counts(now, c.at) })
}

// since counts the cells whose middle is not before from, or else the present one.
func (l *naiveList) since(now, from instant) (units int64, first instant, ok bool) {
	if from = min(from, now); from+l.per <= now {
		return 0, 0, false
	}
	cell := l.in(from)
	if cell < l.in(now) && 2*(from-cell*l.cell) > l.cell {
		cell++
	}
	return l.sum(now, 0, l.in(now)-cell), max(from, cell*l.cell), true
}

func (l *naiveList) forget(now instant, units int64) {
	l.takeBack(units, func(c charge) bool { return l.counts(now, c.at) })
}

// takeBack takes units from those charges that match, the oldest first.
func (l *naiveList) takeBack(units int64, match func(charge) bool) (back int64) {
	for i := range l.charges {
		if c := &l.charges[i]; match(*c) {
			n := min(units-back, c.units)
			c.units -= n
			back += n
		}
	}
	return back
}

func (l *naiveList) over(now instant) instant {
	over := now
	for _, c := range l.charges {
		if c.units > 0 && l.counts(now, c.at) {
			over = (l.in(c.at) + l.keep + 1) * l.cell
		}
	}
	return over
}

func (l *naiveList) clear() { l.charges = nil }

func (l *naiveList) clone() naive {
	m := *l
	m.charges = slices.Clone(l.charges)
	return &m
}

// naiveCounter is a list whose cells are fixed windows. The present one counts in full.
// The previous one counts by the part that the sliding window still overlaps, in steps
// and rounded up.
type naiveCounter struct {
	naiveList
	steps instant
}

func (c *naiveCounter) used(now instant) int64 {
	left := (c.in(now)+1)*c.per - now // of the present fixed window
	step := c.per / c.steps
	overlap := (left + step - 1) / step
	before := c.sum(now, 1, 1) * int64(overlap)
	used := before / int64(c.steps)
	if before%int64(c.steps) > 0 {
		used++
	}
	return used + c.sum(now, 0, 0)
}

func (c *naiveCounter) since(now, from instant) (units int64, first instant, ok bool) {
	from = min(from, now)
	return c.sum(now, 0, 1), from, from+c.per > now
}

func (c *naiveCounter) clone() naive {
	d := *c
	d.charges = slices.Clone(c.charges)
	return &d
}

// naiveCalendar counts by period. A charge counts in its own period, and in one that
// begins at most lag after it or ended at most lag before it.
type naiveCalendar struct {
	spec   window.Spec
	lag    instant
	counts map[instant]int64 // by the beginning of the period
	bounds map[instant][2]instant
}

// period returns the bounds of the period of an instant.
func (c *naiveCalendar) period(at instant) (start, end instant) {
	for _, b := range c.bounds {
		if at >= b[0] && at < b[1] {
			return b[0], b[1]
		}
	}
	start, end = c.spec.Bounds(at)
	c.bounds[start] = [2]instant{start, end}
	return start, end
}

// periods returns the beginnings of all periods in which an instant counts.
func (c *naiveCalendar) periods(at instant) []instant {
	start, end := c.period(at)
	all := []instant{start}
	if at < start+c.lag {
		before, _ := c.period(start - 1)
		all = append(all, before)
	}
	if at >= end-c.lag {
		all = append(all, end)
	}
	return all
}

// used returns the units of the present period. Near its beginning it returns those of
// the previous period if they are more.
func (c *naiveCalendar) used(now instant) int64 {
	start, _ := c.period(now)
	used := c.counts[start]
	if now < start+c.lag {
		before, _ := c.period(start - 1)
		used = max(used, c.counts[before])
	}
	return used
}

func (c *naiveCalendar) add(at instant, units int64) {
	for _, p := range c.periods(at) {
		c.counts[p] += units
	}
}

func (c *naiveCalendar) give(now, taken instant, units int64) (given int64) {
	start, end := c.period(now)
	before, _ := c.period(start - 1)
	for _, p := range c.periods(taken) {
		back := min(units, c.counts[p])
		c.counts[p] -= back
		if p == start || p == before && now < start+c.lag {
			given = max(given, back)
		}
	}
	c.counts[end] = min(c.counts[end], c.counts[start])
	return given
}

func (c *naiveCalendar) since(now, from instant) (units int64, first instant, ok bool) {
	start, _ := c.period(now)
	return c.counts[start], max(start, min(from, now)), from >= start-c.lag
}

// forget corrects both the present period and, near the boundary, the previous one,
// because the correction may belong to either. The oldest units are those that do not
// count in the next period too.
func (c *naiveCalendar) forget(now instant, units int64) {
	start, end := c.period(now)
	before, _ := c.period(start - 1)
	for _, p := range []instant{start, before} {
		c.counts[p] -= min(units, c.counts[p])
	}
	c.counts[end] = min(c.counts[end], c.counts[start])
}

func (c *naiveCalendar) over(now instant) instant {
	_, end := c.period(now)
	return end
}

func (c *naiveCalendar) clear() { clear(c.counts) }

func (c *naiveCalendar) clone() naive {
	d := *c
	d.counts = maps.Clone(c.counts)
	return &d
}
