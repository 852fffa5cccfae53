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
	// long that takes. At most one of them is set.
	Reset   time.Time
	ResetIn time.Duration
	Date    time.Time // of the answer, by the upstream's clock; zero: the ledger's clock

	// Refills says that the upstream keeps a bucket, so that its reset moves all the time.
	Refills bool
}

// Observed is what a ledger made of an observation.
type Observed struct {
	// Limit is the upstream's limit, if it differs from the quota of the price book and
	// was adopted until Until. It is told once per reset, and 0 otherwise.
	Limit int64
	Quota int64 // of the price book
	Until time.Time
}

// Observe compares what an answer reports about a pool with the ledger. Units that the
// upstream has counted, and the ledger has not, were spent by others. They are charged to
// the pool, with the method [Others], and leave it when the upstream's window ends. A limit
// below the quota is adopted until then, and a larger one if the pool has limit: learn. If
// the pool also has a metric, the limit of its longest window is kept in the store for all
// processes, until another one is reported.
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
	w, now := windows[index], l.now()
	at, until, ok := observedPeriod(&o, w, now)
	if !ok {
		return Observed{}, nil
	}
	limit := w.Quota
	if o.Limit > w.Quota && pool.LearnLimit {
		limit = min(o.Limit, window.MaxUnits)
	}
	r := &report{charge: c, at: at, until: until, refills: o.refills(w)}
	told := false
	if r.used, told = o.used(limit); !told && o.Limit > 0 {
		limit = min(limit, o.Limit) // of nothing else; it takes the place of the quota
	}
	longest := index == observedWindow(windows, 0)
	if shared := longest && !told && o.Limit > 0 && l.shareLimit(ctx, p, c.Pool, limit, w.Quota); limit != w.Quota && !shared {
		r.limit = limit
	}
	seen := Observed{}
	if o.Limit > 0 && min(o.Limit, limit) != w.Quota {
		seen = Observed{Limit: min(o.Limit, limit), Quota: w.Quota, Until: until}
	}
	send, news := l.heard.hear(r, now, seen.Limit)
	for i, other := range windows { // a day may be both a calendar's and a sliding one
		if i != index && o.Limit > 0 && other.Length() == w.Length() && other.Quota == w.Quota {
			beside := &report{charge: c, limit: r.limit, at: at, until: until, refills: r.refills}
			beside.charge.Window = i
			l.heard.hear(beside, now, 0)
		}
	}
	if !news {
		seen = Observed{}
	} else {
		l.tell(ctx, Event{Kind: EventLimit, Pool: c.Pool, Units: seen.Limit, Until: until})
	}
	if send != nil {
		l.heard.later(send, func() { _ = l.sendHeard(context.Background(), send) }) // it tells the observer
	}
	return seen, nil
}

// used returns how much of a limit is used. Where the upstream's own limit is another one,
// so much counts as used that what is left is the same.
func (o *Observation) used(limit int64) (units int64, told bool) {
	switch {
	case o.Remaining != nil && *o.Remaining >= 0:
		units = limit - *o.Remaining
	case o.Used != nil && *o.Used >= 0 && o.Limit > 0:
		units = limit - (o.Limit - *o.Used)
	case o.Used != nil && *o.Used >= 0:
		units = *o.Used
	case o.UsedPercent != nil && *o.UsedPercent >= 0:
		const most = 1000 // percent
		of := min(cmp.Or(max(o.Limit, 0), limit), window.MaxUnits)
		units = limit - of + (of*min(*o.UsedPercent, most)+99)/100
	default:
		return 0, false
	}
	return min(max(units, 0), window.MaxUnits), true
}

// refills reports whether no instant is known at which all that is used comes back.
func (o *Observation) refills(w book.Window) bool {
	return o.Refills || o.ResetIn <= 0 && o.Reset.IsZero() && !w.Calendar()
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

// limitLife is how long a limit without a reset, as of a bucket, is believed at least. The
// next answer tells it again.
const limitLife = time.Hour

// observedPeriod returns the upstream's window: when it began, so that units added then
// leave at its end, and its end. It returns false for one that has ended. Without a reset,
// at is now, or the beginning of the calendar's period. A reset that is too far off to be
// meant is taken out of o.
func observedPeriod(o *Observation, w book.Window, now time.Time) (at, until time.Time, ok bool) {
	switch {
	case o.refills(w):
		return now, now.Add(max(w.Length(), limitLife)), true
	case o.ResetIn > 0:
		until = now.Add(o.ResetIn)
	case !o.Reset.IsZero():
		until = o.Reset
		if skew := now.Sub(o.Date); !o.Date.IsZero() && skew.Abs() > sameClock {
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
		return observedPeriod(o, w, now)
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

// Flush writes what answers have reported and is not in the ledger yet. Programs need it
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
	return nil
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
	within, cancel := context.WithTimeout(ctx, l.timeout)
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

// adopted returns the price of a call by the limits that were adopted. An estimate is
// capped at them, too. If one of them is unknown, that is an outage.
func (l *Ledger) adopted(ctx context.Context, c *Call, p *price) (*price, error) {
	if c.Family != "" {
		return p, nil
	}
	prices := l.current()
	charges, changed, err := l.adoptLimits(ctx, prices, p.charges, prices.limitsOf(c.Class))
	if !changed {
		return p, err
	}
	own := *p
	own.charges = charges
	for i := range charges {
		name := charges[i].Pool.Name
		if _, estimated := c.Estimate[name]; estimated || own.depends[name] != nil {
			charges[i].Units = min(charges[i].Units, most(&charges[i]))
		}
	}
	return &own, err
}

// limitsOf returns what makes the limit of a class of callers of a quota that was adopted.
func (p *prices) limitsOf(class string) func(*Charge, int, int64) int64 {
	return func(charge *Charge, index int, adopted int64) int64 {
		u := p.book.Upstreams[charge.Pool.Upstream]
		if u == nil || u.Pools[charge.Pool.Name] == nil {
			return charge.Windows[index].Limit // the book has changed meanwhile
		}
		windows := p.windows(charge.Pool)
		if index >= len(windows) {
			return charge.Windows[index].Limit
		}
		w := windows[index]
		w.Quota = adopted
		return max(w.Limit(u.Classes[class]), 0)
	}
}

// notForever turns a call that is impossible by a limit that was adopted into a refusal:
// the limit ends at the upstream's reset.
func (l *Ledger) notForever(v *Verdict, charges []Charge) {
	if !v.Impossible {
		return
	}
	now := l.now()
	until, adopted := l.heard.adoptedUntil(v, charges, now)
	if !adopted {
		until, adopted = l.sharedUntil(v, charges, now)
	}
	if !adopted {
		return
	}
	v.Impossible, v.RetryAfter = false, until.Sub(now)
	v.RetryAt, v.ResetAt = v.At.Add(v.RetryAfter), v.At.Add(v.RetryAfter)
	v.Reason = "the upstream reports a lower limit until then"
}
