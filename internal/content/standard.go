package content

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// Limit is what the standard fields of an answer say about one policy of the upstream. What
// they do not say is zero or nil.
type Limit struct {
	Name      string // of the policy; the older forms have none
	Quota     int64
	Per       time.Duration
	Unit      string // what is counted; "" is requests
	Remaining *int64
	Reset     time.Duration // to go, or a negative time if it has come
}

// Limits reads the fields of draft-ietf-httpapi-ratelimit-headers: RateLimit and
// RateLimit-Policy as draft 11 has them, and the forms of the drafts before it, which are still
// in use. A field that cannot be read is ignored, as the drafts demand, and so are those of an
// answer from a cache.
//
//	RateLimit-Policy: "burst";q=100;w=60   RateLimit: "burst";r=50;t=30                   since draft 08
//	RateLimit-Policy: 100;w=60             RateLimit: limit=100, remaining=50, reset=30   draft 07
//	RateLimit-Policy: 100;w=60             RateLimit-Limit: 100, and -Remaining, -Reset   drafts 03 to 06
//	RateLimit-Limit: 100, 100;w=60         RateLimit-Remaining, RateLimit-Reset           drafts 00 to 02
func Limits(h http.Header) (all []Limit) {
	if age, ok := Number(h.Get("Age")); ok && age > 0 {
		return nil
	}
	policies := listed(h.Values("RateLimit-Policy"))
	states, _ := httpsfv.UnmarshalList(h.Values("RateLimit"))
	for _, m := range states {
		item, ok := m.(httpsfv.Item)
		if !ok {
			continue
		}
		l := Limit{Name: nameOf(item.Value)}
		if i := slices.IndexFunc(policies, func(p Limit) bool { return p.Name == l.Name }); i >= 0 {
			l = policies[i]
		}
		l.Remaining, l.Reset = whole(paramOf(item, "r")), toGoOf(whole(paramOf(item, "t")))
		if i := slices.IndexFunc(all, func(o Limit) bool { return o.Name == l.Name }); i < 0 {
			all = append(all, l)
		} else if r := all[i].Remaining; l.Remaining != nil && (r == nil || *l.Remaining < *r) {
			all[i] = l // of several partitions, the one with the least left
		}
	}
	if len(states) == 0 {
		if old, ok := older(h, &policies); ok {
			all = append(all, old)
		}
	}
	for _, p := range policies {
		if !slices.ContainsFunc(all, func(l Limit) bool { return l.Name == p.Name && l.Quota == p.Quota && l.Per == p.Per }) && p.Quota > 0 {
			all = append(all, p)
		}
	}
	return afterRetry(h, all)
}

// older reads the forms in which a limit has no name. The policy is the one with that limit.
func older(h http.Header, policies *[]Limit) (l Limit, ok bool) {
	var limit, reset *int64
	if fields, err := httpsfv.UnmarshalDictionary(h.Values("RateLimit")); err == nil && len(fields.Names()) > 0 {
		value := func(name string) *int64 {
			if m, ok := fields.Get(name); ok {
				if item, ok := m.(httpsfv.Item); ok {
					return whole(item.Value)
				}
			}
			return nil
		}
		limit, l.Remaining, reset = value("limit"), value("remaining"), value("reset")
	} else {
		limits := listed(h.Values("RateLimit-Limit"))
		if len(limits) > 0 {
			limit = &limits[0].Quota
			*policies = append(*policies, limits[1:]...)
		}
		l.Remaining, reset = numberIn(h, "RateLimit-Remaining"), numberIn(h, "RateLimit-Reset")
	}
	if limit != nil {
		l.Quota = *limit
		for _, p := range *policies {
			if p.Quota == l.Quota {
				l.Per = p.Per
				break
			}
		}
	}
	l.Reset = toGoOf(reset)
	return l, limit != nil || l.Remaining != nil
}

