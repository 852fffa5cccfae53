package quota

import (
	linked "container/list"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// line is where the calls of a process wait for their pools, in one queue per pool and flow. A call takes
// its place in the queues of all its pools at once, and they all have the same order. So
// of any that wait the first is the first in each of its queues: there is no
// deadlock. The firsts of all flows and processes take turns: see turns.
type line struct {
	came    atomic.Uint64 // calls so far
	waiting atomic.Int64  // calls in line: mostly none, and then there is nothing to look up
	mu      sync.Mutex
	queues  map[lane]*queue // an empty one is removed
	shares  map[Pool]*share // of the pools that have queues
	called  uint64          // how many have been called
}

// lane names a queue. Its flow is "" if the calls of all flows stand in one.
type lane struct {
	pool Pool
	flow string
}

// queue has the calls of a flow that wait for one pool, as *waiter.
type queue struct {
	linked.List
	share *share // of its pool
}

// waiter is a call in line.
type waiter struct {
	until time.Time     // it waits no longer
	came  uint64        // which call it is
	turn  chan struct{} // closed when it may ask, or is sent away

	// under the line's mutex; away until turn is closed
	places  []standing
	called  bool     // turn is closed
	order   uint64   // when it was called: flows have slots in this order
	ahead   *nextAsk // the question before which it is not served, or its own
	tooLate *nextAsk // for what it is sent away: it cannot be served in time
	behind  int      // how many calls came before it then
	wake    func()   // ends its sleep; nil if it does not sleep
	woken   bool     // a slot or units came back since it asked
}

// standing is where a waiter stands in one queue.
type standing struct {
	lane  lane
	queue *queue
	at    *linked.Element
}

// nextAsk is the next question of a line: nobody behind it is served before.
type nextAsk struct {
	at   time.Time     // by the ledger's clock
	told *RefusedError // what the last answer was; nil if there was none
	soon time.Time     // a slot may come back from then on, before at; else zero
}

// first returns when the call behind can be served at the earliest.
func (a *nextAsk) first() time.Time {
	if a.soon.IsZero() {
		return a.at
	}
	return a.soon
}

// stands reports whether a call of the flow waits for one of the pools of charges, or a call of any flow for a slot of
// one. A charge of no units waits for nobody, and delays nobody.
func (l *line) stands(flow string, charges []Charge) bool {
	if l.waiting.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range charges {
		if c := &charges[i]; c.Units > 0 && (l.queues[lane{c.Pool, flow}] != nil || c.Windows[0].Spec.InFlight() && l.lacking(c.Pool) != nil) {
			return true
		}
	}
	return false
}

// join puts w into line: before those who came later, unless they have been called.
func (l *line) join(w *waiter, flow string, charges []Charge, now time.Time) {
	l.waiting.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queues == nil {
		l.queues, l.shares = make(map[lane]*queue), make(map[Pool]*share)
	}
	w.turn = make(chan struct{})
	for i := range charges {
		of := lane{charges[i].Pool, flow}
		if charges[i].Units == 0 {
			continue
		}
		q := l.queues[of]
		if q == nil {
			if l.shares[of.pool] == nil {
				l.shares[of.pool] = &share{slots: charges[i].Windows[0].Spec.InFlight()}
			}
			q = &queue{share: l.shares[of.pool]}
			q.share.queues++
			l.queues[of] = q
		}
		at := q.Back()
		for at != nil && !waiterAt(at).called && waiterAt(at).came > w.came {
			at = at.Prev()
		}
		if at == nil {
			at = q.PushFront(w)
		} else {
			at = q.InsertAfter(w, at)
		}
		w.places = append(w.places, standing{of, q, at})
	}
	l.review(now, w)
}

// leave takes w out of line.
func (l *line) leave(w *waiter, now time.Time) {
	l.waiting.Add(-1)
	l.mu.Lock()
	defer l.mu.Unlock()
	places := w.places
	l.review(now, l.remove(w, nil)...)
	if w.woken { // it did not need what came back meanwhile
		for _, p := range places {
			if p.queue.share.slots {
				l.lacking(p.lane.pool).wakeUp()
			}
		}
	}
}

// asksAt notes when w, whose turn it is, asks again. It reports false if w is not the
// first in its lines, because they had been disbanded: then it waits for its turn
// again.
func (l *line) asksAt(w *waiter, a *nextAsk, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range w.places {
		if p.at.Prev() != nil {
			w.called, w.turn = false, make(chan struct{})
			l.review(now, w)
			return false
		}
	}
	w.ahead = a
	l.review(now, w.followers(nil)...)
	return true
}

// freed wakes the first in the queues of pools of which units came back, or the one whose turn it is for a slot that
// did. Slots were in use for a time, and some are left to other processes.
func (l *line) freed(pools []Pool, used time.Duration, now time.Time) {
	if l.waiting.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if used <= 0 {
		for of, queue := range l.queues {
			if slices.Contains(pools, of.pool) {
				waiterAt(queue.Front()).wakeUp()
			}
		}
		return
	}
	for _, pool := range pools {
		if s := l.shares[pool]; s != nil && !s.leaves(used, now) {
			l.lacking(pool).wakeUp()
		}
	}
}

// wakeUp wakes w, or lets it not sleep next time. It may be nil.
func (w *waiter) wakeUp() {
	if w == nil {
		return
	}
	if w.woken = true; w.wake != nil {
		w.wake()
	}
}

// lacks reports whether it is the turn of w, and it lacks a slot of a pool as far as it knows.
func (w *waiter) lacks(pool Pool) bool {
	return w.called && (w.ahead == nil || w.ahead.told == nil || w.ahead.told.Pool == pool && w.ahead.told.Place == 0)
}

// lacking returns who lacks a slot of a pool and came first of all flows, or nil.
func (l *line) lacking(pool Pool) (first *waiter) {
	for of, queue := range l.queues {
		if w := waiterAt(queue.Front()); of.pool == pool && w.lacks(pool) && (first == nil || w.order < first.order) {
			first = w
		}
	}
	return first
}

// back wakes the first in the queues of a settled call's pools: units came back. A call
// that was released, without units, may have charged any pool of its account.
func (l *line) back(t Token, units Units) {
	if l.waiting.Load() == 0 {
		return
	}
	var pools []Pool
	l.mu.Lock()
	for of := range l.queues {
		_, charged := units[of.pool.Name]
		if (charged || units == nil) && of.pool.Upstream == t.Upstream && of.pool.Account == t.Account {
			pools = append(pools, of.pool)
		}
	}
	l.mu.Unlock()
	l.freed(pools, 0, time.Time{})
}

// sleeps notes how to wake w, nil if it is awake. It reports whether a slot came back
// meanwhile.
func (l *line) sleeps(w *waiter, wake func()) (woken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	woken, w.wake = w.woken, wake
	if w.woken = false; woken && wake != nil {
		wake()
	}
	return woken
}

// lookAfter returns when the first of a queue looks for room. All of a process look 50 times a second at most.
func (l *line) lookAfter() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	every := max(lookEvery, time.Duration(len(l.queues))*time.Second/50)
	return every + rand.N(every/4)
}

