package book

import (
	"cmp"
	"time"

	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/window"
)

// Lease says how processes take units of a pool, or of a key of a family, in blocks. The zero value is that they do
// not.
type Lease struct {
	Life        time.Duration // the longest time that a process keeps a block
	Most        int64         // units that the blocks of one process may have
	MostPercent int64         // the same as a percentage of the smallest limit
}

// Units returns how many units the blocks of one process may have under a limit.
func (l Lease) Units(limit int64) int64 {
	return min(limit, l.Most+limit/100*l.MostPercent+limit%100*l.MostPercent/100)
}

// A lease that leaves out a key has one of these.
const (
	defaultLife = 2 * time.Second
	defaultMost = 5 // percent
)

// lease makes the lease of a pool or a family, whose rings then count units for its life longer. A
// family may have counters, which do not: a block ends with the fixed window of a counter.
func (r *reader) lease(d *keys.Lease, specs []Window, windows []keys.Window, label string, family bool) (l Lease, ok bool) {
	if d == nil {
		return l, true
	}
	if !r.sound(d) {
		return l, false
	}
	l = Lease{Life: cmp.Or(d.Life, defaultLife), Most: d.Most.Units, MostPercent: d.Most.Percent}
	if l.Most+l.MostPercent == 0 {
		l.MostPercent = defaultMost
	}
	ok = true
	for i := range specs {
		s := &specs[i].Spec
		switch {
		case s.Calendar(), s.Estimates() && family:
		case s.Algorithm != window.Sliding:
			kinds := "a ring"
			if family {
				kinds = "a ring, a counter"
			}
			r.fault(r.place(&windows[i]), "%s has a lease, so window %s must be %s or count a calendar period; change its algorithm, or remove the lease", label, *s, kinds)
			ok = false
		case s.Late+l.Life > s.Per:
			r.fault(r.blame(&d.Life, &windows[i].Late, d), "the life %s of the lease of %s is too long for its window %s", brief(l.Life), label, *s)
			ok = false
		default:
			s.Late += l.Life
		}
	}
	return l, ok
}
