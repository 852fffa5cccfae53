package book

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

const (
	// defaultMaxKeys is how many pages a family has at most if it does not say.
	defaultMaxKeys = 100_000
	// mostMaxKeys is what it may say.
	mostMaxKeys = 10_000_000
	// longestKey bounds the keys of a family that have limits of their own.
	longestKey = 1024
)

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

// grant reads quota and headroom.
func (r *reader) grant(t *tree) (g grant, ok bool) {
	ok = true
	if q := t.get("quota"); q != nil {
		g.quota, g.hasQuota = r.integer(q, "quota", 1, window.MaxUnits)
		ok = g.hasQuota
	}
	if h := t.get("headroom"); h != nil {
		g.headroom, g.hasHeadroom = r.integer(h, "headroom", 0, window.MaxUnits)
		ok = ok && g.hasHeadroom
	}
	return g, ok
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

// pool reads one pool, or returns nil if something is wrong with it.
func (r *reader) pool(e entry, pools *tree) *Pool {
	t, label := e.value, fmt.Sprintf("pool %q", e.key)
	if !r.sound(t, "pool", label) {
		return nil
	}
	a := &Pool{Name: e.key, Accounts: map[string][]Window{}, grants: map[string]grant{}}
	g, ok := r.grant(t)
	w := t.get("windows")
	if w == nil {
		others := pools.without(e.key).keys()
		r.fault(r.missing(t, "windows", e.at), "%s has no windows%s", label, orMean(e.key, others, "give it at least one, such as {per: 24h}"))
		return nil
	}
	l, sound := r.windows(w, "window", label)
	if !ok || !sound {
		return nil
	}
	if g.headroom > 0 && !g.hasQuota {
		r.fault(t.get("headroom").at, "headroom of %s changes nothing without a quota beside it; give it to the windows that have a quota of their own", label)
		return nil
	}
	if a.Windows, ok = r.limits(&l, g, label, t); !ok {
		return nil
	}
	a.grant, a.own = g, l.own
	return a
}

// accounts reads who may spend, and which of them have limits of their own.
func (r *reader) accounts(u *Upstream, t *tree) {
	pools := t.get("pools")
	for _, e := range r.named(t.get("accounts"), "accounts", narrowName) {
		u.listed = true
		u.Accounts = append(u.Accounts, e.key)
		if !r.sound(e.value, "account", fmt.Sprintf("account %q", e.key)) {
			continue
		}
		for _, p := range r.named(e.value.get("pools"), "pools of account "+e.key, narrowName) {
			label := fmt.Sprintf("pool %q of account %q", p.key, e.key)
			a := u.Pools[p.key]
			switch {
			case pools.get(p.key) == nil:
				r.fault(p.at, "%s does not exist%s", label, orMean(p.key, pools.keys(), "add it to pools, or change"+knownPools(pools)))
			case r.sound(p.value, "account pool", label) && a != nil:
				r.accountPool(a, e.key, p, pools.get(p.key), label)
			}
		}
	}
	if !u.listed {
		u.Accounts = []string{DefaultAccount}
	}
	slices.Sort(u.Accounts)
}

// accountPool reads the limits that an account has of a pool.
func (r *reader) accountPool(a *Pool, account string, e entry, pool *tree, label string) {
	own, ok := r.grant(e.value)
	if !ok {
		return
	}
	l := windowList{own: a.own}
	for i, w := range a.Windows {
		item := pool.get("windows").items[i]
		l.specs, l.at, l.trees = append(l.specs, w.Spec), append(l.at, item.at), append(l.trees, item)
	}
	if !l.takes() {
		r.fault(e.at, "%s changes nothing: every window of the pool has a quota of its own", label)
		return
	}
	g := a.grant
	if own.hasQuota {
		g.quota, g.hasQuota = own.quota, true
	}
	if own.hasHeadroom {
		g.headroom, g.hasHeadroom = own.headroom, true
	}
	if w, sound := r.limits(&l, g, label, e.value, pool); sound {
		a.Accounts[account], a.grants[account] = w, g
	}
}

// family reads one family.
func (r *reader) family(e entry) *Family {
	f := &Family{Name: e.key, MaxKeys: defaultMaxKeys, Overrides: map[string][]Window{}, grants: map[string]keyGrant{}}
	t, label := e.value, fmt.Sprintf("family %q", e.key)
	if !r.sound(t, "family", label) {
		return f
	}
	if m := t.get("max_keys"); m != nil {
		n, _ := r.integer(m, "max_keys", 1, mostMaxKeys)
		f.MaxKeys = int(n)
	}
	g, ok := r.grant(t)
	w := t.get("windows")
	if w == nil {
		r.fault(r.missing(t, "windows", e.at), "%s has no windows; give it at least one, such as {per: 1m, quota: 60}", label)
		return f
	}
	l, sound := r.windows(w, "family window", label)
	if !ok || !sound {
		return f
	}
	f.grant, f.own = g, l.own
	if f.Windows, ok = r.limits(&l, g, label, t); !ok {
		return f
	}
	for _, k := range r.named(t.get("keys"), "keys of "+label, plainText(longestKey)) {
		r.familyKey(f, k, &l, t)
	}
	return f
}

// familyKey reads the limits of a single key; l are the family's windows.
func (r *reader) familyKey(f *Family, e entry, l *windowList, family *tree) {
	label := fmt.Sprintf("key %q of family %q", e.key, f.Name)
	if !r.sound(e.value, "key", label) {
		return
	}
	own, ok := r.grant(e.value)
	var kept []grant
	if w := e.value.get("windows"); w != nil {
		list, sound := r.windows(w, "family window", label)
		l, kept, ok = &list, list.own, ok && sound
	}
	if !ok {
		return
	}
	if own.hasQuota && !l.takes() {
		r.fault(e.value.get("quota").at, "the quota of %s changes nothing: every window has one of its own; give it windows", label)
		return
	}
	if !own.hasQuota && kept == nil {
		r.fault(e.at, "%s says nothing; give it a quota or windows, or remove it", label)
		return
	}
	g := f.grant
	if own.hasQuota {
		g = own
	}
	if w, sound := r.limits(l, g, label, e.value, family); sound {
		f.Overrides[e.key], f.grants[e.key] = w, keyGrant{grant: own, own: kept}
	}
}
