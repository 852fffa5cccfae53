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
	Nonce      [16]byte // of the grant's receipt: see Token
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
	Blocked    bool      // refused because the pool is shut
	BlockedBy  Blocker   // by whom; stores leave it to the ledger
	Reason     string    // of the block
	Impossible bool      // no amount of waiting helps
	Overflow   bool      // a family is full: the page is shared by all new keys
	Rebased    bool      // the store's clock had been far ahead
	Outage     bool      // admitted while the ledger could not be reached
}

// Token names the receipt of a grant: settling and releasing take it. It is zero
// where there is none.
func (v *Verdict) Token() Token {
	if v.Nonce == [16]byte{} {
		return Token{}
	}
	return Token{Upstream: v.Pool.Upstream, Account: v.Pool.Account, ID: v.ID, Nonce: v.Nonce}
}

// Decide is the verdict on charges over the pages of their pools, for stores
// that keep pages in Go: page i belongs to charge i. If all fit it adds them
// all, else it adds none. Pages must be laid out for their charges (see
// [LayOut]); clock is the store's.
func Decide(clock time.Time, charges []Charge, pages []*window.Page) (v Verdict) {
	now := window.At(clock)
	at, allowed := now, true
	for i, p := range pages {
		t, rebased := p.Now(now)
		at = max(at, t)
		v.Rebased = v.Rebased || rebased || p.Rebased
		allowed = allowed && p.Fits(t, charges[i].Units, charges[i].Windows)
	}
	v.At = at.Time()
	if !allowed {
		refuse(&v, now, charges, pages)
		return v
	}
	for i, p := range pages {
		t, _ := p.Now(now)
		p.Add(t, charges[i].Units)
	}
	v.Allowed = true
	granted(&v, now, charges, pages)
	return v
}

// Standing is the verdict on charges that had been granted before: allowed, with
// what is used now. It adds nothing.
func Standing(clock time.Time, charges []Charge, pages []*window.Page) (v Verdict) {
	now := window.At(clock)
	v.Allowed, v.Repeat = true, true
	for _, p := range pages {
		_, rebased := p.Now(now)
		v.Rebased = v.Rebased || rebased || p.Rebased
	}
	granted(&v, now, charges, pages)
	return v
}

// granted fills in the pool and window that has the least left.
func granted(v *Verdict, now window.Instant, charges []Charge, pages []*window.Page) {
	for i, p := range pages {
		c := &charges[i]
		t, _ := p.Now(now)
		w, used := p.Tightest(t, c.Windows)
		left := max(c.Windows[w].Limit-used, 0)
		if i > 0 && left >= v.Remaining {
			continue
		}
		v.Remaining = left
		v.Pool, v.Units = c.Pool, c.Units
		v.Window, v.Limit, v.Used = c.Windows[w].Name, c.Windows[w].Limit, used
		v.ResetAt = p.Windows()[w].Reset(t).Time()
	}
}

// refuse fills in the pool and the window, or the block, that is the last to come
// free.
func refuse(v *Verdict, now window.Instant, charges []Charge, pages []*window.Page) {
	var last window.Instant
	for i, p := range pages {
		c := &charges[i]
		t, _ := p.Now(now)
		if p.Fits(t, c.Units, c.Windows) {
			continue // also where the page is ahead of the clock
		}
		free, w := p.Free(t, c.Units, c.Windows)
		if v.Window != "" && free <= last {
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
