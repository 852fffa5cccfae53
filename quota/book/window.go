package book

import (
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Window is a limit over time on a pool.
type Window struct {
	window.Spec
	Quota    int64 // what the upstream grants
	Headroom int64 // what ordinary calls leave free of it
}

// Limit returns how many units callers of a class may use within the window.
func (w Window) Limit(c Class) int64 {
	limit := w.Quota
	if !c.UseHeadroom {
		limit -= w.Headroom
	}
	return limit - c.KeepFree - (limit*c.KeepFreePercent+99)/100
}

// windowList is a list of windows as the book gives them, before the quota of
// the pool, account or key is filled in.
type windowList struct {
	specs []window.Spec
	own   []grant
	at    []place
	trees []*tree
}

// fill gives the windows a quota: their own, or g's.
func (l *windowList) fill(g grant) []Window {
	windows := make([]Window, len(l.specs))
	for i, spec := range l.specs {
		windows[i] = Window{Spec: spec, Quota: g.quota, Headroom: g.headroom}
		if l.own[i].hasQuota {
			windows[i].Quota, windows[i].Headroom = l.own[i].quota, 0
		}
		if l.own[i].hasHeadroom {
			windows[i].Headroom = l.own[i].headroom
		}
	}
	return windows
}

// takes says whether some window is without a quota of its own.
func (l *windowList) takes() bool {
	return slices.ContainsFunc(l.own, func(g grant) bool { return !g.hasQuota })
}

// windows reads the windows of a pool, family or key.
func (r *reader) windows(t *tree, what, label string) (l windowList, ok bool) {
	if !r.is(t, isList, "windows of "+label) {
		return l, false
	}
	if n := len(t.items); n == 0 || n > MaxWindows {
		r.fault(t.at, "%s must have 1 to %d windows, has %d", label, MaxWindows, n)
		return l, false
	}
	ok = true
	given := map[string]place{}
	for _, item := range t.items {
		if !r.sound(item, what, "a window of "+label) {
			ok = false
			continue
		}
		spec, sound := r.spec(item)
		own, soundToo := r.grant(item)
		if !sound || !soundToo {
			ok = false
			continue
		}
		if first, dup := given[spec.String()]; dup {
			r.fault(item.at, "window %s of %s is given twice, the first time at %s; keep one", spec, label, first)
			ok = false
		}
		given[spec.String()] = item.at
		l.specs, l.own, l.at, l.trees = append(l.specs, spec), append(l.own, own), append(l.at, item.at), append(l.trees, item)
	}
	return l, ok
}

// limits fills in the quota of windows and checks what comes out. From are the
// mappings whose quota and headroom g is made of, nearest first.
func (r *reader) limits(l *windowList, g grant, label string, from ...*tree) ([]Window, bool) {
	if g.hasQuota && g.headroom >= g.quota {
		r.fault(r.blame(places(from, "headroom", "quota")...), "headroom %d of %s is not below its quota %d: nothing would be left; lower it",
			g.headroom, label, g.quota)
		return nil, false
	}
	windows, ok := l.fill(g), true
	for i, w := range windows {
		switch {
		case w.Quota == 0:
			r.fault(l.at[i], "window %s of %s has no quota; give one to the window or to %s", w.Spec, label, label)
			ok = false
		case w.Headroom >= w.Quota:
			r.fault(r.blame(places(append([]*tree{l.trees[i]}, from...), "headroom", "quota")...),
				"headroom %d of window %s of %s is not below its quota %d: nothing would be left; lower it", w.Headroom, w.Spec, label, w.Quota)
			ok = false
		}
	}
	return windows, ok
}

// places are where some keys of some mappings stand.
func places(trees []*tree, keys ...string) []place {
	var at []place
	for _, t := range trees {
		for _, key := range keys {
			if v := t.get(key); v != nil {
				at = append(at, v.at)
			}
		}
	}
	if len(at) == 0 {
		at = append(at, trees[0].at)
	}
	return at
}

// spec reads what a window counts over.
func (r *reader) spec(t *tree) (window.Spec, bool) {
	var s window.Spec
	ok := true
	if per := t.get("per"); per == nil {
		r.fault(t.at, "a window needs per: a duration such as 24h, or minute, hour, day, week or month")
		ok = false
	} else {
		s.Per, s.Period, ok = r.per(per)
	}
	if a := t.get("algorithm"); a != nil {
		word, sound := r.word(a, "algorithm", string(window.Sliding), string(window.Exact), string(window.Estimate))
		s.Algorithm, ok = window.Algorithm(word), ok && sound
	}
	if p := t.get("precision"); p != nil {
		d, sound := r.duration(p, "precision")
		if sound && d == 0 {
			r.fault(p.at, "precision must be above 0; leave it out for the default")
			sound = false
		}
		s.Precision, ok = d, ok && sound
	}
	if z := t.get("zone"); z != nil {
		zone, sound := r.zone(z)
		s.Zone, ok = zone, ok && sound
	}
	if g := t.get("lag"); g != nil {
		d, sound := r.duration(g, "lag")
		if sound && d < 0 {
			r.fault(g.at, "lag must not be negative, is %s", d)
			sound = false
		}
		if s.Lag = d; d == 0 {
			s.Lag = -1 // none; a Spec's zero is the default
		}
		ok = ok && sound
	}
	if !ok {
		return s, false
	}
	normal, err := s.Normal()
	if err != nil {
		// Its messages begin with the key that is wrong, where it is one key.
		at := t.at
		first, _, _ := strings.Cut(err.Error(), " ")
		if v := t.get(first); v != nil {
			at = v.at
		}
		r.fault(at, "%s", err.Error())
		return s, false
	}
	return normal, true
}

// per reads a duration or a period of the calendar.
func (r *reader) per(t *tree) (time.Duration, window.Period, bool) {
	periods := []string{string(window.Minute), string(window.Hour), string(window.Day), string(window.Week), string(window.Month)}
	if t.kind == isText && slices.Contains(periods, t.text) {
		return 0, window.Period(t.text), true
	}
	if d, err := time.ParseDuration(t.text); err == nil && t.kind == isText {
		if d == 0 {
			r.fault(t.at, "per must be above 0, is %s", t.text)
		}
		return d, "", d != 0
	}
	if t.kind == isNumber {
		r.fault(t.at, "per %s lacks a unit; write a duration such as 90s, 10m or 24h, or %s", t.text, list(periods, "or"))
		return 0, "", false
	}
	r.fault(t.at, "per must be a duration such as 90s, 10m or 24h, or %s, is %s%s", list(periods, "or"), t.show(), didYouMean(t.text, periods))
	return 0, "", false
}

// zone reads the name of a time zone.
func (r *reader) zone(t *tree) (*time.Location, bool) {
	if !r.is(t, isText, "zone") {
		return nil, false
	}
	if t.text == "Local" || t.text == "" {
		r.fault(t.at, "zone %q differs between machines; name one, such as UTC or America/Los_Angeles", t.text)
		return nil, false
	}
	zone, err := time.LoadLocation(t.text)
	if err != nil {
		r.fault(t.at, "time zone %q is not known; write an IANA name, such as UTC or America/Los_Angeles", t.text)
		return nil, false
	}
	return zone, true
}

func windowTrees(windows []Window, own []grant) *tree {
	list := &tree{kind: isList}
	for i, w := range windows {
		list.items = append(list.items, windowTree(w, own[i]))
	}
	return list
}

func windowTree(w Window, own grant) *tree {
	t := &tree{kind: isMapping, flow: true}
	if w.Algorithm == window.ByCalendar {
		t.add("per", text(string(w.Period)))
	} else {
		t.add("per", text(brief(w.Per)))
	}
	t.entries = append(t.entries, own.tree().entries...)
	switch w.Algorithm {
	case window.ByCalendar:
		t.add("zone", text(w.Zone.String()))
		t.add("lag", text(brief(max(w.Lag, 0))))
	case window.Sliding:
		t.add("precision", text(brief(w.Precision)))
	default:
		t.add("algorithm", text(string(w.Algorithm)))
	}
	return t
}
