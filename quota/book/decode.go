package book

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/headroom-quota/headroom/quota/window"
)

// bookKeys are the keys that each mapping of a price book may have.
var bookKeys = map[string][]string{
	"price book":    {"revision", "extends", "upstreams", "families"},
	"upstream":      {"hosts", "unpriced", "api_key", "resumable", "refusals", "classes", "accounts", "pools", "methods"},
	"API key":       {"header", "query"},
	"refusal":       {"status", "header", "reason", "body", "until", "for", "credential"},
	"class":         {"keep_free", "use_headroom", "outage"},
	"account":       {"pools"},
	"account pool":  {"quota", "headroom"},
	"pool":          {"quota", "headroom", "windows"},
	"window":        {"per", "quota", "headroom", "algorithm", "precision", "zone", "lag"},
	"method":        {"route", "pool", "cost", "charge", "outage", "source"},
	"family":        {"quota", "windows", "max_keys", "keys"},
	"family window": {"per", "quota", "algorithm", "precision", "zone", "lag"},
	"key":           {"quota", "windows"},
}

// sound checks that t is a mapping with keys that one of its kind may have.
func (r *reader) sound(t *tree, what, label string) bool {
	if !r.is(t, isMapping, label) {
		return false
	}
	ok := true
	for _, e := range t.entries {
		switch {
		case !slices.Contains(bookKeys[what], e.key):
			r.fault(e.at, "unknown key %q in %s%s", e.key, label,
				orMean(e.key, bookKeys[what], "it may have "+strings.Join(bookKeys[what], ", ")))
			ok = false
		case e.value.kind == isUnset:
			r.fault(e.at, "%q has no value; write one, or null to fall back to the default", e.key)
			ok = false
		}
	}
	return ok
}

// named returns the entries of a mapping from names to things.
func (r *reader) named(t *tree, label string, valid func(string) string) []entry {
	if t == nil || t.kind == isUnset || !r.is(t, isMapping, label) { // sound tells what has no value
		return nil
	}
	var sound []entry
	for _, e := range t.entries {
		switch why := valid(e.key); {
		case why != "":
			r.fault(e.at, "%s: name %q %s", label, e.key, why)
		case e.value.kind == isUnset:
			r.fault(e.at, "%q has no value; write {} for one that is empty, or null to remove it", e.key)
		default:
			sound = append(sound, e)
		}
	}
	return sound
}

// is checks what a node is.
func (r *reader) is(t *tree, k kind, label string) bool {
	if t.kind == k {
		return true
	}
	r.fault(t.at, "%s must be %s, is %s", label, k, t.show())
	return false
}

// show is what stands there, for messages.
func (t *tree) show() string {
	switch t.kind {
	case isText:
		return strconv.Quote(t.text)
	case isNumber, isFlag:
		return t.text
	}
	return string(t.kind)
}

// integer reads a whole number.
func (r *reader) integer(t *tree, label string, least, most int64) (int64, bool) {
	n, err := strconv.ParseInt(t.text, 10, 64)
	// YAML would read 010 as 8 and 1e3 as text: neither is a price.
	plain := err == nil && strconv.FormatInt(n, 10) == t.text
	if t.kind != isNumber || !plain || n < least || n > most {
		r.fault(t.at, "%s must be a whole number from %d to %d, is %s", label, least, most, t.show())
		return 0, false
	}
	return n, true
}

// word reads one of a few words.
func (r *reader) word(t *tree, label string, words ...string) (string, bool) {
	if t.kind != isText || !slices.Contains(words, t.text) {
		r.fault(t.at, "%s must be %s, is %s%s", label, list(words, "or"), t.show(), didYouMean(t.text, words))
		return "", false
	}
	return t.text, true
}

