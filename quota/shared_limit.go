package quota

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota/book"
)

// The store keeps the limits that an upstream reports, with the limits of keys: the family is
// [LimitsOfUpstream] and the upstream, and the key is the pool. So all processes obey them, they
// survive a restart, and every program shows them. A process whose store keeps none remembers
// its own.
//
// A larger limit holds until another one is reported. A lower one ages, because it may keep
// back the calls whose answers would correct it: see inForce.

// LimitsOfUpstream begins the name under which the limits of an upstream's pools are kept. No
// family is called so. Earlier versions used the name of the upstream alone: such limits hold
// until they change, unless a family of the price book has that name.
const LimitsOfUpstream = "upstream:"

// sharedLimits are the families that have the limits of an upstream's pools. The first is where they are kept now.
type sharedLimits []string

// ByUpstream is who has set a limit that an upstream has reported.
const ByUpstream = "the upstream"

// reportReason is why an upstream sets a limit. A report that came late says so: "it reported this
// limit 5m0s before". The time of its answer decides, because a later one holds.
const (
	reportReason = "it reported this limit"
	reportBefore = " before"
	freeBy       = "; the headroom is set by "
)

// heardAt returns when an upstream has reported a limit, or zero if a person has set it.
func (k *KeyLimit) heardAt() time.Time {
	if k.By != ByUpstream {
		return time.Time{}
	}
	text, _, _ := strings.Cut(k.Reason, freeBy)
	text, late := strings.CutSuffix(text, reportBefore)
	age, err := time.ParseDuration(strings.TrimPrefix(text, reportReason+" "))
	if !late || err != nil {
		return k.At
	}
	return k.At.Add(-age)
}

const (
	// A lower limit holds for the length of its window after the last report, and for these
	// at least and at most.
	limitLife     = time.Hour
	mostLimitLife = 24 * time.Hour
	// Then each process lets a call pass it every probeEvery, for its answer. After probeFor
	// without a report, the limit has ended.
	probeEvery = time.Minute
	probeFor   = 10 * time.Minute
	// raiseAfter is how long the lower one of two limits holds at least. An upstream that
	// reports two of them in turn, as of two keys, costs two writes in that time.
	raiseAfter = time.Minute
	// A report of the limit that is kept prolongs it if it is a share of its life later. So a report
	// that comes late and raises the limit must be as much later: the lower one may have been
	// reported again in between.
	renewShare = 12
)

// lifeOf returns how long a lower limit of a window holds.
func lifeOf(w *book.Window) time.Duration { return min(max(w.Length(), limitLife), mostLimitLife) }

// mostReported returns the largest limit that can take the place of the quota of a window: what
// it can hold, and of a bucket what drains in a day.
func mostReported(w *book.Window) int64 {
	most := w.MaxLimit()
	if w.Drains() {
		day := float64(w.Rate) * (float64(mostLimitLife) / float64(w.Per))
		most = min(most, max(w.Quota, int64(min(day, float64(most)))))
	}
	return most
}

// probing says whether a question about a limit may be the call that passes it.
type probing int

const (
	noProbes    probing = iota // it shows the limit
	asksProbes                 // it asks whether a call may pass
	takesProbes                // it is the call
)

// reportedWindow is a window of a pool.
type reportedWindow struct {
	*book.Window
	learns bool // the pool has limit: learn
}

// inForce returns the limit in place of the quota of a window, or 0, and when it ends unless
// it is reported again. A zero time is never.
func (s *setLimit) inForce(w reportedWindow, now time.Time, p probing) (limit int64, until time.Time) {
	limit = min(s.quota, mostReported(w.Window))
	life := lifeOf(w.Window)
	end := s.heard.Add(life)
	switch {
	case limit == 0 || limit == w.Quota && s.headroom == nil || s.ended(now):
		return 0, time.Time{}
	case s.heard.IsZero() || limit > w.Quota && w.learns:
		return limit, s.until
	case limit > w.Quota:
		return 0, time.Time{}
	case s.heard.Sub(now) > life || !now.Before(end.Add(probeFor)): // or a clock was wrong
		return 0, time.Time{}
	case now.Before(end):
		return limit, end
	case now.Sub(s.probed).Abs() < probeEvery:
		return limit, earliest(s.probed.Add(probeEvery), end.Add(probeFor))
	case p == noProbes:
		return limit, now
	case p == takesProbes:
		s.probed = now
	}
	return 0, time.Time{}
}

func earliest(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }

// place returns where the limit of a window of a pool stands among those of keys, now and in
// earlier versions. A window that is shorter than the longest has its length in the key, unless it
// is of a budget, all of whose windows have one limit. Earlier versions kept no such limit, and none of a key.
func (s sharedLimits) place(p Pool, windows []book.Window, index int) (key string, families []string) {
	key = p.Name
	if p.Account != DefaultAccount {
		key += "@" + p.Account
	}
	families = s
	if p.Key != "" {
		key, families = key+":"+p.Key, families[:1]
	}
	w, longest := &windows[index], &windows[observedWindow(windows, 0)]
	if (w.Length() != longest.Length() || w.Quota != longest.Quota) && s[0] != LimitsOfUpstream+book.Budgets {
		key, families = key+" "+w.Length().String(), families[:1]
	}
	return key, families
}

// splitPlace splits the key of a pool's limit, which place has made: the pool without its upstream, and " " and the
// length of a window, or "".
func splitPlace(key string) (p Pool, length string) {
	if end := strings.LastIndexByte(key, ' '); end > 0 {
		if _, err := time.ParseDuration(key[end+1:]); err == nil {
			key, length = key[:end], key[end:]
		}
	}
	key, p.Key, _ = strings.Cut(key, ":")
	p.Name, p.Account, _ = strings.Cut(key, "@")
	p.Account = cmp.Or(p.Account, DefaultAccount)
	return p, length
}

// checkLimit checks a limit that is set in the place of a pool's.
func (p *prices) checkLimit(upstream string, k *KeyLimit) error {
	of, length := splitPlace(k.Key)
	name := of.Name
	if pools := p.book.Upstreams[upstream].Pools; pools[name] == nil {
		return BadInput("upstream %s has no pool %.40q; it has %s", upstream, name, strings.Join(slices.Sorted(maps.Keys(pools)), ", "))
	}
	if p.of(upstream, name).learned != nil {
		return BadInput("upstream %s: the limit of the pool %.40q is learned; to begin anew: ingestor costs learned --forget %[1]s/%[2]s", upstream, name)
	}
	if pool := p.book.Upstreams[upstream].Pools[name]; upstream == book.Budgets && pool.By != nil && of.Key == "" {
		return BadInput("budget %s is for each key; name one, as in %[1]s:KEY", name)
	}
	of.Upstream = upstream
	if length != "" && of.Key == "" && !p.makesPlace(of, k.Key) { // of however many forms a length has, calls look for one
		switch key, err := p.windowKey(upstream, strings.TrimSuffix(k.Key, length), length[1:]); {
		case err == nil:
			k.Key = key
			_, length = splitPlace(key)
		case k.Quota > 0: // the window of a limit to remove may have left the book
			return err
		}
	}
	if _, err := p.pool(of); err != nil && k.Quota > 0 {
		return err
	}
	if before, key, _ := strings.Cut(strings.TrimSuffix(k.Key, length), ":"); key != "" {
		own := p.accounts[accountKey{upstream, DefaultAccount, ""}][name]
		if pool := p.book.Upstreams[upstream].Pools[name]; k.Quota > 0 && pool.OnlyKeys && own.own[pageKey(key)] == nil {
			return BadInput("budget %s is that of its keys alone: %s; add %.40q to them in the price book", name, names(pool.Keys), key)
		}
		k.Key = before + ":" + pageKey(key) + length // as calls look for it
	}
	windows := p.book.Upstreams[upstream].Pools[name].Windows
	if w := windows[observedWindow(windows, 0)]; k.Quota > w.MaxLimit() {
		return BadInput("upstream %s: a window of the pool %s has room for %d units at most, not for a limit of %d", upstream, name, w.MaxLimit(), k.Quota)
	}
	return nil
}

// WindowKey returns the key under which the limit of one window of a pool is kept, for [Admin.SetLimit]. The pool is
// named as in a limit, by its upstream and its key; the window by its length, as 10m, or by its name, as "day UTC". The
// key of the pool alone is that of its longest window, and of others with the same length and quota.
func (a Admin) WindowKey(family, key, window string) (string, error) {
	p := a.ledger.current()
	if p == nil {
		return "", errNotMade
	}
	upstream := p.upstreamOfLimits(family)
	if upstream == "" {
		return "", BadInput("%.40q is no upstream with pools; a limit of a family holds in its windows without a quota of their own, so leave the window out", family)
	}
	return p.windowKey(upstream, key, window)
}

