package book

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
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

// header reads the name of a header.
func (r *reader) header(t *tree, label string) string {
	const marks = "!#$%&'*+-.^_`|~"
	if !r.is(t, isText, label) {
		return ""
	}
	if !isToken(t.text, marks) {
		r.fault(t.at, "%s %q is not the name of a header", label, t.text)
	}
	return t.text
}

// param reads the name of a query parameter.
func (r *reader) param(t *tree, label string) string {
	if !r.is(t, isText, label) {
		return ""
	}
	if !isToken(t.text, "-._~") {
		r.fault(t.at, "%s %q is not the name of a query parameter", label, t.text)
	}
	return t.text
}

// isToken holds for a short name of letters, digits and some marks.
func isToken(s, marks string) bool {
	return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(marks, c)
	})
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

// missing is the place of what is not there: where it was removed, or else.
func (r *reader) missing(t *tree, key string, otherwise place) place {
	if at, ok := t.gone[key]; ok {
		return at
	}
	return otherwise
}
