package draft

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/record"
	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota/book"
)

// kind names a limit in answers: those of one kind are one window of one pool.
type kind struct {
	pool string
	per  time.Duration // that the answer says; 0: it must be worked out
}

// point is what an answer says about a limit. What it does not say is -1, or zero.
type point struct {
	kind
	at                     time.Time
	limit, remaining, used int64
	end                    time.Time
	in                     map[string]string // how the price book reads it: limit, remaining, used, reset
	standard               bool              // the fields of the IETF say it
	call                   *call
}

// Words in the names of headers.
var (
	roles = map[string]string{
		"limit": "limit", "max": "limit", "maximum": "limit", "allowed": "limit", "remaining": "remaining", "remain": "remaining", "left": "remaining", "available": "remaining",
		"reset": "reset", "resets": "reset", "used": "used", "consumed": "used", "interval": "interval", "window": "interval", "period": "interval", "resource": "resource",
	}
	windowWords = map[string]time.Duration{
		"second": time.Second, "secondly": time.Second, "minute": time.Minute, "minutely": time.Minute, "hour": time.Hour, "hourly": time.Hour, "day": day, "daily": day,
		"week": 7 * day, "weekly": 7 * day, "month": 30 * day, "monthly": 30 * day,
	}
	prices     = map[string]bool{"cost": true, "complexity": true, "credits": true, "usage": true, "charge": true, "points": true} // of the call
	noise      = map[string]bool{"x": true, "rate": true, "ratelimit": true, "api": true, "quota": true, "after": true, "at": true, "time": true, "ms": true, "milliseconds": true, "seconds": true, "count": true, "call": true, "calls": true, "shop": true, "info": true, "request": true}
	pair       = pattern.Of(`^(?:.*[^0-9])?([0-9]+)/([0-9]+)(?:[^0-9/].*)?$`)
	listed     = pattern.Of(`([0-9]{1,18}) *; *(w|window)=([0-9]{1,8})\b`) // as Envoy lists several windows: 10, 10;w=1, 300;w=60
	headerName = pattern.Of(`^[A-Za-z0-9_-]{1,64}$`)
	standi     = pattern.Of(`^x[0-9a-f]{6}$`) // a stand-in of a recording
)

const day = 24 * time.Hour

func pointsOf(x *record.Exchange) (all []point) {
	h := http.Header{}
	for name, text := range x.Header {
		h.Set(name, text)
	}
	at := func(k kind) *point {
		for i := range all {
			if all[i].kind == k {
				return &all[i]
			}
		}
		all = append(all, point{kind: k, limit: -1, remaining: -1, used: -1, in: map[string]string{}})
		return &all[len(all)-1]
	}
	dated, _ := content.Number(h.Get("RateLimit-Reset"))
	standard := map[string]bool{}
	if dated < 1e9 { // otherwise it is another field with that name
		for _, l := range content.Limits(h) {
			pool := "requests"
			if l.Unit != "" && l.Unit != pool && l.Unit != "concurrent-requests" {
				pool = l.Unit
			}
			p := at(kind{pool, l.Per})
			p.standard = true
			if l.Quota > 0 {
				p.limit = l.Quota
			}
			if l.Remaining != nil {
				p.remaining = *l.Remaining
			}
			if l.Reset != 0 {
				p.end = x.At.Add(max(l.Reset, 0))
			}
		}
		standard = map[string]bool{"Ratelimit": true, "Ratelimit-Policy": true, "Ratelimit-Limit": true, "Ratelimit-Remaining": true, "Ratelimit-Reset": true}
	}
	resource, named, intervals := "", "", map[string]time.Duration{}
	for _, name := range slices.Sorted(maps.Keys(x.Header)) {
		switch role, group, _ := roleOf(name); {
		case role == "resource" && !standi().MatchString(x.Header[name]):
			resource = x.Header[name]
			if poolName(resource) == resource {
				named = "{header: " + name + "}"
			}
		case role == "interval":
			if n, ok := content.Number(x.Header[name]); ok && n > 0 && n <= int64(book.MaxBlock/unitOf(name)) {
				intervals[group] = time.Duration(n) * unitOf(name)
			}
		}
	}
	tell := func(k kind, role, place, name, text string) {
		source := "{" + place + ": " + name
		if role == "reset" {
			if form, end := instant(name, text, x.At); form != "" {
				p := at(k)
				p.end, p.in[role] = end, source+", as: "+form+"}"
			}
			return
		}
		n, ok := content.Number(text)
		if !ok {
			return
		}
		p := at(k)
		switch p.in[role] = source + "}"; role {
		case "limit":
			p.limit = n
		case "remaining":
			p.remaining = n
		case "used":
			p.used = n
		}
	}
	var unnamed []kind
	for _, name := range slices.Sorted(maps.Keys(x.Header)) {
		role, group, per := roleOf(name)
		if role == "" || standard[name] {
			continue
		}
		k := kind{cmp.Or(group, resource, "requests"), cmp.Or(per, intervals[group])}
		if all := listed().FindAllStringSubmatch(x.Header[name], -1); role == "limit" && all != nil {
			for _, m := range all {
				n, _ := content.Number(m[3])
				p := at(kind{k.pool, time.Duration(n) * time.Second})
				p.limit, _ = content.Number(m[1])
				p.in[role] = fmt.Sprintf("{header: %s, match: '([0-9]+) *; *%s=%s\\b'}", name, m[2], m[3])
			}
			unnamed = append(unnamed, k)
		}
		if slices.Contains(unnamed, k) { // of one of these windows, and the answer does not say which
			continue
		}
		if m := pair().FindStringSubmatch(x.Header[name]); m != nil && role == "limit" {
			p := at(k)
			p.used, _ = content.Number(m[1])
			p.limit, _ = content.Number(m[2])
			p.in["used"], p.in["limit"] = "{header: "+name+", match: '([0-9]+)/'}", "{header: "+name+", match: '/([0-9]+)'}"
			continue
		}
		tell(k, role, "header", name, x.Header[name])
		if i := slices.IndexFunc(all, func(p point) bool { return p.kind == k }); i >= 0 && group == "" && named != "" {
			all[i].in["pool"] = named
		}
	}
	const status = "extensions.cost.throttleStatus."
	for _, names := range [][]string{ // in the body of an answer of GraphQL
		{status + "maximumAvailable", status + "currentlyAvailable"},
		{"data.rateLimit.limit", "data.rateLimit.remaining", "data.rateLimit.resetAt"},
	} {
		if _, ok := content.Number(x.Body[names[0]]); !ok {
			continue
		}
		for i, name := range names {
			tell(kind{"points", 0}, []string{"limit", "remaining", "reset"}[i], "body", name, x.Body[name])
		}
	}
	for i := range all {
		p := &all[i]
		if p.remaining < 0 && p.used >= 0 && p.limit >= 0 {
			p.remaining = max(p.limit-p.used, 0)
		}
	}
	return slices.DeleteFunc(all, func(p point) bool { return p.limit < 0 && p.remaining < 0 && p.used < 0 })
}

