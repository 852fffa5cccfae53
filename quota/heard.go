package quota

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Others is the method in the spend of units that an upstream has counted, but that were
// not reserved in the ledger.
const Others = "others"

// heardDelay is how long others wait at most before they are written.
const heardDelay = time.Second

// heard remembers what answers have reported about windows of pools, to write only what
// the ledger does not know. It knows a part of what the ledger knows: the verdict of each
// reservation says how much of one window is used, and each reservation of this process
// adds to its windows.
type heard struct {
	on      atomic.Bool  // there was a report, or the price book says that there will be
	adopted atomic.Int64 // windows with an adopted limit; usually 0
	mu      sync.Mutex
	windows map[heardKey]*heardWindow
	spacing atomic.Int64     // pools whose calls are spaced; usually 0
	spaced  map[Pool]*spaced // that answers report about
}

type heardKey struct {
	pool   Pool
	layout string
}

// report is what an answer reports about one window.
type report struct {
	charge  Charge // of no units; its Window is the one that is meant
	used    int64
	at      time.Time // when units must count from, to leave at until
	until   time.Time
	refills bool
}

// heardWindow is what was heard about a window of a pool. The upstream's present window
// ends at until.
type heardWindow struct {
	report  // the last one of this window
	per     time.Duration
	limit   setLimit // in place of the quota, if the store does not keep it
	said    int64    // limit that was told to the caller, or 0
	guessed bool     // nothing was reported yet: until is a guess

	own     int64     // reserved by this process since the upstream's window began
	next    int64     // reserved by this process since that window ended
	beside  int64     // what the upstream has counted beside own, at most
	pending bool      // beside may not be in the ledger
	known   int64     // that the ledger counts since then, beside own
	shown   int64     // used in our window, by the last verdict about it
	shownAt time.Time // zero: no verdict was about it

	since  time.Time // when the oldest report came that is not written
	timer  *time.Timer
	writes sync.Mutex // one at a time
}

// hear takes a report. It returns the window if something must be written, and whether a
// limit is news.
func (h *heard) hear(r *report, now time.Time, limit int64) (send *heardWindow, news bool) {
	h.on.Store(true)
	h.mu.Lock()
	defer h.mu.Unlock()
	spec := &r.charge.Windows[r.charge.Window].Spec
	key := heardKey{r.charge.Pool, r.charge.Windows[r.charge.Window].Layout}
	w := h.windows[key]
	if w == nil {
		w = h.add(key, spec.Length(), now)
	}
	w.enter(r)
	at, until := w.at, w.until
	w.report = *r
	switch {
	case at.IsZero():
	case !r.refills && !w.over(at, now): // resets of one window may differ by seconds
		w.at, w.until = at, until
	default: // what was counted at another time may leave before the upstream's window ends
		w.own, w.known = 0, 0
	}
	beside := r.used
	if !r.refills {
		beside -= w.own
		if w.pending {
			beside = max(beside, w.beside)
		}
	}
	w.beside, w.pending = beside, true
	if news = limit != 0 && limit != w.said; news {
		w.said = limit
	}
	if !w.missing(now) {
		w.pending = false
		return nil, news
	}
	if w.since.IsZero() {
		w.since = now
	}
	return w, news
}

// over reports whether what counts from at on has left the window. What counts in a period of a calendar leaves at
// its end, however long the period is: a day may have 25 hours.
func (w *heardWindow) over(at, now time.Time) bool {
	return now.Sub(at) >= w.per && !w.charge.Windows[w.charge.Window].Spec.Calendar()
}

// enter forgets what was heard about a window of the upstream that has ended.
func (w *heardWindow) enter(r *report) {
	if spec := &r.charge.Windows[r.charge.Window].Spec; spec.Calendar() && w.shownAt.Before(r.at) {
		w.shownAt = time.Time{} // the verdict was about a period that has ended
	}
	if w.guessed {
		if r.at.After(w.until.Add(-w.per)) { // some of own was reserved before the upstream's window
			w.own = 0
		}
		w.guessed, w.until = false, r.until
		return
	}
	if r.refills || r.until.Sub(w.until).Abs() < w.per/4 {
		return
	}
	if r.until.After(w.until) {
		w.own, w.next = w.next, 0
	} else {
		w.own, w.next = 0, 0
	}
	w.known, w.pending, w.said, w.since, w.at, w.until = 0, false, 0, time.Time{}, time.Time{}, r.until
}