// makesPlace reports whether the limit of a window of a pool has this key.
func (p *prices) makesPlace(of Pool, key string) bool {
	windows := p.windows(of)
	for i := range windows {
		if place, _ := p.limitsOf(of.Upstream).place(of, windows, i); place == key {
			return true
		}
	}
	return false
}

// windowKey is [Admin.WindowKey] for the pools of an upstream.
func (p *prices) windowKey(upstream, key, window string) (string, error) {
	of, _ := splitPlace(key)
	of.Upstream = upstream
	switch {
	case p.book.Upstreams[upstream].Pools[of.Name] == nil:
		return key, nil // checkLimit says which there are
	case upstream == book.Budgets:
		return "", BadInput("a limit of budget %s holds in each of its windows; leave the window out", of.Name)
	}
	windows := p.windows(of)
	known, named, long := make([]string, len(windows)), "", map[string]bool{} // the keys of windows with this name, and of this length
	length, _ := time.ParseDuration(window)
	for i := range windows {
		known[i] = windows[i].String()
		key, _ := p.limitsOf(upstream).place(of, windows, i)
		switch {
		case window == known[i]:
			named = key
		case length > 0 && length == windows[i].Length() || window == strictyaml.Duration(windows[i].Length()):
			long[key] = true
		}
	}
	switch {
	case named != "":
		return named, nil
	case len(long) == 1:
		return slices.Collect(maps.Keys(long))[0], nil
	case len(long) > 1:
		return "", BadInput("pool %s/%s has several windows of %s; name one of %s", upstream, of.Name, window, strings.Join(known, ", "))
	}
	return "", BadInput("pool %s/%s has no window %.40q; it has %s", upstream, of.Name, window, strings.Join(known, ", "))
}

// limitsOf returns the families that have the limits of an upstream's pools.
func (p *prices) limitsOf(upstream string) sharedLimits {
	if p.book.Families[upstream] != nil {
		return sharedLimits{LimitsOfUpstream + upstream}
	}
	return sharedLimits{LimitsOfUpstream + upstream, upstream}
}

// reportsLimit reports whether answers of an upstream report the limit of a pool.
func reportsLimit(u *book.Upstream, pool string) bool {
	return slices.ContainsFunc(u.Feedback, func(f book.Feedback) bool {
		return f.Limit != nil && slices.Contains(f.Pool.Pools(u), pool)
	}) || slices.ContainsFunc(u.Refusals, func(r book.Refusal) bool {
		named := r.Pool == nil && r.Pools == nil // those of the call
		return r.Limit != nil && (named || slices.Contains(r.Pools, pool) || r.Pool != nil && slices.Contains(r.Pool.Pools(u), pool))
	})
}

// takesLimits reports whether a pool takes limits at run time, which all processes share.
func (p *prices) takesLimits(pool Pool) bool { return p.of(pool.Upstream, pool.Name).learned == nil }

// upstreamOfLimits returns the upstream whose limits a person means by a family: it has its
// name, or its limits are kept under it. It is "" if the price book has such a family.
func (p *prices) upstreamOfLimits(family string) string {
	upstream := strings.TrimPrefix(family, LimitsOfUpstream)
	if p.families[family] != nil || p.shared[upstream] == nil {
		return ""
	}
	return upstream
}

// limitFamilies returns the names under which the limits of a family are kept.
func (p *prices) limitFamilies(family string) []string {
	if upstream := p.upstreamOfLimits(family); upstream != "" {
		return p.shared[upstream]
	}
	return []string{family}
}

// adopted is a limit in a charge that is not the price book's.
type adopted struct {
	pool     Pool
	window   int
	name     string    // of the window
	quota    int64     // in place of that of the book
	headroom int64     // what ordinary calls leave free of it
	was      int64     // the limit by the book
	until    time.Time // when it ends, unless it is reported again; zero: not by itself
	byHand   bool      // a person has set it
}

