package window

import "sort"

// Log is the exact sliding window: an entry per distinct instant. Units that
// were added at t count until t+per, and not at t+per itself.
type Log struct {
	per     Instant
	entries []entry // oldest first; those before head have left
	head    int
	used    int64
}

type entry struct {
	at    Instant
	units int64
}

// NewLog returns an empty log for a spec that is [Spec.Normal].
func NewLog(s Spec) *Log { return &Log{per: Instant(s.Per.Microseconds())} }

func (l *Log) advance(at Instant) {
	for l.head < len(l.entries) && l.entries[l.head].at+l.per <= at {
		l.used -= l.entries[l.head].units
		l.head++
	}
	if l.head > len(l.entries)/2 { // each entry is moved at most once on average
		l.entries = l.entries[:copy(l.entries, l.entries[l.head:])]
		l.head = 0
	}
}

func (l *Log) live() []entry { return l.entries[l.head:] }

// newest is at, or the latest entry if the clock has stepped back behind it.
func (l *Log) newest(at Instant) Instant {
	if n := len(l.entries); n > l.head {
		return max(at, l.entries[n-1].at)
	}
	return at
}

// find returns the place of the first live entry at or after at.
func (l *Log) find(at Instant) int {
	live := l.live()
	if n := len(live); n == 0 || live[n-1].at < at {
		return l.head + n
	}
	return l.head + sort.Search(len(live), func(i int) bool { return live[i].at >= at })
}

// Used implements [Window].
func (l *Log) Used(at Instant) int64 {
	l.advance(at)
	return l.used
}

// Fits implements [Window].
func (l *Log) Fits(at Instant, units, limit int64) bool {
	l.advance(at)
	return fits(l.used, units, limit)
}

// Take implements [Window].
func (l *Log) Take(at Instant, units, limit int64) bool {
	if !l.Fits(at, units, limit) {
		return false
	}
	return l.Add(l.newest(at), units)
}

// Add implements [Window].
func (l *Log) Add(at Instant, units int64) bool {
	l.advance(at)
	if at+l.per <= l.newest(at) {
		return false
	}
	if units == 0 {
		return true
	}
	i := l.find(at)
	if i < len(l.entries) && l.entries[i].at == at {
		l.entries[i].units += units
	} else {
		l.entries = append(l.entries, entry{})
		copy(l.entries[i+1:], l.entries[i:])
		l.entries[i] = entry{at, units}
	}
	l.used += units
	return true
}

// Give implements [Window].
func (l *Log) Give(at, taken Instant, units int64) int64 {
	l.advance(at)
	i := l.find(taken)
	if i == len(l.entries) || l.entries[i].at != taken {
		return 0
	}
	units = min(units, l.entries[i].units)
	l.entries[i].units -= units
	l.used -= units
	if l.entries[i].units == 0 {
		l.entries = append(l.entries[:i], l.entries[i+1:]...)
	}
	return units
}

// Forget implements [Window].
func (l *Log) Forget(at Instant, units int64) {
	l.advance(at)
	for units > 0 && l.used > 0 {
		oldest := l.entries[l.head]
		units -= l.Give(at, oldest.at, min(units, oldest.units))
	}
}

// Free implements [Window].
func (l *Log) Free(at Instant, units, limit int64) Instant {
	if l.Fits(at, units, limit) {
		return at
	}
	if units > limit {
		return Never
	}
	need := l.used + units - limit
	for _, e := range l.live() {
		if need -= e.units; need <= 0 {
			return e.at + l.per
		}
	}
	return Never // not reached: the entries add up to used
}

// Next implements [Window].
func (l *Log) Next(at Instant) (int64, Instant) {
	if l.Used(at) == 0 {
		return 0, Never
	}
	oldest := l.entries[l.head]
	return oldest.units, oldest.at + l.per
}

// Reset implements [Window].
func (l *Log) Reset(at Instant) Instant {
	if l.Used(at) == 0 {
		return at
	}
	return l.entries[len(l.entries)-1].at + l.per
}

// Rebase implements [Window].
func (l *Log) Rebase(at Instant) {
	used := l.used
	l.entries, l.head, l.used = l.entries[:0], 0, 0
	l.Add(at, used)
}