// roleOf reads the name of a header: what it tells, of which limit, and in which window.
func roleOf(name string) (role, group string, per time.Duration) {
	text := strings.ReplaceAll(strings.ToLower(name), "rate-limit", "ratelimit")
	if !headerName().MatchString(name) {
		return "", "", 0
	}
	if !strings.Contains(text, "ratelimit") && !strings.Contains(text, "limit") && !strings.Contains(text, "quota") {
		return "", "", 0
	}
	if _, after, found := strings.Cut(text, "ratelimit"); found { // what stands before names the vendor
		text = after
	}
	var rest []string
	named := false
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '-' || r == '_' }) {
		switch {
		case prices[part] && role == "":
			return "", "", 0
		case roles[part] != "" && (role == "" || role == "limit"):
			role = roles[part]
		case windowWords[part] != 0:
			per = windowWords[part]
		case !noise[part] && roles[part] == "":
			before, limits := strings.CutSuffix(part, "limit") // as in X-BurstLimit-Remaining
			rest, named = append(rest, before), named || limits
		}
	}
	if !named && !strings.Contains(strings.ToLower(name), "rate") && len(rest) > 0 && rest[0] != "requests" && rest[0] != "tokens" {
		rest = nil // of another vendor's form
	}
	if strings.HasPrefix(text, "sforce") { // Salesforce counts 24 hours, and does not say it
		per = day
	}
	if role == "" && (per != 0 || len(rest) == 0) {
		role = "limit"
	}
	if group = strings.Join(rest, "_"); group == "requests" {
		group = ""
	}
	return role, group, per
}

func unitOf(name string) time.Duration {
	if strings.Contains(strings.ToLower(name), "milli") || strings.HasSuffix(strings.ToLower(name), "ms") {
		return time.Millisecond
	}
	return time.Second
}

// instant reads a time by its looks: the form in which a price book reads it, and when it is.
func instant(name, text string, at time.Time) (form string, end time.Time) {
	n, err := strconv.ParseFloat(text, 64)
	as := book.HTTPDate
	switch {
	case text == "", err == nil && n < 1e9 && unitOf(name) == time.Millisecond:
		return "", end
	case err == nil && n >= 1e12:
		as = book.UnixMillis
	case err == nil && n >= 1e9:
		as = book.UnixTime
	case err == nil:
		as = book.SecondsToGo
	case strings.Contains(text, "T") && !strings.HasSuffix(text, "GMT"):
		as = book.RFC3339Time
	case text[0] >= '0' && text[0] <= '9':
		as = book.DurationToGo
	}
	end, wait, ok := content.Time(as, text)
	if !ok {
		return "", time.Time{}
	}
	if end.IsZero() {
		end = at.Add(max(wait, 0))
	}
	return string(as), end
}
