package quota

import (
	"cmp"
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// Observation is what an upstream's answer reports about one pool. Fields that the answer
// does not report are nil or zero.
type Observation struct {
	Pool Pool // with the key of its page, if the pool has limits per key
	// Per is the length of the pool's window that the report is about. Zero is its only
	// window, or its longest.
	Per time.Duration

	Limit       int64  // the upstream's
	Remaining   *int64 // of Limit
	Used        *int64 // of Limit
	UsedPercent *int64 // of Limit; rounded up

	// Reset is when the upstream's window ends, by the clock of Date, and ResetIn is how
	// long that takes; if it has ended just now, a negative time. At most one of them is set.
	Reset   time.Time
	ResetIn time.Duration
	Date    time.Time // of the answer, by the upstream's clock; zero: the ledger's clock
	// Age is how long ago the answer came. Zero is just now. A limit in an older answer does
	// not take the place of one in a newer one.
	Age time.Duration

	// Refills says that the upstream keeps a bucket, so that its reset moves all the time.
	Refills bool
}

// Observed is what a ledger made of an observation.
type Observed struct {
	// Limit is the upstream's limit, if it differs from the quota of the price book and
	// was adopted until Until. It is told once per reset, and 0 otherwise. Each report of it
	// moves Until. A zero Until is that of another report.
	Limit int64
	Quota int64 // of the price book
	Until time.Time
}

// Observe compares what an answer reports about a pool with the ledger. Units that the
// upstream has counted, and the ledger has not, were spent by others. They are charged to
// the pool, with the method [Others], and leave it when the upstream's window ends.
//
// A limit below the quota is adopted for the length of its window, at least an hour and at
// most a day. Then a call may pass it each minute, and ten minutes later the quota holds again.
// Each report begins this anew. A larger limit is adopted if the pool has limit: learn, until
// another one is reported. If the price book says that answers report the limit of the pool,
// or the pool has a metric, the store keeps the limit for all processes. A limit of other
// pools holds in this process only, and a larger one until the upstream's reset.
//
// Reports may come late, twice, in any order, and from several processes: the ledger
// charges what is missing to the largest of them. It never gives units back. A report of a
// window that has ended is ignored.
//
// Most reports say nothing new. Only others are written, at the latest after a second, and
// before the next reservation if so many are missing that they could change its result.
// [Ledger.Flush] writes them at once.
func (l *Ledger) Observe(ctx context.Context, o Observation) (Observed, error) {
	p := l.current()
	c, err := p.pool(o.Pool)
	if err != nil {
		return Observed{}, err
	}
	pool := p.book.Upstreams[c.Pool.Upstream].Pools[c.Pool.Name]
	windows := p.windows(c.Pool)
	index := observedWindow(windows, o.Per)
	if index < 0 {
		return Observed{}, BadInput("observe %s: the pool has no window of %s", c.Pool, roundUp(o.Per))
	}
	c.Window = index
	w, now := &windows[index], l.now()
	came := now.Add(-max(o.Age, 0))
	at, until, ok := observedPeriod(&o, *w, now, came)
	if !ok && o.ResetIn == 0 {
		return Observed{}, nil // late
	}
	seen, limit := Observed{}, w.Quota
	if o.Limit > 0 {
		if o.Limit < w.Quota || pool.LearnLimit {
			limit = min(o.Limit, mostReported(w))
		}
		if ends := l.hearLimit(ctx, p, c, limit, came, until); limit != w.Quota {
			seen = Observed{Limit: limit, Quota: w.Quota, Until: ends}
		}
	} else { // of the limit that holds
		_, changed, _ := l.adoptLimits(ctx, p, []Charge{c}, "", noProbes)
		for _, a := range changed {
			if a.window == index {
				limit = a.quota
			}
		}
	}
	longer := !w.Calendar() && until.Sub(now) > w.Length()*5/4 // than our window: its units leave ours before
	r := &report{charge: c, at: at, until: until, refills: o.refills(*w) || longer}
	most := limit
	if o.Limit <= 0 { // a lower limit that was heard before may end before these units leave
		most = max(limit, w.Quota)
	}
	r.used = o.used(limit, most)
	if !ok { // the units are back, and the limit stays
		r.used, r.until, r.refills = 0, now, true
	}
	send, news := l.heard.hear(r, now, seen.Limit)
	if !news {
		seen = Observed{}
	} else {
		l.tell(ctx, Event{Kind: EventLimit, Pool: c.Pool, Units: seen.Limit, Until: seen.Until})
	}
	if send != nil {
		l.heard.later(send, func() { _ = l.sendHeard(context.Background(), send) }) // it tells the observer
	}
	return seen, nil
}

// hearLimit makes a limit that was reported hold in place of the quota of a window, and of
// others that are alike: a day may be both a calendar's and a sliding one. It returns when the
// limit ends, unless it is reported again; a zero time is never.
func (l *Ledger) hearLimit(ctx context.Context, p *prices, c Charge, limit int64, came, until time.Time) (ends time.Time) {
	windows := p.windows(c.Pool)
	w := windows[c.Window]
	if l.now().Sub(came) >= lifeOf(&w) { // too old to be true
		return until
	}
	own, shared := setLimit{quota: limit, heard: came}, l.shareLimit(ctx, p, c.Pool, c.Window, limit, came)
	switch {
	case limit < w.Quota:
		ends = came.Add(lifeOf(&w))
	case limit > w.Quota && !shared:
		ends, own.until = until, until
	}
	if shared || limit == w.Quota {
		own.quota = 0
	}
	for i, other := range windows {
		if c.Window = i; other.Length() == w.Length() && other.Quota == w.Quota {
			l.heard.adopt(&c, other.Length(), own, l.now())
		}
	}
	return ends
}

// used returns how much of a limit is used, at most so much: more leaves no less, and cannot
// be told from a mistake. If the upstream's own limit is larger than the one that holds, so
// much counts as used that what is left is the same.
func (o *Observation) used(limit, most int64) int64 {
	of := min(cmp.Or(max(o.Limit, 0), limit), window.MaxUnits)
	var units int64
	switch {
	case o.Remaining != nil && *o.Remaining >= 0:
		units = of - *o.Remaining
	case o.Used != nil && *o.Used >= 0:
		units = *o.Used
	case o.UsedPercent != nil && *o.UsedPercent >= 0:
		units = (of*min(*o.UsedPercent, 100) + 99) / 100
	}
	return min(max(units-max(of-limit, 0), 0), most)
}

// refills reports whether no instant is known at which all that is used comes back.
func (o *Observation) refills(w book.Window) bool {
	return o.Refills || o.ResetIn == 0 && o.Reset.IsZero() && !w.Calendar()
}

// observedWindow returns the index of the window that a report is about, or -1. Of a
// calendar's window and a sliding one of the same length, it is the calendar's.
func observedWindow(windows []book.Window, per time.Duration) int {
	index := -1
	for i, w := range windows {
		if per != 0 && w.Length() != per {
			continue
		}
		if index < 0 || w.Length() > windows[index].Length() || w.Length() == windows[index].Length() && w.Calendar() {
			index = i
		}
	}
	return index
}

// sameClock is how far apart two clocks may seem that are the same: the Date of an answer
// has whole seconds, and the answer took a while.
const sameClock = 2 * time.Second

// observedPeriod returns the upstream's window: when it began, so that units added then
// leave at its end, and its end. It returns false for one that has ended. Without a reset,
// at is now, or the beginning of the calendar's period. A reset that is too far off to be
// meant is taken out of o.
func observedPeriod(o *Observation, w book.Window, now, came time.Time) (at, until time.Time, ok bool) {
	switch {
	case o.refills(w):
		return now, now.Add(max(w.Length(), limitLife)), true
	case o.ResetIn != 0:
		until = came.Add(o.ResetIn)
	case !o.Reset.IsZero():
		until = o.Reset
		if skew := came.Sub(o.Date); !o.Date.IsZero() && skew.Abs() > sameClock {
			until = until.Add(skew)
		}
	default:
		_, end := w.Bounds(window.At(now))
		until = end.Time()
	}
	if !until.After(now) {
		return at, until, false
	}
	if until.Sub(now) > maxBlock { // it was misread, so it is as if it were missing
		o.Reset, o.ResetIn = time.Time{}, 0
		return observedPeriod(o, w, now, came)
	}
	if w.Calendar() { // resets of one period differ by seconds
		start, _ := w.Bounds(window.At(until.Add(-w.Length() / 4)))
		at = start.Time()
	} else {
		at = until.Add(-w.Length())
	}
	if at.After(now) { // the upstream's window is longer than ours
		at = now
	}
	return at, until, true
}

// Flush writes what answers have reported, what was learned, and what calls have taken while others waited,
// and is not in the ledger yet. Programs need it
// only before they read the usage, or before they end.
func (l *Ledger) Flush(ctx context.Context) error {
	if l.current() == nil {
		return errNotMade
	}
	l.heard.mu.Lock()
	all := make([]*heardWindow, 0, len(l.heard.windows))
	for _, w := range l.heard.windows {
		all = append(all, w)
	}
	l.heard.mu.Unlock()
	shortestFirst(all)
	for _, w := range all {
		if err := l.sendHeard(ctx, w); err != nil {
			return err
		}
	}
	l.writeTurns(ctx)
	return l.writeLearned(ctx)
}

// sendHeard writes what is missing of a window. Others wait meanwhile, because what they
// would reserve depends on it.
func (l *Ledger) sendHeard(ctx context.Context, w *heardWindow) error {
	w.writes.Lock()
	defer w.writes.Unlock()
	now := l.now()
	r, own, ok := l.heard.take(w, now)
	if !ok {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	pool := r.Charges[0].Pool
	recorded, err := l.store.Record(within, r)
	if err != nil { // the next answer will say it again
		err = l.storeError(ctx, "observe "+pool.String(), err)
		l.tell(ctx, Event{Kind: EventOthers, Pool: pool, Err: err})
		return err
	}
	l.heard.wrote(w, &r, own, now)
	if units := recorded[chargeName(pool)]; units > 0 {
		l.tell(ctx, Event{Kind: EventOthers, Pool: pool, Units: units})
	}
	return nil
}

// sendUrgent writes what could change the result of a reservation. If that fails, the
// reservation meets the same fault.
func (l *Ledger) sendUrgent(ctx context.Context, charges []Charge) {
	for _, w := range l.heard.urgentFor(charges, l.now()) {
		_ = l.sendHeard(ctx, w) // it tells the observer
	}
}