// list writes words as people do: a, b or c.
func list(words []string, last string) string {
	if len(words) == 1 {
		return words[0]
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// policy reads refuse or admit; what is not there is def.
func (r *reader) policy(t *tree, label string, def Policy) Policy {
	if t == nil {
		return def
	}
	p, _ := r.word(t, label, string(Refuse), string(Admit))
	return Policy(p)
}

// texts reads a text or a list of them.
func (r *reader) texts(t *tree, label string) []*tree {
	if t == nil {
		return nil
	}
	all := []*tree{t}
	if t.kind == isList {
		all = t.items
	}
	for _, s := range all {
		if !r.is(s, isText, label) {
			return nil
		}
	}
	return all
}

// duration reads a Go duration.
func (r *reader) duration(t *tree, label string) (time.Duration, bool) {
	if t.kind == isNumber {
		r.fault(t.at, "%s is a duration: %s needs a unit, as in 90s, 10m or 24h", label, t.text)
		return 0, false
	}
	d, err := time.ParseDuration(t.text)
	if t.kind != isText || err != nil {
		r.fault(t.at, "%s must be a duration such as 90s, 10m or 24h, is %s", label, t.show())
		return 0, false
	}
	return d, true
}

// wideName accepts the names of upstreams, methods, classes and families.
func wideName(s string) string {
	return badName(s, "-_.", true, "letters, digits, dot, dash and underscore")
}

// narrowName accepts the names of accounts and pools.
func narrowName(s string) string {
	return badName(s, "-_", false, "lower-case letters, digits, dash and underscore")
}

func badName(s, marks string, upper bool, allowed string) string {
	ok := len(s) >= 1 && len(s) <= 64
	for _, c := range s {
		ok = ok && (c >= 'a' && c <= 'z' || upper && c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(marks, c))
	}
	if ok {
		return ""
	}
	return "may have 1 to 64 " + allowed
}

// plainText accepts what can be printed on one line.
func plainText(most int) func(string) string {
	return func(s string) string {
		if s == "" || len(s) > most || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return fmt.Sprintf("may have 1 to %d printable bytes", most)
		}
		return ""
	}
}

// extends reads which book this one is a difference from.
func (r *reader) extends(t *tree) (string, place, bool) {
	e := t.get("extends")
	if e == nil {
		return "", place{}, true
	}
	if e.kind != isText || !isBuiltin(e.text) {
		r.fault(e.at, "extends must name a built-in price book, builtin or builtin/..., is %s", e.show())
		return "", e.at, false
	}
	return e.text, e.at, true
}

// isBuiltin holds for the names that may stand behind extends.
func isBuiltin(name string) bool {
	variant, ok := strings.CutPrefix(name, "builtin")
	return ok && (variant == "" || strings.HasPrefix(variant, "/") && wideName(variant[1:]) == "")
}

// book reads a whole book. Its result counts only if there were no faults.
func (r *reader) book(t *tree) *Book {
	b := &Book{Upstreams: map[string]*Upstream{}, Families: map[string]*Family{}, hosts: map[string]*routeTable{}}
	r.sound(t, "price book", "the price book")
	switch rev := t.get("revision"); {
	case rev == nil:
		r.fault(r.missing(t, "revision", place{r.top, 1, 1}), "revision is missing; write revision: 1, and raise it with every change of a window")
	case rev.kind != isUnset: // sound has told
		b.Revision, _ = r.integer(rev, "revision", 1, math.MaxInt32)
	}
	hosts := map[string]place{}
	for _, e := range r.named(t.get("upstreams"), "upstreams", wideName) {
		u, routes := r.upstream(e)
		b.Upstreams[e.key] = u
		for i, h := range r.texts(e.value.get("hosts"), "hosts") {
			if first, dup := hosts[h.text]; dup {
				r.fault(r.blame(h.at, first), "host %q is given twice, the other time at %s; keep one", h.text, r.other(h.at, first))
			}
			hosts[h.text] = h.at
			if i < len(u.Hosts) {
				b.hosts[u.Hosts[i]] = routes
			}
		}
	}
	for _, e := range r.named(t.get("families"), "families", wideName) {
		b.Families[e.key] = r.family(e)
	}
	return b
}

// missing is the place of what is not there: where it was removed, or else.
func (r *reader) missing(t *tree, key string, otherwise place) place {
	if at, ok := t.gone[key]; ok {
		return at
	}
	return otherwise
}

// other is the one of two places that blame does not pick.
func (r *reader) other(a, b place) place {
	if r.blame(a, b) == a {
		return b
	}
	return a
}

// upstream reads one upstream and the routes of its methods.
func (r *reader) upstream(e entry) (*Upstream, *routeTable) {
	u := &Upstream{
		Name: e.key, Unpriced: Refuse,
		Classes: map[string]Class{}, Pools: map[string]*Pool{}, Methods: map[string]*Method{},
	}
	routes := &routeTable{upstream: u}
	if !r.sound(e.value, "upstream", fmt.Sprintf("upstream %q", e.key)) {
		return u, routes
	}
	t := e.value
	for _, h := range r.texts(t.get("hosts"), "hosts") {
		if why := badHost(h.text); why != "" {
			r.fault(h.at, "host %q %s", h.text, why)
		}
		u.Hosts = append(u.Hosts, h.text)
	}
	u.Unpriced = r.policy(t.get("unpriced"), "unpriced", Refuse)
	u.Key = r.apiKey(t.get("api_key"))
	if p := t.get("resumable"); p != nil {
		u.Resumable = r.param(p, "resumable")
	}
	u.Refusals = r.refusals(t.get("refusals"))
	for _, p := range r.named(t.get("pools"), "pools", narrowName) {
		if a := r.pool(p, t.get("pools")); a != nil {
			u.Pools[p.key] = a
		}
	}
	r.accounts(u, t)
	for _, c := range r.named(t.get("classes"), "classes", wideName) {
		u.Classes[c.key] = r.class(c)
		r.leavesSome(u, c, t.get("pools"))
	}
	given := map[string]place{}
	for _, m := range r.named(t.get("methods"), "methods", wideName) {
		method := r.method(m, t.get("pools"))
		u.Methods[m.key] = method
		r.payable(u, m)
		r.routes(m, method, routes, given)
	}
	if len(given) > 0 && len(u.Hosts) == 0 {
		r.fault(r.missing(t, "hosts", e.at), "upstream %q has routes but no hosts; name the hosts whose requests they are", u.Name)
	}
	r.stillCharged(t)
	return u, routes
}

// class reads one class.
func (r *reader) class(e entry) Class {
	var c Class
	t := e.value
	if !r.sound(t, "class", fmt.Sprintf("class %q", e.key)) {
		return c
	}
	if k := t.get("keep_free"); k != nil {
		if percent, ok := strings.CutSuffix(k.text, "%"); ok && k.kind == isText {
			c.KeepFreePercent, _ = r.integer(&tree{kind: isNumber, at: k.at, text: percent}, "keep_free in percent", 0, 99)
		} else {
			c.KeepFree, _ = r.integer(k, "keep_free", 0, window.MaxUnits)
		}
	}
	if h := t.get("use_headroom"); h != nil && r.is(h, isFlag, "use_headroom") {
		c.UseHeadroom = h.text == "true"
		if c.UseHeadroom && (c.KeepFree > 0 || c.KeepFreePercent > 0) {
			r.fault(r.blame(h.at, t.get("keep_free").at), "class %q cannot both keep units free and use the headroom; choose one", e.key)
		}
	}
	c.Outage = r.policy(t.get("outage"), "outage", "")
	return c
}
