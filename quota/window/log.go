package window

import (
	"slices"
	"sort"
)

// Log is the exact sliding window: an entry per distinct instant. Units that
// were added at t count until t+per, and not at t+per itself. Calls in flight are
// counted so, too: the units of a call that has ended are given back before that.
type Log struct {
	per     Instant
	latest  Instant
	entries []entry // oldest first; those before head have left
	head    int
	used    int64
}

type entry struct {
	at    Instant
	units int64
}

// NewLog returns an empty log for a spec that is [Spec.Normal].
func NewLog(s Spec) *Log { return &Log{per: Instant(s.Per.Microseconds()), latest: longAgo} }

// view returns the units that still count at an instant, and the first entry that
// counts. For an instant before latest it answers as at latest: older entries are gone.
func (l *Log) view(at Instant) (used int64, head int) {
	used, head = l.used, l.head
	for head < len(l.entries) && l.entries[head].at+l.per <= at {
		used -= l.entries[head].units
		head++
	}
	return used, head
}

func (l *Log) advance(at Instant) {
	l.latest = max(l.latest, at)
	l.used, l.head = l.view(at)
	if l.head > len(l.entries)/2 { // each entry is moved at most once on average
		l.entries = l.entries[:copy(l.entries, l.entries[l.head:])]
		l.head = 0
	}
}

func (l *Log) live() []entry { return l.entries[l.head:] }

// find returns the index of the first live entry at or after at.
func (l *Log) find(at Instant) int {
	live := l.live()
	if n := len(live); n == 0 || live[n-1].at < at {
		return l.head + n
	}
	return l.head + sort.Search(len(live), func(i int) bool { return live[i].at >= at })
}

func (l *Log) Used(at Instant) int64 {
	used, _ := l.view(at)
	return used
}

func (l *Log) Take(at Instant, units, limit int64) bool {
	return fits(l.Used(at), units, limit) && l.Add(max(at, l.latest), units)
}

func (l *Log) Add(at Instant, units int64) bool {
	l.advance(at)
	if at+l.per <= l.latest {
		return false
	}
	if units == 0 {
		return true
	}
	i := l.find(at)
	if units -= l.makeRoom(i, units); units == 0 {
		return true
	}
	if i == len(l.entries) || l.entries[i].at != at {
		l.entries = slices.Insert(l.entries, i, entry{at: at})
	}
	l.entries[i].units += units
	l.used += units
	return true
}

// makeRoom drops units of entries before i, the oldest first, so that as many more fit
// under [MaxUnits]. It returns how many do not fit. The newer units stay, which leave
// later, so a full log is full for as long as it must be.
func (l *Log) makeRoom(i int, units int64) int64 {
	over := max(units-(MaxUnits-l.used), 0)
	for ; over > 0 && l.head < i; l.head++ {
		oldest := &l.entries[l.head]
		n := min(over, oldest.units)
		oldest.units -= n
		l.used -= n
		over -= n
		if oldest.units > 0 {
			break
		}
	}
	return over
}

func (l *Log) Give(at, taken Instant, units int64) int64 {
	l.advance(at)
	i := l.find(taken)
	if i == len(l.entries) || l.entries[i].at != taken {
		return 0
	}
	return l.pull(i, units)
}

func (l *Log) Since(at, from Instant) (units int64, first Instant) {
	at = max(at, l.latest)
	if from = min(from, at); from+l.per <= at {
		return 0, Never
	}
	for _, e := range l.entries[l.find(from):] {
		units += e.units
	}
	return units, from
}

// pull takes units out of an entry, and returns how many it took. A full log gives
// nothing back, because its count is no longer exact.
func (l *Log) pull(i int, units int64) int64 {
	if l.used == MaxUnits {
		return 0
	}
	units = min(units, l.entries[i].units)
	l.entries[i].units -= units
	l.used -= units
	if l.entries[i].units == 0 {
		l.entries = slices.Delete(l.entries, i, i+1)
	}
	return units
}

func (l *Log) Forget(at Instant, units int64) (given int64) {
	l.advance(at)
	for i := l.head; i < len(l.entries) && given < units; {
		n := len(l.entries)
		given += l.pull(i, units-given)
		if len(l.entries) == n {
			i++ // it was not used up
		}
	}
	return given
}

func (l *Log) Free(at Instant, units, limit int64) Instant {
	used, head := l.view(at)
	switch {
	case fits(used, units, limit):
		return at
	case units > limit:
		return Never
	}
	need := used + units - limit // at most used, which is in the entries from head on
	for ; ; head++ {
		if need -= l.entries[head].units; need <= 0 {
			return l.entries[head].at + l.per
		}
	}
}

func (l *Log) Reset(at Instant) Instant {
	if l.Used(at) == 0 {
		return at
	}
	return l.entries[len(l.entries)-1].at + l.per
}

func (l *Log) reset() {
	*l = Log{per: l.per, latest: longAgo, entries: l.entries[:0]}
}