// disband calls everybody behind w.
func (l *line) disband(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range w.places {
		for at := p.at.Next(); at != nil; at = at.Next() {
			waiterAt(at).call()
		}
	}
}

// review looks again at waiters before whom something has changed: whose turn has
// come is called, and who cannot be served in time is sent away.
func (l *line) review(now time.Time, todo ...*waiter) {
	for i := 0; i < len(todo); i++ {
		w := todo[i]
		if w.called {
			continue
		}
		first, latest := true, (*nextAsk)(nil)
		for _, p := range w.places {
			if prev := p.at.Prev(); prev != nil {
				first = false
				if a := waiterAt(prev).ahead; latest == nil || a.first().After(latest.first()) {
					latest = a
				}
			}
		}
		switch {
		case first:
			latest = &nextAsk{at: now}
			if w.ahead != nil {
				latest.told = w.ahead.told
			}
			l.called++
			w.order = l.called
			w.call()
		case latest.first().After(w.until):
			w.tooLate, w.behind = latest, w.before()
			w.call()
			todo = l.remove(w, todo)
			continue
		}
		if w.ahead != latest {
			w.ahead = latest
			todo = w.followers(todo)
		}
	}
}

// remove takes w out of its queues, and appends those who were right behind it.
func (l *line) remove(w *waiter, all []*waiter) []*waiter {
	all = w.followers(all)
	for _, p := range w.places {
		if p.queue.Remove(p.at); p.queue.Len() == 0 {
			delete(l.queues, p.lane)
			if p.queue.share.queues--; p.queue.share.queues == 0 {
				delete(l.shares, p.lane.pool)
			}
		}
	}
	w.places = nil
	return all
}

// followers appends who is right behind w in its queues.
func (w *waiter) followers(all []*waiter) []*waiter {
	for _, p := range w.places {
		if next := p.at.Next(); next != nil {
			all = append(all, waiterAt(next))
		}
	}
	return all
}

// mostBefore bounds how many calls are counted that come before another one.
const mostBefore = 1000

// before counts who stands before w, in the queue where most do.
func (w *waiter) before() (most int) {
	for _, p := range w.places {
		n := 0
		for at := p.at.Prev(); at != nil && n < mostBefore; at = at.Prev() {
			n++
		}
		most = max(most, n)
	}
	return most
}

// call tells w that it is its turn, or that it is sent away.
func (w *waiter) call() {
	if !w.called {
		w.called = true
		close(w.turn)
	}
}

func waiterAt(e *linked.Element) *waiter { return e.Value.(*waiter) }

// refusal is what w is told, which would come too late behind those before it. The units come
// back when the one ahead asks again, if then; those of its own are not known.
func (w *waiter) refusal(store, clock time.Time, charges []Charge) *RefusedError {
	a := w.tooLate
	after := max(a.at.Sub(clock), 0)
	v := Verdict{Pool: charges[0].Pool, Units: charges[0].Units, At: store, RetryAfter: after, RetryAt: store.Add(after), ResetAt: store.Add(after)}
	for i := range charges {
		if told := a.told; told != nil && charges[i].Pool == told.Pool {
			v.Pool, v.Units, v.Window = told.Pool, charges[i].Units, told.Window
			v.Used, v.Limit, v.Remaining, v.ResetAt = told.Used, told.Limit, told.Remaining, told.ResetAt
			v.Blocked, v.Reason = told.Blocked, told.Reason
		}
	}
	if !v.Blocked {
		v.Place = w.behind + 1
		switch w.behind {
		case 1:
			v.Reason = "1 call that came before it waits"
		case mostBefore:
			v.Reason = fmt.Sprintf("%d calls or more that came before it wait", w.behind)
		default:
			v.Reason = fmt.Sprintf("%d calls that came before it wait", w.behind)
		}
	}
	return &RefusedError{v}
}
