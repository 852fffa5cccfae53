package window

// A Window counts units over time. [Ring], [Log], [Counter], [Calendar] and [Bucket]
// are those there are; each is a plain value, not safe for concurrent use.
//
// Every method takes the time. The latest time at which the window was changed
// is the earliest that it knows: asked at a time before, it answers as of then,
// so a clock that steps back neither frees units nor loses them. Only Add, and
// the taken of Give, mean an instant of the past as it is. To ask changes
// nothing, and neither does a Take that is refused.
type Window interface {
	// Used returns the units that count at an instant. For a [Calendar] that
	// is its period; at a boundary the neighbour may be the tighter one.
	Used(at Instant) int64
	// Add counts units at an instant, whatever the limit: charges of the past
	// are replayed so. An instant that the window has already left is ignored;
	// it reports whether it counted.
	Add(at Instant, units int64) bool
	// Take adds units if they fit.
	Take(at Instant, units, limit int64) bool
	// Give takes back up to units that were added at taken, and returns how
	// many it found still counted there.
	Give(at, taken Instant, units int64) int64
	// Since returns the units that count since an instant of the past, and the first
	// instant whose units are among them: where to add those that are missing. It is
	// Never if that instant has left the window.
	Since(at, from Instant) (int64, Instant)
	// Forget takes back up to units from the oldest that count, and returns how
	// many it found.
	Forget(at Instant, units int64) int64
	// Free returns the first instant at which units fit if nothing else
	// happens: at itself, a later one, or Never. From then on they go on
	// fitting; one [Spec.Resolution] before it they do not.
	Free(at Instant, units, limit int64) Instant
	// Reset returns the instant from which nothing that counts now counts
	// any more; at itself if nothing does. For a [Calendar] it is the end of
	// the period.
	Reset(at Instant) Instant

	reset()                                      // makes it empty
	appendState(b []byte, latest Instant) []byte // of the page
	readState(r *reader)
}

var (
	_ Window = (*Ring)(nil)
	_ Window = (*Log)(nil)
	_ Window = (*Counter)(nil)
	_ Window = (*Calendar)(nil)
	_ Window = (*Bucket)(nil)
)

// New returns an empty window. The spec must be [Spec.Normal].
func New(s Spec) Window {
	switch s.Algorithm {
	case ByCalendar:
		return NewCalendar(s)
	case Exact, InFlight:
		return NewLog(s)
	case Estimate:
		return NewCounter(s)
	case Leaky:
		return NewBucket(s)
	}
	return NewRing(s)
}

// Next returns the units that come back to a window next, and when; 0 and Never if nothing
// is used.
func Next(w Window, at Instant) (int64, Instant) {
	used := w.Used(at)
	if used == 0 {
		return 0, Never
	}
	free := w.Free(at, 1, used) // one unit less than now
	return used - w.Used(free), free
}

// rebase moves all that was used to an instant, before or after those the window has seen:
// see [Page.Now].
func rebase(w Window, at Instant) {
	used := w.Used(longAgo)
	w.reset()
	w.Add(at, used)
}

// fits is used + units <= limit without overflow. A call of 0 units
// always fits, also after settling up has passed the limit.
func fits(used, units, limit int64) bool { return units == 0 || units <= limit-used }

// fill adds units to a number, up to most. A full one is at or above every possible
// limit, so the window then grants nothing.
func fill(n *int64, units, most int64) { *n += min(units, most-*n) }

// drain takes units from a number and returns how many it took. A full one gives
// nothing back, because its count is no longer exact.
func drain(n *int64, units, most int64) int64 {
	if *n == most {
		return 0
	}
	units = min(units, *n)
	*n -= units
	return units
}
