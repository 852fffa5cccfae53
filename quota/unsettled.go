package quota

import (
	"sync"
	"time"
)

// unsettled counts this ledger's calls that reserved an estimate of a pool's units and may
// still give some back. A call that is never settled is forgotten after one or two terms.
type unsettled struct {
	mu          sync.Mutex
	since       time.Time // when the current term began
	now, before int64     // calls of the current term, and of the one before
}

// unsettledTerm is longer than nearly all calls. If a call takes longer than two terms, callers
// that need its units are refused at once and do not wait for them.
const unsettledTerm = 5 * time.Minute

// turn begins a new term if the current one has passed.
func (u *unsettled) turn(now time.Time) {
	switch passed := now.Sub(u.since); {
	case passed < 0, passed >= 2*unsettledTerm: // the clock may have stepped back
		u.since, u.now, u.before = now, 0, 0
	case passed >= unsettledTerm:
		u.since, u.now, u.before = u.since.Add(unsettledTerm), 0, u.now
	}
}

// begun counts a call that was granted.
func (u *unsettled) begun(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn(now)
	u.now++
}

// ended forgets a call that was settled or released.
func (u *unsettled) ended() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.before > 0 {
		u.before--
	} else {
		u.now = max(u.now-1, 0)
	}
}

// any reports whether a call may still give units back.
func (u *unsettled) any(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn(now)
	return u.now+u.before > 0
}
