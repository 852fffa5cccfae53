package quota

import "time"

// share lets other processes have their share of a pool's slots. A ledger whose calls wait
// would hand each slot that comes back to the next of them, and a process that polls would
// hardly ever find one. So a ledger leaves one slot alone for a moment, once its calls have
// used slots for so long. The more slots it has, the more often it leaves one. If nobody
// takes it, nobody waits elsewhere, and the ledger does so less often.
type share struct {
	queues int           // of the pool
	slots  bool          // the pool has slots
	used   time.Duration // by calls since then
	every  time.Duration // of use; 0 is leastUse
	until  time.Time     // a slot is left alone until then
	asked  bool          // whether somebody has taken it is known
}

const (
	leastUse = 2 * time.Second
	mostUse  = 16 * time.Second
	// leftFor is long enough for any process to poll.
	leftFor = slotPause + slotPause/10
)

// leaves reports whether to leave a slot alone that comes back after some use.
func (s *share) leaves(used time.Duration, now time.Time) bool {
	if used <= 0 { // units came back
		return false
	}
	// of a long call not all, or each slot would be left alone
	if s.used += min(used, leastUse/2); s.used < max(s.every, leastUse) {
		return false
	}
	s.used, s.until, s.asked = 0, now.Add(leftFor), false
	return true
}

// told notes the answer to a question after that.
func (s *share) told(granted bool, now time.Time) {
	switch {
	case s.asked || now.Before(s.until) || s.until.IsZero():
		return
	case granted:
		s.every = min(2*max(s.every, leastUse), mostUse)
	default:
		s.every = leastUse
	}
	s.asked = true
}

// leaves returns how long w leaves slots alone, also to a call of another flow whose turn it is.
func (l *line) leaves(w *waiter, now time.Time) (d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range w.places {
		d = max(d, p.queue.share.until.Sub(now))
		if first := l.lacking(p.lane.pool); p.queue.share.slots && first != nil && first.order < w.order {
			d = max(d, slotPause)
		}
	}
	return d
}

// told notes whether w has got what it asked for.
func (l *line) told(w *waiter, granted bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range w.places {
		p.queue.share.told(granted, now)
	}
}
