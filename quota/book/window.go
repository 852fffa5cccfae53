package book

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/window"
)

// Window is a limit over time on a pool.
type Window struct {
	window.Spec
	Quota    int64 // units that the upstream grants; of a bucket, its burst
	Headroom int64 // units of it that ordinary calls leave free
}

// Limit returns how many units callers of a class may use within the window.
func (w Window) Limit(c Class) int64 {
	limit := w.Quota
	if !c.UseHeadroom {
		limit -= w.Headroom
	}
	return limit - c.KeepFree - (limit*c.KeepFreePercent+99)/100
}

// Reported returns the window with the quota that the upstream reports. A lower one leaves
// the same share free as headroom, and at least one unit to ordinary callers: their answers
// tell when it has changed.
func (w Window) Reported(quota int64) Window {
	if quota < w.Quota {
		w.Headroom = min(int64(math.Ceil(float64(w.Headroom)*(float64(quota)/float64(w.Quota)))), quota-1)
	}
	w.Quota = quota
	return w
}

// Zone returns the zone by whose days the spend of a pool with these windows is counted.
func Zone(windows []Window) *time.Location {
	for _, w := range windows {
		if w.Calendar() && w.Zone != nil {
			return w.Zone
		}
	}
	return time.UTC
}

// takes reports whether some window has no quota of its own.
func takes(windows []keys.Window) bool {
	return slices.ContainsFunc(windows, func(w keys.Window) bool { return w.Quota == 0 && w.InFlight == 0 })
}

// windows checks the windows of a pool, family or key, and fills in their defaults.
// The windows it returns have no quotas yet: limits adds them.
func (r *reader) windows(all []keys.Window, label string) (specs []Window, ok bool) {
	specs, ok = make([]Window, len(all)), true
	given := map[string]*keys.Window{}
	for i := range all {
		d := &all[i]
		if !r.sound(d) {
			ok = false
			continue
		}
		spec, err := specOf(d)
		if err != nil {
			// Its messages begin with the key that is wrong, where it is one key.
			at := r.place(d)
			first, _, _ := strings.Cut(err.Error(), " ")
			if v := r.written(d).Value(first); v != nil {
				at = v.At
			}
			r.fault(at, "%s", err.Error())
			ok = false
			continue
		}
		if first, dup := given[spec.String()]; dup {
			r.fault(r.place(d), "window %s of %s is given twice, the first time at %s; keep one", spec, label, r.place(first))
			ok = false
		}
		given[spec.String()], specs[i].Spec = d, spec
		if spec.InFlight() && len(all) > 1 {
			r.fault(r.place(d), "in_flight must be the only window of %s; give the other windows to a pool of their own", label)
			ok = false
		}
	}
	return specs, ok
}

// limits gives each window its own quota and headroom, or else the given ones, and
// checks the result. From points to the given values in the book, nearest first.
func (r *reader) limits(specs []Window, all []keys.Window, quota, headroom int64, label string, from ...any) ([]Window, bool) {
	drains := slices.ContainsFunc(specs, func(w Window) bool { return w.Drains() }) // its quota is a rate
	if quota > 0 && headroom >= quota && !drains {
		r.fault(r.blame(from...), "headroom %d of %s is not below its quota %d: nothing would be left; lower it", headroom, label, quota)
		return nil, false
	}
	windows, before := slices.Clone(specs), len(r.faults)
	for i := range windows {
		w, own := &windows[i], &all[i]
		w.Quota, w.Headroom = quota, headroom
		if q := max(own.Quota, own.InFlight); q > 0 {
			w.Quota, w.Headroom = q, 0
		}
		if own.Headroom != nil {
			w.Headroom = *own.Headroom
		}
		most := "quota"
		if w.Drains() && w.Quota > 0 {
			w.Rate, w.Quota, most = w.Quota, cmp.Or(own.Burst, w.Quota), "burst"
		}
		switch {
		case w.Quota == 0:
			r.fault(r.place(own), "window %s of %s has no quota; give one to the window or to %s", w.Spec, label, label)
		case w.Headroom >= w.Quota:
			r.fault(r.blame(append([]any{&own.Headroom, &own.Quota}, from...)...),
				"headroom %d of window %s of %s is not below its %s %d: nothing would be left; lower it", w.Headroom, w.Spec, label, most, w.Quota)
		default:
			var err error
			if w.Spec, err = w.For(w.Quota); err != nil {
				r.fault(r.blame(append([]any{&own.Burst, &own.Quota}, from...)...), "window %s of %s: %s", w.Spec, label, err.Error())
			}
		}
	}
	return windows, len(r.faults) == before
}

