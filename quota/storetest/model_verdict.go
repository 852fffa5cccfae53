package storetest

import (
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// decide is the model of a reservation. It charges if all units fit. Its verdict has no
// token, which the store chooses, and no id or reason, which the caller gave.
func decide(clock instant, pools []*modelPool, units []int64) quota.Verdict {
	v, at := enterAll(clock, pools)
	latest, allowed := clock, true
	for i, p := range pools {
		latest = max(latest, at[i])
		allowed = allowed && p.page.fits(at[i], units[i], p.windows)
	}
	v.At = latest.Time()
	if !allowed {
		refuse(&v, clock, at, pools, units)
		return v
	}
	for i, p := range pools {
		p.add(at[i], units[i])
	}
	grant(&v, at, pools, units)
	return v
}

// enterAll advances all pages to the instants that count.
func enterAll(clock instant, pools []*modelPool) (v quota.Verdict, at []instant) {
	for _, p := range pools {
		now, rebased := p.enter(clock)
		v.Rebased = v.Rebased || rebased
		at = append(at, now)
	}
	return v, at
}

// grant fills in a granted verdict. It names the window with the least units left.
func grant(v *quota.Verdict, at []instant, pools []*modelPool, units []int64) {
	v.Allowed = true
	for i, p := range pools {
		w := p.page.tightest(at[i], p.windows)
		if left := max(p.windows[w].Limit-p.page.windows[w].used(at[i]), 0); i == 0 || left < v.Remaining {
			v.Remaining = left
			speakOf(v, p, w, at[i], units[i])
		}
	}
}

// speakOf fills in the window that decides.
func speakOf(v *quota.Verdict, p *modelPool, w int, now instant, units int64) {
	v.Pool, v.Units = p.pool, units
	v.Window, v.Limit = p.windows[w].Name, p.windows[w].Limit
	v.Used = p.page.windows[w].used(now)
	v.ResetAt = p.page.windows[w].over(now).Time()
}

// refuse fills in a refused verdict. Among the pools that do not admit their units now, it
// names the window or the block that comes free last. Of several it names the first, and
// a block before the windows of its pool.
func refuse(v *quota.Verdict, clock instant, at []instant, pools []*modelPool, units []int64) {
	last := instant(-1 << 62)
	for i, p := range pools {
		if p.page.shut && p.page.blocked > at[i] && p.page.blocked > last {
			last = p.page.blocked
			speakOf(v, p, p.page.tightest(at[i], p.windows), at[i], units[i])
			v.Blocked = true
		}
		for w := range p.page.windows {
			var free instant
			switch {
			case p.page.fitsWindow(w, at[i], units[i], p.windows[w].Limit):
				continue
			case units[i] > p.windows[w].Limit:
				free = window.Never
			default:
				free = first(at[i], func(t instant) bool { return p.page.fitsWindow(w, t, units[i], p.windows[w].Limit) })
			}
			if free > last {
				last = free
				speakOf(v, p, w, at[i], units[i])
				v.Blocked = false
			}
		}
	}
	v.Remaining = max(v.Limit-v.Used, 0)
	v.RetryAfter = last.Sub(clock)
	v.Impossible = last == window.Never
	if !v.Impossible {
		v.RetryAt = last.Time()
	}
}

// record is the model of a record.
func (p *modelPool) record(clock, at instant, units int64) {
	now, _ := p.enter(clock)
	if units >= 0 {
		p.add(min(at, now), units)
		return
	}
	for _, w := range p.page.windows {
		w.forget(now, -units)
	}
	p.wrote(now)
}

// block is the model of a block. A block that has ended, or that another one outlasts,
// does not change the page or its time.
func (p *modelPool) block(clock, until instant) {
	now, _ := p.enter(clock)
	if until > now && (!p.page.shut || until > p.page.blocked) {
		p.page.shut, p.page.blocked, p.page.latest = true, until, now
		if until == 0 {
			p.page.blocked = 1 // see testModel
		}
	}
}

// open is the model of lifting a block.
func (p *modelPool) open(clock instant) {
	now, _ := p.enter(clock)
	p.page.shut, p.page.latest = false, now
}
