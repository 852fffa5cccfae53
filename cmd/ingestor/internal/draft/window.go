package draft

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/strictyaml"
	windows "github.com/headroom-quota/headroom/quota/window"
)

// window is a window of the price book.
type window struct {
	quota  int64
	per    time.Duration
	zone   string // "": a sliding window; otherwise a day of the calendar of this zone
	burst  int64  // of a bucket; 0: it is none
	atOnce bool   // calls in flight
	moves  bool   // its reset moves with each answer
	free   int64  // headroom, because prices differ and no answer tells them
	unsure string // why it is a guess
}

// drains reports whether it is a bucket. The arithmetic of larger ones would not be exact.
func (w window) drains() bool {
	return w.burst > 0 && float64(w.burst)*float64(w.per.Microseconds()) <= windows.MaxUnits
}

func (w window) String() string {
	switch {
	case w.atOnce:
		return fmt.Sprintf("{in_flight: %d}", w.quota)
	case w.drains() && w.burst == w.quota:
		return fmt.Sprintf("{algorithm: bucket, per: %s, quota: %d}", strictyaml.Duration(w.per), w.quota)
	case w.drains():
		return fmt.Sprintf("{algorithm: bucket, per: %s, quota: %d, burst: %d}", strictyaml.Duration(w.per), w.quota, w.burst)
	case w.zone == "UTC":
		return fmt.Sprintf("{per: day, quota: %d}", w.quota)
	case w.zone != "":
		return fmt.Sprintf("{per: day, quota: %d, zone: %s}", w.quota, w.zone)
	}
	return fmt.Sprintf("{per: %s, quota: %d}", strictyaml.Duration(w.per), w.quota)
}

// written is the window with what the ledger needs beside the limit: a ring of a short window
// sustains less with the default precision.
func (w window) written() string {
	text := strings.TrimSuffix(w.String(), "}")
	if !w.atOnce && !w.drains() && w.per >= time.Second && w.per <= time.Minute {
		text += ", precision: " + strictyaml.Duration(w.per/100)
	}
	if w.free > 0 {
		text += fmt.Sprintf(", headroom: %d", w.free)
	}
	return text + "}"
}

// The lengths that windows have: all of them, and those that most upstreams use.
var (
	lengths = []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
		10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour, 12 * time.Hour, day, 7 * day, 30 * day,
	}
	usual = []time.Duration{time.Second, 10 * time.Second, time.Minute, 15 * time.Minute, time.Hour, day, 7 * day, 30 * day}
)

// slack is by how much times that answers tell in whole seconds may be off.
const slack = 1500 * time.Millisecond

// windowOf works out the window of a limit from what answers said about it, in their order.
func windowOf(points []point) window {
	w := window{quota: -1, per: points[0].per}
	for _, p := range points {
		if p.limit > 0 {
			w.quota = p.limit
		}
	}
	if w.quota < 0 {
		w.unsure = "no answer names the limit"
		for _, p := range points {
			w.quota = min(max(w.quota, p.remaining+1, p.used, 1), windows.MaxUnits)
		}
	}
	var ends []point
	for _, p := range points {
		if !p.end.IsZero() {
			ends = append(ends, p)
		}
	}
	rate, refills := w.regains(points)
	switch {
	case refills:
		w = w.bucket(rate)
	case len(ends) > 0:
		w = w.byResets(ends)
	case w.per == 0:
		w = w.byJumps(points)
	}
	if w.per == 0 {
		w.per = time.Hour
		w.unsure = "no answer tells how long the window is; look it up"
	}
	return w
}