// specOf makes the window's [window.Spec], and fills in the defaults of both.
func specOf(d *keys.Window) (window.Spec, error) {
	if d.InFlight > 0 {
		return inFlight(d)
	}
	if d.TTL != 0 {
		return window.Spec{}, errors.New("ttl belongs to a window with in_flight")
	}
	per, period := parts(d.Per)
	s := window.Spec{Algorithm: d.Algorithm, Per: per, Period: period, Precision: d.Precision, Late: d.Late}
	drains := d.Algorithm == window.Leaky
	if drains {
		s.Rate = 1 // until limits knows the quota
	} else if d.Burst != 0 {
		return s, errors.New("burst belongs to a bucket; add algorithm: bucket, or remove it")
	}
	if d.Lag != nil {
		if s.Lag = *d.Lag; s.Lag == 0 {
			s.Lag = -1 // none; a Spec's zero is the default
		}
	}
	if d.Zone != "" {
		s.Zone, _ = time.LoadLocation(d.Zone) // badZone has checked it
	}
	s, err := s.Normal()
	if err != nil {
		return s, err
	}
	if drains {
		s.Rate = d.Quota
	}
	d.Algorithm = s.Algorithm
	switch s.Algorithm {
	case window.ByCalendar:
		lag := max(s.Lag, 0)
		d.Algorithm, d.Zone, d.Lag = "", s.Zone.String(), &lag
	case window.Sliding:
		d.Algorithm, d.Precision = "", s.Precision
	}
	return s, nil
}

// inFlight is specOf a window of calls in flight.
func inFlight(d *keys.Window) (window.Spec, error) {
	if d.Quota > 0 {
		return window.Spec{}, errors.New("quota does not go with in_flight, which is the number itself; leave it out")
	}
	for _, other := range []struct {
		key   string
		given bool
	}{
		{"burst", d.Burst != 0}, {"late", d.Late != 0}, {"algorithm", d.Algorithm != ""}, {"precision", d.Precision != 0}, {"zone", d.Zone != ""}, {"lag", d.Lag != nil},
	} {
		if other.given {
			return window.Spec{}, fmt.Errorf("%s does not go with in_flight; leave it out", other.key)
		}
	}
	d.TTL = cmp.Or(d.TTL, 2*time.Minute)
	return window.Spec{Algorithm: window.InFlight, Per: d.TTL}.Normal()
}

func badZone(name string) string {
	_, err := time.LoadLocation(name)
	switch {
	case name == "Local" || name == "":
		return "differs between machines; name one, such as UTC or America/Los_Angeles"
	case err != nil:
		return "is not known; write an IANA name, such as UTC or America/Los_Angeles"
	}
	return ""
}

// span is a duration, or a period of the calendar.
type span keys.Span

func parts(s keys.Span) (time.Duration, window.Period) {
	if d, err := time.ParseDuration(string(s)); err == nil {
		return d, ""
	}
	return 0, window.Period(s)
}

func (s *span) read(r *reader, f *field, t *tree) {
	const example = "a duration such as 90s, 10m or 24h, or "
	d, err := time.ParseDuration(t.Text)
	switch {
	case t.Kind == isText && slices.Contains(f.words, t.Text):
		*s = span(t.Text)
	case t.Kind == isText && err == nil:
		if *s = span(brief(d)); d == 0 {
			r.fault(t.At, "%s must be above 0, is %s", f.key, t.Text)
		}
	case t.Kind == isNumber:
		r.fault(t.At, "%s %s lacks a unit; write %s", f.key, t.Text, example+list(f.words, "or"))
	default:
		r.fault(t.At, "%s must be %s, is %s%s", f.key, example+list(f.words, "or"), show(t), didYouMean(t.Text, f.words))
	}
}

func (s *span) tree() *tree {
	if *s == "" {
		return nil
	}
	return text(string(*s))
}

func valueOf(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

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
	before := len(r.faults)
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
		case s.Late+l.Life > s.Per:
			r.fault(r.blame(&d.Life, &windows[i].Late, d), "the life %s of the lease of %s is too long for its window %s", brief(l.Life), label, *s)
		default:
			s.Late += l.Life
		}
	}
	return l, len(r.faults) == before
}
