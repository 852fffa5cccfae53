package quota

import (
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Verdict is the answer to a reservation, granted or refused. Where a call
// charges several pools and windows it speaks of the one that decides: the
// tightest if granted, the last to come free if refused.
type Verdict struct {
	Allowed    bool
	ID         string
	Token      Token // of a grant that left a receipt
	Pool       Pool
	Window     string
	Units      int64 // asked of Pool
	Used       int64 // in Window, after this call
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration // the same call succeeds then, if nobody else does anything
	RetryAt    time.Time
	ResetAt    time.Time
	At         time.Time // the instant that counts, by the store's clock
	Repeat     bool      // the id had been granted before; nothing was charged
	Blocked    bool      // refused because the upstream said no
	Reason     string    // of the block
	Impossible bool      // no amount of waiting helps
	Overflow   bool      // a family is full: the page is shared by all new keys
	Rebased    bool      // the store's clock had been far ahead
	Outage     bool      // admitted while the ledger could not be reached
}

// Decide is the verdict on charges over the pages of their pools, for stores
// that keep pages in Go: page i belongs to charge i. If all fit it adds them
// all, else it adds none. Pages must be laid out for their charges (see
// [LayOut]); clock is the store's.
func Decide(clock time.Time, charges []Charge, pages []*window.Page) Verdict {
	now := window.At(clock)
	var v Verdict
	at, allowed := now, true
	for i, p := range pages {
		t, rebased := p.Now(now)
		at = max(at, t)
		v.Rebased = v.Rebased || rebased
		allowed = allowed && p.Fits(t, charges[i].Units, charges[i].Windows)
	}
	v.At = at.Time()
	if !allowed {
		refuse(&v, now, charges, pages)
		return v
	}
	v.Allowed = true
	for i, p := range pages {
		c := &charges[i]
		t, _ := p.Now(now)
		p.Add(t, c.Units)
		w, used := p.Tightest(t, c.Windows)
		if left := max(c.Windows[w].Limit-used, 0); i == 0 || left < v.Remaining {
			v.Remaining = left
			v.Pool, v.Units = c.Pool, c.Units
			v.Window, v.Limit, v.Used = c.Windows[w].Name, c.Windows[w].Limit, used
			v.ResetAt = p.Windows()[w].Reset(t).Time()
		}
	}
	return v
}

// refuse fills in the pool, window or block that is the last to come free.
func refuse(v *Verdict, now window.Instant, charges []Charge, pages []*window.Page) {
	last := window.Instant(0)
	for i, p := range pages {
		c := &charges[i]
		t, _ := p.Now(now)
		free, w := p.Free(t, c.Units, c.Windows)
		if i > 0 && free <= last {
			continue
		}
		last = free
		v.Blocked = w < 0
		if v.Blocked {
			w, _ = p.Tightest(t, c.Windows)
		}
		win := p.Windows()[w]
		v.Pool, v.Units = c.Pool, c.Units
		v.Window, v.Limit, v.Used = c.Windows[w].Name, c.Windows[w].Limit, win.Used(t)
		v.ResetAt = win.Reset(t).Time()
	}
	v.Remaining = max(v.Limit-v.Used, 0)
	v.RetryAfter = last.Sub(now)
	if v.Impossible = last == window.Never; !v.Impossible {
		v.RetryAt = last.Time()
	}
}

// LayOut makes a page ready for a charge, for stores that keep pages in Go: it
// lays a new one out if there is none, and again if the price book has a higher
// revision. A lower one is told that its book is stale.
func LayOut(clock time.Time, c *Charge, p *window.Page) (*window.Page, error) {
	now := window.At(clock)
	switch {
	case p == nil:
		return window.NewPage(now, c.Revision, c.Windows), nil
	case c.Revision < p.Revision:
		return nil, &StaleBookError{Pool: c.Pool, Revision: c.Revision, Stored: p.Revision}
	case c.Revision > p.Revision:
		at, _ := p.Now(now)
		p.LayOut(at, c.Revision, c.Windows)
	case !p.LaidOut(c.Windows):
		return nil, badInput("pool %s has other windows in the store under the same revision %d of the price book: raise revision in costs.yaml", c.Pool, c.Revision)
	}
	return p, nil
}