// adoptLimits returns charges with the limits that were reported, also to other processes,
// as a class of callers sees them. If there is one, the charges are a copy. If one of them is
// unknown, it returns an [OutageError], too.
func (l *Ledger) adoptLimits(ctx context.Context, p *prices, charges []Charge, class string, probing probing) (all []Charge, changed []adopted, unknown error) {
	if len(charges) == 0 {
		return charges, nil, nil
	}
	upstream := charges[0].Pool.Upstream
	u, keeper := p.book.Upstreams[upstream], l.keeperOf(p, upstream)
	if u == nil || keeper == nil && l.heard.adopted.Load() == 0 {
		return charges, nil, nil
	}
	if keeper != nil && !l.fresh() {
		for i := range charges {
			if pool := charges[i].Pool; p.takesLimits(pool) {
				unknown = cmp.Or(unknown, l.freshLimits(ctx, keeper, p.shared[upstream], pool, p.windows(pool)))
			}
		}
	}
	if l.heard.adopted.Load() == 0 && (keeper == nil || !l.limits.any(p.shared[upstream]...)) {
		return charges, nil, unknown
	}
	now, all := l.now(), charges
	for i := range charges {
		c := &charges[i]
		if u.Pools[c.Pool.Name] == nil {
			continue // the book has changed meanwhile
		}
		windows := p.windows(c.Pool)
		copied := false
		for j := range min(len(windows), len(c.Windows)) {
			w := reportedWindow{&windows[j], u.Pools[c.Pool.Name].LearnLimit}
			a := adopted{pool: c.Pool, window: j, name: c.Windows[j].Name, was: c.Windows[j].Limit}
			a.quota, a.until = l.heard.adoptedIn(c, j, w, now, probing)
			var headroom *int64
			if a.quota == 0 && p.takesLimits(c.Pool) {
				key, families := p.shared[upstream].place(c.Pool, windows, j)
				headroom = l.limits.inForce(key, families, w, now, probing, &a)
			}
			if a.quota == 0 {
				continue
			}
			if changed == nil {
				all = slices.Clone(charges)
			}
			if !copied {
				all[i].Windows, copied = slices.Clone(c.Windows), true
			}
			in := withLimit(&windows[j], a.quota, headroom)
			a.headroom = in.Headroom
			changed = append(changed, a)
			all[i].Windows[j].Limit = max(in.Limit(u.Classes[class]), 0)
		}
	}
	return all, changed, unknown
}

// keeperOf returns the store if it keeps limits, and pools of an upstream take them; else nil.
func (l *Ledger) keeperOf(p *prices, upstream string) LimitKeeper {
	if p.shared[upstream] == nil {
		return nil
	}
	keeper, _ := l.store.(LimitKeeper)
	return keeper
}

// freshLimits makes sure that the limits of a pool are known.
func (l *Ledger) freshLimits(ctx context.Context, keeper LimitKeeper, s sharedLimits, pool Pool, windows []book.Window) (unknown error) {
	asked := ""
	for j := range windows {
		if key, families := s.place(pool, windows, j); key != asked {
			asked, unknown = key, cmp.Or(unknown, l.freshLimit(ctx, keeper, key, families...))
		}
	}
	return unknown
}

// withLimit returns a window with a limit in place of its quota, and a headroom if one was set with it.
func withLimit(w *book.Window, quota int64, headroom *int64) book.Window {
	in := w.Reported(quota)
	if headroom != nil {
		in.Headroom = min(*headroom, quota-1)
	}
	return in
}

// inForce fills in the limit in place of the quota of a window, or 0, and returns the headroom that was set with it.
func (k *keyLimits) inForce(key string, families []string, w reportedWindow, now time.Time, p probing, a *adopted) (headroom *int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	family, s := k.found(key, families)
	probed := s.probed
	if a.quota, a.until = s.inForce(w, now, p); s.probed != probed {
		k.all[family][pageKey(key)] = s
	}
	a.byHand = s.heard.IsZero()
	headroom, ends, _ := s.ownHeadroom(now)
	if a.quota == 0 && headroom != nil { // a reported limit has aged
		a.quota, a.until, a.byHand = w.Quota, ends, true
	}
	return headroom
}

// ownHeadroom returns the headroom that a person has set, when it ends, and who has set it.
func (s *setLimit) ownHeadroom(now time.Time) (headroom *int64, ends time.Time, by string) {
	if s.headroom == nil || !s.until.IsZero() && !now.Before(s.until) {
		return nil, ends, ""
	}
	return &s.headroom.units, s.until, s.headroom.by
}