// heardShare is the share of a window for which a verdict about it stays true enough, and
// the share of what is left that may be missing until the next reservation.
const heardShare = 16

// missing reports whether the ledger may not know what is used.
func (w *heardWindow) missing(now time.Time) bool { return w.pending && w.total() > w.counted(now) }

// total returns how much the ledger should count.
func (w *heardWindow) total() int64 {
	if w.refills {
		return w.beside
	}
	return w.beside + w.own
}

// counted returns how much the ledger certainly counts.
func (w *heardWindow) counted(now time.Time) int64 {
	var counted int64
	if !w.refills {
		counted = w.known + w.own
	}
	if w.recent(now) {
		counted = max(counted, w.shown)
	}
	return counted
}

// recent reports whether the last verdict about the window is still true enough.
func (w *heardWindow) recent(now time.Time) bool {
	return !w.shownAt.IsZero() && now.Sub(w.shownAt) <= w.per/heardShare
}

// adopt makes a limit hold in this process alone, or none of quota 0. It is that of a report
// unless a later one was heard.
func (h *heard) adopt(c *Charge, per time.Duration, limit setLimit, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := heardKey{c.Pool, c.Windows[c.Window].Layout}
	w := h.windows[key]
	if w == nil && limit.quota != 0 {
		w = h.add(key, per, now)
	}
	if w != nil && !limit.heard.Before(w.limit.heard) {
		h.adoptIn(w, limit)
	}
}

// adoptIn adopts a limit.
func (h *heard) adoptIn(w *heardWindow, limit setLimit) {
	switch {
	case w.limit.quota == 0 && limit.quota != 0:
		h.adopted.Add(1)
	case w.limit.quota != 0 && limit.quota == 0:
		h.adopted.Add(-1)
	}
	w.limit = limit
}