// byResets works out a window from the times at which it ends.
func (w window) byResets(points []point) window {
	var longest time.Duration
	var all []time.Time // apart from each other
	for _, p := range points {
		longest = max(longest, p.end.Sub(p.at))
		if !slices.ContainsFunc(all, func(t time.Time) bool { return t.Sub(p.end).Abs() <= slack }) {
			all = append(all, p.end)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	span := points[len(points)-1].at.Sub(points[0].at)
	if n := len(all); n > 3 && float64(n) > 2*(float64(span)/float64(max(longest, time.Second))+2) {
		return w.moving(points, longest)
	}
	if w.per == 0 {
		w.per = lengthOf(longest, all)
		if len(all) == 1 {
			w.unsure = "only one window was seen, so it may be longer"
		}
	}
	if w.per != day {
		return w
	}
	for zone, hours := range map[string][]int{"UTC": {0}, "America/Los_Angeles": {7, 8}} {
		if !slices.ContainsFunc(all, func(t time.Time) bool {
			t = t.UTC().Round(time.Minute)
			return t.Minute() != 0 || !slices.Contains(hours, t.Hour())
		}) {
			w.zone = zone
		}
	}
	return w
}

// lengthOf returns the length of windows with these ends, of which the longest rest was seen. Some
// upstreams begin a window with the first call, others at once after the one before.
func lengthOf(longest time.Duration, ends []time.Time) time.Duration {
	fits := func(d time.Duration, whole bool) bool {
		for i := 1; i < len(ends); i++ {
			gap := ends[i].Sub(ends[i-1])
			if rest := gap % d; gap < d-slack || whole && min(rest, d-rest) > slack {
				return false
			}
		}
		return longest <= d+slack
	}
	for _, d := range lengths {
		if fits(d, false) && float64(longest) >= 0.85*float64(d) && (d <= time.Hour || len(ends) > 1 || slices.Contains(usual, d)) {
			return d
		}
	}
	var found time.Duration
	for _, d := range usual {
		if fits(d, true) && (found == 0 || len(ends) > 1) {
			found = d
		}
	}
	for _, d := range append(slices.Clone(usual), lengths...) {
		if found == 0 && fits(d, false) {
			found = d
		}
	}
	return found
}

// regains returns how many units a second come back while calls are made, if it is a bucket: then
// what is left falls by less than what a call takes. In a window it falls by that, until it jumps.
func (w window) regains(points []point) (rate float64, refills bool) {
	var back, seconds float64
	var apart []interval
	some, all := 0, 0
	for i := 1; i < len(points); i++ {
		a, b := &points[i-1], &points[i]
		if a.remaining < 0 || b.remaining < 0 || b.remaining >= w.quota-1 || b.remaining > a.remaining+w.quota/2 {
			continue
		}
		at := interval{b.call, b.at.Sub(a.at).Seconds(), float64(b.remaining - a.remaining)}
		if b.call.Status < 400 { // otherwise it took nothing
			apart = append(apart, at)
			back++
		}
		back, seconds, all = back+at.more, seconds+at.seconds, all+1
		if b.remaining >= a.remaining {
			some++
		}
	}
	switch rate, refills = refill(apart); {
	case all < 5 || seconds <= 0:
		return 0, false
	case 5*some >= all && 10*back >= float64(all): // calls at once come in any order, and none comes back
		rate = back / seconds
	case !refills:
		return 0, false
	}
	used, wait := 0.0, 0.0
	for _, p := range points { // what answers tell of the time until it is full must fit
		if p.end.IsZero() || p.remaining < 0 {
			continue
		}
		rest, short := p.end.Sub(p.at).Seconds(), float64(w.quota-p.remaining)
		if want := short / rate; math.Abs(rest-want) > slack.Seconds()+0.3*want {
			return 0, false
		}
		used, wait = used+short, wait+rest
	}
	if wait > 20*slack.Seconds()*float64(len(points)) { // then whole seconds matter little
		rate = used / wait
	}
	return rate, true
}

// interval is the time between two calls, and how much more was left after the second one.
type interval struct {
	call          *call
	seconds, more float64
}

// refill returns how many units a second come back to a bucket whose calls do not take one each, and
// whether that can hardly be chance: by a number that says what calls take, or else by how much
// more is left the longer two calls are apart, among the calls of each route.
func refill(all []interval) (rate float64, sure bool) {
	n := float64(len(all))
	if n < 10 {
		return 0, false
	}
	type priced struct {
		interval
		units float64
	}
	seconds := 0.0
	routes, told := map[*route][]interval{}, map[source][]priced{}
	for _, i := range all {
		seconds += i.seconds
		routes[i.call.route] = append(routes[i.call.route], i)
		for at, units := range i.call.prices() {
			if at.each == 0 { // those of queries are so small that they fit anything
				told[at] = append(told[at], priced{i, float64(units)})
			}
		}
	}
	best := 0.0
	for _, at := range slices.SortedFunc(maps.Keys(told), source.compare) {
		var units, back, fits, off, evenly float64
		for _, i := range told[at] {
			units, back = units+i.units, back+i.more+i.units
		}
		for _, i := range told[at] {
			mean, comes := units/float64(len(told[at])), i.seconds*back/seconds
			off, evenly = off+math.Pow(i.more+i.units-comes, 2), evenly+math.Pow(i.more+mean-comes, 2)
			if math.Abs(i.more+i.units-comes) < 1.5 {
				fits++
			}
		}
		// A number that is the same each time, or tells no more than its mean, is of another unit.
		if fits >= 0.9*n && fits > best && back >= 0.1*n && 2*off < evenly {
			best, rate = fits, back/seconds
		}
	}
	if best > 0 {
		return rate, true
	}
	var xx, xy, yy float64 // least squares
	for _, each := range routes {
		var x, y float64
		for _, i := range each {
			x, y = x+i.seconds/float64(len(each)), y+i.more/float64(len(each))
		}
		for _, i := range each {
			xx, xy, yy = xx+(i.seconds-x)*(i.seconds-x), xy+(i.seconds-x)*(i.more-y), yy+(i.more-y)*(i.more-y)
		}
	}
	left := n - float64(len(routes)) - 1
	if left < 5 || xx < 0.001*seconds*seconds/n { // all are alike
		return 0, false
	}
	rate = xy / xx
	return rate, rate*seconds >= 0.1*n && rate > 4*math.Sqrt(max(yy-rate*xy, 0)/left/xx)
}

// moving works out a window whose end moves with each answer: a bucket that is full again then, or
// a sliding window.
func (w window) moving(points []point, longest time.Duration) window {
	w.moves = true
	var used, wait float64
	for _, p := range points {
		if p.remaining >= 0 && p.remaining < w.quota {
			used, wait = used+float64(w.quota-p.remaining), wait+p.end.Sub(p.at).Seconds()
		}
	}
	each, fits, exact, different, least := wait/used, used > 0, false, map[int64]bool{}, w.quota
	for _, p := range points {
		if p.remaining >= 0 && p.remaining < w.quota {
			rest := p.end.Sub(p.at).Seconds()
			most := each * float64(w.quota-p.remaining)                 // what is left is rounded down
			fits = fits && rest <= most+slack.Seconds()+0.6+0.1*rest && // a date may be a second later
				rest >= most-each-slack.Seconds()-0.1*rest
			exact = exact || p.end.Sub(p.at)%time.Second != 0 && strings.Contains(p.in["reset"], "duration")
			different[p.remaining] = true
			least = min(least, p.remaining)
		}
	}
	if fits && (exact || len(different) >= 3) && each > 0 {
		return w.bucket(1 / each)
	}
	if full := 10*least > 9*w.quota; full && w.per == 0 && longest <= 2*slack {
		w = w.bucket(1 / each) // the end of a window that has hardly been used tells nothing but whole seconds
		w.unsure = "too little of it was used to tell how fast it refills"
		return w
	}
	if w.per == 0 {
		w.per = lengthOf(longest, nil)
	}
	return w
}

// bucket makes the window one that refills by so many units a second.
func (w window) bucket(rate float64) window {
	w.moves, w.burst, w.unsure = true, w.quota, ""
	for i, d := range append(slices.Clone(usual), lengths...) {
		if off := math.Abs(rate*d.Seconds()/float64(w.quota) - 1); off < 0.08 || i < len(usual) && off < 0.12 {
			w.per = d
			return w
		}
	}
	for _, d := range []time.Duration{time.Second, time.Minute, time.Hour, day} {
		if n := math.Round(rate * d.Seconds()); n >= 1 && math.Abs(n/(rate*d.Seconds())-1) < 0.15 {
			w.per, w.quota = d, int64(n)
			return w
		}
	}
	w.per, w.quota = day, max(int64(rate*day.Seconds()), 1)
	return w
}

// jump is when a window has ended: more was left after it than before.
type jump struct{ after, before, next time.Time } // next: the first call after it

// jumps returns when windows have ended, by what was left and by when refusals told to come back.
func (w window) jumps(points []point) (all []jump) {
	var told time.Time
	lied := false // calls were refused after the time that a refusal told
	for i := 1; i < len(points); i++ {
		a, b := &points[i-1], &points[i]
		if a.remaining >= 0 && (rises(points, i) || b.remaining == a.remaining && b.remaining == w.quota-1) {
			j := jump{a.at, b.at, b.at}
			if !lied && told.After(a.at.Add(-slack)) && told.Before(b.at.Add(slack)) {
				j.after, j.before = told.Add(-slack), told.Add(slack)
			}
			all, told = append(all, j), time.Time{}
		}
		if b.call.Status >= 400 && b.remaining >= 0 && 10*b.remaining <= w.quota {
			lied = lied || !told.IsZero() && b.at.After(told.Add(slack))
			told = b.call.again()
		}
	}
	if !lied && !told.IsZero() {
		all = append(all, jump{told.Add(-slack), told.Add(slack), told})
	}
	return all
}

// byJumps works out a window from what is left, if no answer tells when more comes: it jumps up at
// the end of a window. It takes two jumps to tell how long a window is at most, or one of a window that
// began in the recording. A draft must not allow more than the upstream does, so it has the longest length
// that fits.
func (w window) byJumps(points []point) window {
	jumps := w.jumps(points)
	first, last := points[0], points[len(points)-1]
	if last.remaining < 0 {
		return w
	}
	least, most, dearest := time.Duration(0), time.Duration(math.MaxInt64), int64(0)
	began := first.at
	for i, j := range append(jumps, jump{after: last.at}) {
		least = max(least, j.after.Sub(began))
		if began = j.next; i > 0 && i < len(jumps) {
			most = min(most, j.before.Sub(jumps[i-1].after))
		}
	}
	for i := 1; i < len(points); i++ {
		dearest = max(dearest, points[i-1].remaining-points[i].remaining)
	}
	between := func(d time.Duration) bool { // answers take more or less time
		return float64(d) >= 0.97*float64(least) && float64(d)*0.97 <= float64(most)
	}
	clocked := func(d time.Duration) bool { // it ends when the clock says so, as at a full minute
		end := jumps[0].before.Truncate(d)
		return end.After(jumps[0].after) && first.at.After(end.Add(-d)) && last.at.Before(end.Add(d)) && jumps[0].before.Sub(jumps[0].after) < d/10 && slices.Contains(usual, d)
	}
	w.unsure = "worked out from when more was left again"
	one := len(jumps) == 1 && w.quota-first.remaining <= dearest // nobody else had spent anything in its window
	if one {
		most = jumps[0].before.Sub(first.at)
		w.unsure = "only one end of a window was seen, so it may be longer; look it up"
	}
	for _, d := range slices.Backward(slices.Concat(lengths, usual)) {
		if w.per == 0 && (one || len(jumps) > 1) && (between(d) || one && clocked(d)) {
			w.per = d
		}
	}
	if w.per != 0 {
		return w
	}
	if len(jumps) < 2 {
		least = max(least, time.Hour)
		w.unsure = "the recording has no whole window, so it may be shorter or longer; look it up"
	}
	if i := slices.IndexFunc(usual, func(d time.Duration) bool { return d >= least }); i >= 0 {
		w.per = usual[i]
	}
	return w
}