// afterRetry lets Retry-After take the place of the reset of what is used up.
func afterRetry(h http.Header, all []Limit) []Limit {
	until, wait, ok := Time(book.RetryAfterTime, h.Get("Retry-After"))
	if date, err := http.ParseTime(h.Get("Date")); ok && !until.IsZero() {
		if wait = until.Sub(date); err != nil {
			ok = false
		}
	}
	for i := range all {
		if r := all[i].Remaining; ok && r != nil && *r == 0 {
			all[i].Reset = max(wait, passed)
		}
	}
	return all
}

func listed(field []string) (all []Limit) {
	list, _ := httpsfv.UnmarshalList(field)
	for _, m := range list {
		item, ok := m.(httpsfv.Item)
		if !ok {
			continue
		}
		l, q := Limit{Name: nameOf(item.Value)}, whole(paramOf(item, "q"))
		if l.Name == "" {
			q = whole(item.Value)
		}
		w := whole(paramOf(item, "w"))
		if q == nil {
			continue
		}
		if w != nil && *w > 0 && *w <= int64(book.MaxBlock/time.Second) {
			l.Per = time.Duration(*w) * time.Second
		}
		l.Quota, l.Unit = *q, nameOf(paramOf(item, "qu"))
		all = append(all, l)
	}
	return all
}

func paramOf(item httpsfv.Item, name string) any {
	v, _ := item.Params.Get(name)
	return v
}

func nameOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case httpsfv.Token:
		return string(v)
	}
	return ""
}

// whole returns a number that is a number of units, or nil.
func whole(v any) *int64 {
	n, ok := v.(int64)
	if !ok || n < 0 || n > window.MaxUnits {
		return nil
	}
	return &n
}

func numberIn(h http.Header, name string) *int64 {
	if n, ok := Number(h.Get(name)); ok {
		return &n
	}
	return nil
}

// toGoOf returns the time to a reset, or 0 if it is not told, or too far off to be meant.
func toGoOf(seconds *int64) time.Duration {
	switch {
	case seconds == nil || *seconds > int64(book.MaxBlock/time.Second):
		return 0
	case *seconds == 0:
		return passed
	}
	return time.Duration(*seconds) * time.Second
}

// In returns the pool of an upstream that a limit is about, and its window. It is the pool that
// has the name of the policy, as "search" or "search-1m", or of its unit, or else the only one of
// those that the call charges with a window of that length, or with that quota. It returns "" if
// there is none, or if several may be meant.
func (l *Limit) In(u *book.Upstream, charged map[string]int64) (pool string, w book.Window) {
	var named, all []limited
	for name, p := range u.Pools {
		_, ours := charged[name]
		for _, w := range p.Windows {
			switch at := (limited{name, w}); {
			case w.InFlight():
			case l.Name == name, l.Unit == name, l.Name == name+"-"+strings.ReplaceAll(w.Spec.String(), " ", "-"):
				named = append(named, at)
			case (ours || charged == nil) && (l.Unit == "" || l.Unit == "requests"):
				all = append(all, at)
			}
		}
	}
	if len(named) > 0 {
		all = named
	}
	all = slices.DeleteFunc(slices.Clone(all), func(at limited) bool { return !at.lasts(l.Per) })
	if several(all) {
		all = slices.DeleteFunc(all, func(at limited) bool { return at.w.Quota != l.Quota })
	}
	if len(all) == 0 && len(named) == 1 { // a policy that changes with the load
		all, l.Quota = named, 0
	}
	if len(all) == 0 || several(all) {
		return "", book.Window{}
	}
	return all[0].pool, all[0].w
}

// limited is a window of a pool.
type limited struct {
	pool string
	w    book.Window
}

// lasts reports whether a window has a length, or is a bucket that is full after so long.
func (p *limited) lasts(per time.Duration) bool {
	if per == 0 || p.w.Length() == per || !p.w.Drains() {
		return per == 0 || p.w.Length() == per
	}
	limit := window.NewLimit(p.w.Spec, p.w.Limit(book.Class{}))
	return limit.Span().Round(time.Second) == per
}

// several reports whether places are in several pools, or have several lengths: a day may be both
// a calendar's and a sliding one.
func several(all []limited) bool {
	return slices.ContainsFunc(all, func(at limited) bool { return at.pool != all[0].pool || at.w.Length() != all[0].w.Length() })
}