// adoptedIn returns the limit that this process alone has heard of a window, or 0.
func (h *heard) adoptedIn(c *Charge, index int, w reportedWindow, now time.Time, p probing) (limit int64, until time.Time) {
	if h.adopted.Load() == 0 {
		return 0, time.Time{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.windows[heardKey{c.Pool, c.Windows[index].Layout}]; known != nil {
		return known.limit.inForce(w, now, p)
	}
	return 0, time.Time{}
}

// urgent reports whether what is missing could soon change the result of a reservation under
// a limit.
func (w *heardWindow) urgent(now time.Time, limit int64) bool {
	return w.total()-w.counted(now) > max(limit-w.total(), 0)/heardShare || now.Sub(w.since) >= heardDelay
}

// later writes what is missing in a while, unless a reservation does so before.
func (h *heard) later(w *heardWindow, write func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.timer == nil {
		w.timer = time.AfterFunc(heardDelay, write)
	}
}

// note counts what a reservation says about the windows that were heard about, or that
// answers will report about.
func (h *heard) note(v *Verdict, charges []Charge, held bool, p *prices, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range charges {
		c := &charges[i]
		if v.Allowed && !v.Repeat && !held {
			h.starts(c, p, now)
		}
		for j := range c.Windows {
			w := h.windows[heardKey{c.Pool, c.Windows[j].Layout}]
			if w == nil && p.of(c.Pool.Upstream, c.Pool.Name).reported {
				w = h.add(heardKey{c.Pool, c.Windows[j].Layout}, c.Windows[j].Spec.Length(), now)
			}
			if w == nil {
				continue
			}
			if c.Pool == v.Pool && c.Windows[j].Name == v.Window && !v.Blocked {
				w.shown, w.shownAt = v.Used, now
				if !v.Allowed && v.RetryAfter <= w.per/heardShare { // some leave before the verdict would be too old
					w.shownAt = time.Time{}
				}
			}
			if v.Allowed && !v.Repeat {
				h.reserved(w, now, c.Units)
			}
		}
	}
}

// mostHeard is how many windows are remembered. Accounts and keys come and go.
const mostHeard = 4096

// forget makes room for more windows. Those that have ended go first. If another one
// is forgotten, that costs one more round trip. The store knows what is ours, so nothing counts
// twice.
func (h *heard) forget(now time.Time) {
	drop := func(most int, which func(*heardWindow) bool) {
		for key, w := range h.windows {
			if len(h.windows) > most && which(w) {
				h.adoptIn(w, setLimit{})
				delete(h.windows, key)
			}
		}
	}
	const room = mostHeard * 3 / 4 // so that this is rare
	drop(0, func(w *heardWindow) bool { return !w.pending && now.After(w.until.Add(w.per)) })
	drop(room, func(w *heardWindow) bool { return !w.pending && w.limit.quota == 0 })
	drop(room, func(w *heardWindow) bool { return !w.pending })
	drop(room, func(*heardWindow) bool { return true })
}

// add begins to remember a window.
func (h *heard) add(key heardKey, per time.Duration, now time.Time) *heardWindow {
	if len(h.windows) >= mostHeard {
		h.forget(now)
	}
	if h.windows == nil {
		h.windows = make(map[heardKey]*heardWindow)
	}
	w := &heardWindow{per: per, guessed: true}
	w.until = now.Add(per)
	h.windows[key] = w
	return w
}

// reserved counts units that this process reserved.
func (h *heard) reserved(w *heardWindow, now time.Time, units int64) {
	switch {
	case now.Before(w.until):
		w.own += units
	case now.Before(w.until.Add(w.per)):
		w.next += units
	default: // windows without a report have passed
		w.next = units
		w.until = w.until.Add(now.Sub(w.until).Truncate(w.per))
		w.own, w.known = 0, 0
	}
}

// settled counts what settling has changed.
func (h *heard) settled(charges []Charge, units []int64, held bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range charges {
		c := &charges[i]
		if s := h.spaced[c.Pool]; s != nil && !held {
			s.settled(units[i] - c.Units)
		}
		for j := range c.Windows {
			if w := h.windows[heardKey{c.Pool, c.Windows[j].Layout}]; w != nil {
				of := &w.own
				if !now.Before(w.until) {
					of = &w.next
				}
				*of, w.shown = max(*of+units[i]-c.Units, 0), max(w.shown+units[i]-c.Units, 0)
			}
		}
	}
}

// urgentFor returns the windows of charges for which something must be written before a
// reservation.
func (h *heard) urgentFor(charges []Charge, now time.Time) (all []*heardWindow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range charges {
		for j := range charges[i].Windows {
			w := h.windows[heardKey{charges[i].Pool, charges[i].Windows[j].Layout}]
			if w != nil && w.missing(now) && w.urgent(now, charges[i].Windows[j].Limit) {
				all = append(all, w)
			}
		}
	}
	shortestFirst(all)
	return all
}

// shortestFirst orders windows for writing: what others spent in an hour is part of their
// day, and must not count there twice.
func shortestFirst(all []*heardWindow) {
	slices.SortFunc(all, func(v, w *heardWindow) int { return cmp.Compare(v.per, w.per) })
}

// take returns the request that writes what is missing, or false if nothing is.
func (h *heard) take(w *heardWindow, now time.Time) (r Request, own int64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	missing := w.missing(now) && now.Before(w.until)
	c := w.charge
	c.Units = min(max(w.total(), 0), window.MaxUnits)
	w.pending, w.since = false, time.Time{}
	// Ours of a while before also count. The resets that two processes read differ by a
	// second or two, and one must see what the other has recorded.
	at, since := w.at, w.at.Add(-w.per/4)
	switch all := now.Add(-w.per); {
	case missing && w.over(at, now): // a process that was frozen writes late
		at, since = now, all
	case w.refills:
		since = all
	}
	return Request{Charges: []Charge{c}, Labels: Labels{Method: Others}, At: at, AtLeast: true, Since: since}, w.own, missing
}

// wrote notes that the ledger counts what was written.
func (h *heard) wrote(w *heardWindow, r *Request, own int64, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	used := r.Charges[0].Units
	if w.at.Equal(r.At) {
		w.known = max(w.known, used-own)
	}
	if !w.refills && w.until.Sub(now) <= w.per/heardShare { // it leaves before a verdict would be too old
		return
	}
	if !w.recent(now) {
		w.shown = 0
	}
	w.shown, w.shownAt = max(w.shown, used), now
}