// shareLimit keeps a limit for all processes, unless it is kept already, or a later report is.
// It reports whether the store keeps such limits. The quota of the price book needs none in its
// place.
func (l *Ledger) shareLimit(ctx context.Context, p *prices, pool Pool, index int, limit int64, came time.Time) bool {
	keeper := l.keeperOf(p, pool.Upstream)
	if keeper == nil || !p.of(pool.Upstream, pool.Name).shared {
		return false
	}
	windows := p.windows(pool)
	w := reportedWindow{&windows[index], true}
	k, now := KeyLimit{Quota: limit, By: ByUpstream, Reason: reportReason}, l.now()
	if age := now.Sub(came); age >= time.Second {
		k.Reason += " " + age.Truncate(time.Millisecond).String() + reportBefore
	}
	key, families := p.shared[pool.Upstream].place(pool, windows, index)
	if k.Family, k.Key = families[0], key; len(key) > maxIDBytes {
		return false
	}
	_ = l.freshLimit(ctx, keeper, key, families...) // an unknown one is set
	if l.limits.none.Load() {
		return false
	}
	if l.limits.stands(l.limits.reported(k, families, w, now), families, w, came, now) {
		return true
	}
	_ = l.askLimit(ctx, keeper, key, families) // if this fails, so does the write, which says so
	if k = *l.limits.reported(k, families, w, now); l.limits.stands(&k, families, w, came, now) {
		return true // another process has set one in the meantime
	}
	within, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	_, err := l.Admin().SetLimit(within, k)
	switch {
	case errors.Is(err, ErrBadInput) && k.Quota == 0: // another process has removed it
		return true
	case err != nil && !errors.Is(err, ErrNoLimits):
		l.tell(ctx, Event{Kind: EventLimit, Pool: pool, Units: limit, Err: err})
	}
	return err == nil
}

// reported completes a limit that the upstream has reported: the headroom that a person has set stays until it ends.
func (k *keyLimits) reported(l KeyLimit, families []string, w reportedWindow, now time.Time) *KeyLimit {
	k.mu.RLock()
	defer k.mu.RUnlock()
	_, kept := k.found(l.Key, families)
	by := ""
	if l.Headroom, l.Until, by = kept.ownHeadroom(now); l.Headroom != nil {
		l.Reason += freeBy + by
	} else if l.Quota == w.Quota {
		l.Quota = 0
	}
	return &l
}

// stands reports whether what is kept of a limit need not change by a report of the time came.
func (k *keyLimits) stands(l *KeyLimit, families []string, w reportedWindow, came, now time.Time) bool {
	k.mu.RLock()
	_, kept := k.found(l.Key, families)
	k.mu.RUnlock()
	holds, _ := kept.inForce(w, now, noProbes)
	later, heard := came.Sub(kept.heard), !kept.heard.IsZero()
	renewed, raise := lifeOf(w.Window)/renewShare, raiseAfter
	if now.Sub(came) > raiseAfter {
		raise = renewed
	}
	switch {
	case heard && later < -raiseAfter && kept.heard.Sub(now) < raiseAfter: // or a clock was wrong
		return true
	case holds == l.Quota && (l.Quota == 0 || l.Quota > w.Quota || later < renewed):
		return true
	}
	return heard && holds != 0 && cmp.Or(l.Quota, w.Quota) > holds && later < raise
}

// adopted returns the price of a call by the limits that were reported. An estimate is
// capped at them, too. If one of them is unknown, that is an outage.
func (l *Ledger) adopted(ctx context.Context, c *Call, p *price, probing probing) (*price, error) {
	if c.Family != "" {
		return p, nil
	}
	charges, changed, unknown := l.adoptLimits(ctx, l.current(), p.charges, c.Class, probing)
	if changed == nil {
		return p, unknown
	}
	own := *p
	own.charges, own.adopted = charges, changed
	for i := range charges {
		name := charges[i].Pool.Name
		if _, estimated := c.Estimate[name]; estimated || own.depends[name] != nil {
			charges[i].Units = min(charges[i].Units, most(&charges[i]))
		}
	}
	return &own, unknown
}

// notForever makes a refusal by a limit that was reported end when that limit does, and with
// it a call that is impossible because of it.
func (l *Ledger) notForever(v *Verdict, all []adopted) {
	if v.Blocked {
		return
	}
	for i := range all {
		a := &all[i]
		if a.pool != v.Pool || a.name != v.Window || v.Impossible && v.Units > a.was && !a.until.IsZero() {
			continue
		}
		wait := limitLife // a person has set it, and may change it at any time
		if !a.until.IsZero() {
			wait = max(a.until.Sub(l.now()), time.Second)
		}
		switch fits := v.Used+v.Units <= a.was; {
		case v.Impossible && a.until.IsZero():
			v.Reason = "a lower limit is set, which may change by then"
		case v.Impossible:
			v.Reason = "a lower limit holds until then"
		case a.until.IsZero() || !fits || wait >= v.RetryAfter:
			continue
		}
		v.Impossible, v.RetryAfter = false, wait
		v.RetryAt = v.At.Add(wait)
		if v.ResetAt.IsZero() || v.ResetAt.After(v.RetryAt) || v.Reason != "" {
			v.ResetAt = v.RetryAt
		}
	}
}
