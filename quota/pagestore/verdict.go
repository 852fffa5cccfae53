package pagestore

import (
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// decide begins the verdict on charges over their entries, which are laid out for them.
// If the charges do not fit, it completes the verdict as a refusal. Otherwise call [take].
func decide(v *quota.Verdict, now window.Instant, charges []quota.Charge, entries []*Entry) {
	*v = quota.Verdict{Allowed: true}
	at := now
	for i, e := range entries {
		at = max(at, e.at)
		v.Rebased = v.Rebased || e.rebased
		v.Overflow = v.Overflow || e.overflow
		e.fits = e.Page.Fits(e.at, charges[i].Units, charges[i].Windows)
		v.Allowed = v.Allowed && e.fits
	}
	v.At = at.Time()
	if !v.Allowed {
		refuse(v, now, charges, entries)
	}
}

// take adds charges that fit, and completes the verdict.
func take(v *quota.Verdict, charges []quota.Charge, entries []*Entry) {
	for i, e := range entries {
		e.At, e.Units = e.at, charges[i].Units
		e.Page.Add(e.At, e.Units)
	}
	grant(v, charges, entries)
}

// standing fills in the verdict on charges that were granted before: allowed, with the
// units used now. It charges nothing.
func standing(v *quota.Verdict, charges []quota.Charge, entries []*Entry) {
	*v = quota.Verdict{Allowed: true, Repeat: true}
	for _, e := range entries {
		v.Rebased = v.Rebased || e.rebased
	}
	grant(v, charges, entries)
}

// grant fills in the pool and the window with the least units left.
func grant(v *quota.Verdict, charges []quota.Charge, entries []*Entry) {
	for i, e := range entries {
		c := &charges[i]
		w, used := e.Page.Tightest(e.at, c.Windows)
		left := max(c.Windows[w].Limit-used, 0)
		if i > 0 && left >= v.Remaining {
			continue
		}
		v.Remaining = left
		v.Pool, v.Units = c.Pool, c.Units
		v.Window, v.Limit, v.Used = c.Windows[w].Name, c.Windows[w].Limit, used
		v.ResetAt = e.Page.Windows()[w].Reset(e.at).Time()
	}
}

// refuse fills in the pool and the window, or the block, that admits the charges
// last.
func refuse(v *quota.Verdict, now window.Instant, charges []quota.Charge, entries []*Entry) {
	var last window.Instant
	for i, e := range entries {
		c := &charges[i]
		if e.fits {
			continue // also where the page is ahead of the clock
		}
		free, w := e.Page.Free(e.at, c.Units, c.Windows)
		if v.Window != "" && free <= last {
			continue
		}
		last = free
		v.Blocked = w < 0
		if v.Blocked {
			w, _ = e.Page.Tightest(e.at, c.Windows)
			v.Reason = e.Reason
		}
		win := e.Page.Windows()[w]
		v.Pool, v.Units = c.Pool, c.Units
		v.Window, v.Limit, v.Used = c.Windows[w].Name, c.Windows[w].Limit, win.Used(e.at)
		v.ResetAt = win.Reset(e.at).Time()
	}
	if !v.Blocked {
		v.Reason = ""
	}
	v.Remaining = max(v.Limit-v.Used, 0)
	v.RetryAfter = last.Sub(now)
	if v.Impossible = last == window.Never; !v.Impossible {
		v.RetryAt = last.Time()
	}
}
