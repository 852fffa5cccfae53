package quota

import (
	"context"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// UpstreamCount is an upstream's own count of the units of a pool, as its console or its
// monitoring shows it. Such counts come minutes late.
type UpstreamCount struct {
	Pool  Pool
	Units int64     // counted from From to Until
	From  time.Time // when the present period of the pool's calendar began
	Until time.Time // later calls are not in Units yet
}

// Comparison is what a ledger knows of the period of an [UpstreamCount].
type Comparison struct {
	Ours   int64 // that were charged since the period began, without those of others
	Others int64 // that were recorded as those of others
	Late   int64 // of Ours: reserved after the count ended, so the upstream has not reported them
	// Missing are units that the upstream has counted and the ledger has not: others spent
	// them. If it is negative, the ledger counts more than the upstream.
	Missing int64
	// Known is false if the pool has no sliding window, which knows when units were
	// reserved. Then Late is 0, and Missing the least that it can be.
	Known bool
}

// These are how much the end of a count is uncertain. Upward, units that were reserved within
// upMargin after it may be in it: clocks differ. Later counts show what others spent then.
// Downward, the upstream may have left out calls of the last downMargin, because it counts
// some methods later than others.
const (
	upMargin   = time.Minute
	downMargin = 30 * time.Minute
)

// Compare compares an upstream's own count with the ledger. It changes nothing.
func (v View) Compare(ctx context.Context, u UpstreamCount) (Comparison, error) {
	l := v.ledger
	_, c, err := l.compare(ctx, &u, 0)
	return c, err
}

// Reconcile charges to a pool what its upstream has counted and the ledger has not, with
// the method [Others]. These units count until the period ends. It returns how many it
// recorded. Counts may come late, twice, and to several processes: the ledger charges what
// is missing to the largest.
//
// If down is set, it also gives units back that the upstream has not counted, and returns
// them as a negative number. It keeps those that were reserved shortly before the count
// ended, because the upstream may count them later.
func (a Admin) Reconcile(ctx context.Context, u UpstreamCount, down bool) (int64, error) {
	l := a.ledger
	if l.current() != nil && l.journal != nil {
		// What was admitted in an outage, also by other processes that share the journal, is counted by the upstream, and
		// nobody else spent it.
		l.pending.Store(true)
		if err := l.replayMost(ctx); err != nil {
			return 0, err
		}
	}
	charge, c, err := l.compare(ctx, &u, -upMargin)
	if err != nil {
		return 0, err
	}
	r := Request{Charges: []Charge{charge}, Labels: Labels{Method: Others}}
	switch {
	case c.Missing > 0:
		r.At, r.AtLeast = u.From, true
		r.Charges[0].Units = min(u.Units+c.Late, window.MaxUnits)
	case c.Missing < 0 && down:
		if _, c, err = l.compare(ctx, &u, downMargin); err != nil || c.Missing >= 0 || !c.Known {
			return 0, err
		}
		r.ID = "down " + charge.Pool.Name + " " + u.Until.UTC().Format(time.RFC3339Nano) + " " + strconv.FormatInt(u.Units, 10)
		r.Labels.Reason = "the upstream has counted less"
		r.Charges[0].Units = c.Missing
	default:
		return 0, nil
	}
	pool := charge.Pool
	within, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	units, err := l.store.Record(within, r)
	if err != nil {
		err = l.storeError(ctx, "reconcile "+pool.String(), err)
		l.tell(ctx, Event{Kind: EventOthers, Pool: pool, Err: err})
		return 0, err
	}
	recorded := units[chargeName(pool)]
	switch {
	case recorded > 0:
		l.tell(ctx, Event{Kind: EventOthers, Pool: pool, Units: recorded})
	case recorded < 0:
		l.refusals.clear()
		l.tell(ctx, Event{Kind: EventAdjusted, Pool: pool, Units: recorded, Reason: r.Labels.Reason})
	}
	return recorded, nil
}

// compare also returns the charge of the pool, whose Window is the calendar of the count.
// Units that were reserved within margin before the count ended are late, too.
func (l *Ledger) compare(ctx context.Context, u *UpstreamCount, margin time.Duration) (Charge, Comparison, error) {
	var c Comparison
	if err := tooLate(ctx, "compare "+u.Pool.String()); err != nil {
		return Charge{}, c, err
	}
	p := l.current()
	charge, err := p.pool(u.Pool)
	if err != nil {
		return Charge{}, c, err
	}
	what := charge.Pool.String()
	switch {
	case u.Units < 0 || u.Units > window.MaxUnits:
		return charge, c, BadInput("compare %s: units must be 0 to %d, not %d", what, window.MaxUnits, u.Units)
	case !u.Until.After(u.From):
		return charge, c, BadInput("compare %s: the count ends before it begins", what)
	}
	windows := p.windows(charge.Pool)
	if charge.Window = periodOf(windows, u.From, l.now()); charge.Window < 0 {
		return charge, c, BadInput("compare %s: %[1]s has no calendar window that began at %s", what, u.From.UTC().Format(time.RFC3339))
	}
	sliding := longest(windows, l.now().Sub(u.Until)+margin)
	charge.Since = window.At(u.From)
	if sliding >= 0 { // a bucket counts if its middle is later, and all of it must be
		charge.Since = max(charge.Since, window.At(u.Until.Add(windows[sliding].Precision/2-margin)))
	}
	states, err := l.store.Look(ctx, []Charge{charge})
	if err != nil {
		return charge, c, l.storeError(ctx, "compare "+what, err)
	}
	spent, err := l.store.Spend(ctx, SpendQuery{Upstream: charge.Pool.Upstream, Account: charge.Pool.Account, Since: u.From, Hours: true})
	if err != nil {
		return charge, c, l.storeError(ctx, "compare "+what, err)
	}
	used := states[0].Windows[charge.Window].Since // a calendar's are all of its period
	c.Others, c.Known = 0, sliding >= 0
	byHand := int64(0)
	for _, s := range spent {
		switch {
		case s.Pool != charge.Pool || s.Hour.Before(u.From.Truncate(time.Hour)):
		case s.Labels.Method == Others:
			c.Others += s.Units
		case s.Labels.Reason != "" && s.Units > 0 && !s.Hour.Before(u.Until.Add(-margin).Truncate(time.Hour)):
			byHand += s.Units
		}
	}
	if c.Known {
		c.Late = max(states[0].Windows[sliding].Since-byHand, 0)
	}
	c.Ours = used - c.Others
	c.Missing = u.Units + c.Late - used
	charge.Since = 0
	return charge, c, nil
}

// periodOf returns the index of the calendar window whose present period began at an
// instant, or -1.
func periodOf(windows []book.Window, began, now time.Time) int {
	for i, w := range windows {
		if !w.Calendar() {
			continue
		}
		if start, _ := w.Bounds(window.At(now)); start.Time().Equal(began) {
			return i
		}
	}
	return -1
}

// longest returns the index of the longest sliding window, or -1 if none reaches back so
// far. A shorter one forgets recent units when units are given back.
func longest(windows []book.Window, reach time.Duration) int {
	best := -1
	for i, w := range windows {
		if w.Dated() && w.Per >= reach && (best < 0 || w.Per > windows[best].Per) {
			best = i
		}
	}
	return best
}
