package book

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/headroom-quota/headroom/internal/strictyaml"
)

var durationType = reflect.TypeFor[time.Duration]()

// scalar reads a value that is not made of others into v.
func (r *reader) scalar(f *field, t *tree, v reflect.Value, label string) (ok bool) {
	switch {
	case v.Type() == durationType:
		var d time.Duration
		d, ok = r.duration(f, t, label)
		v.SetInt(int64(d))
	case v.CanInt():
		var n int64
		n, ok = r.integer(t, label, f.least, f.most)
		v.SetInt(n)
	case v.Kind() == reflect.Bool:
		ok = r.is(t, isFlag, label)
		v.SetBool(t.Text == "true")
	default:
		ok = r.text(f, t, label)
		v.SetString(t.Text)
	}
	return ok
}

func (r *reader) is(t *tree, k strictyaml.Kind, label string) bool {
	if t.Kind == k {
		return true
	}
	r.fault(t.At, "%s must be %s, is %s", label, k, show(t))
	return false
}

// show is what stands there, for messages.
func show(t *tree) string {
	switch t.Kind {
	case isText:
		return strconv.Quote(t.Text)
	case isNumber, isFlag:
		return t.Text
	}
	return string(t.Kind)
}

func (r *reader) integer(t *tree, label string, least, most int64) (int64, bool) {
	n, err := strconv.ParseInt(t.Text, 10, 64)
	// YAML would read 010 as 8 and 1e3 as text: neither is a price.
	plain := err == nil && strconv.FormatInt(n, 10) == t.Text
	if t.Kind != isNumber || !plain || n < least || n > most {
		r.fault(t.At, "%s must be a whole number from %d to %d, is %s", label, least, most, show(t))
		return 0, false
	}
	return n, true
}

// text checks that a text is one of the words, or of the kind that it should be.
func (r *reader) text(f *field, t *tree, label string) bool {
	before := len(r.faults)
	switch known := t.Kind == isText && slices.Contains(f.words, t.Text); {
	case known:
	case len(f.words) > 0 && f.text.phrase == "":
		r.fault(t.At, "%s must be %s, is %s%s", label, list(f.words, "or"), show(t), didYouMean(t.Text, f.words))
	case t.Kind == isNumber && f.tags.Get("is") == "amount":
		r.fault(t.At, "%s must be an amount, is %s; write %s %s", label, t.Text, t.Text, Money)
	case t.Kind == isNumber && f.tags.Get("is") == "percent":
		r.fault(t.At, "%s must be a percentage, is %s; write %s%%", label, t.Text, t.Text)
	case !r.is(t, isText, label):
	case len(f.words) > 0 && slices.Contains(f.words, strings.ToLower(t.Text)):
		r.fault(t.At, "%s: %s would be the %s; write %s", label, t.Text, f.text.phrase, strings.ToLower(t.Text))
	case f.text.check != nil:
		if why := f.text.check(t.Text); why != "" {
			r.fault(t.At, "%s %q %s", label, t.Text, why)
		}
	}
	return len(r.faults) == before
}

func (r *reader) duration(f *field, t *tree, label string) (time.Duration, bool) {
	if t.Kind == isNumber {
		r.fault(t.At, "%s is a duration: %s needs a unit, as in 90s, 10m or 24h", label, t.Text)
		return 0, false
	}
	d, err := time.ParseDuration(t.Text)
	least, most := time.Duration(f.least), time.Duration(f.most)
	switch {
	case t.Kind != isText || err != nil:
		r.fault(t.At, "%s must be a duration such as 90s, 10m or 24h, is %s", label, show(t))
	case d == 0 && least > 0 && f.oneof == "":
		r.fault(t.At, "%s must be at least %s, is 0; leave it out for the default", label, brief(least))
	case d < least && most == math.MaxInt64:
		r.fault(t.At, "%s must be at least %s, is %s", label, brief(least), t.Text)
	case d < least, d > most:
		r.fault(t.At, "%s must be from %s to %s, is %s", label, brief(least), brief(most), t.Text)
	default:
		return d, true
	}
	return 0, false
}

// textKind is a kind of text that tags name.
type textKind struct {
	phrase  string              // what to call it, in messages and in the reference
	pattern string              // it, for editors
	check   func(string) string // what is wrong with a text, or ""; nil if the code behind the reader tells
}

var textKinds = map[string]textKind{
	"amount":   {phrase: "amount, such as `12.50 USD`", pattern: `^[0-9]+(\.[0-9]{1,6})? USD$`, check: badAmount},
	"builtin":  {phrase: "`builtin` or `builtin/NAME`", pattern: `^builtin(/[A-Za-z0-9_.-]+)?$`},
	"date":     {phrase: "day, such as `2026-11-22`", pattern: `^\d{4}-\d{2}-\d{2}$`, check: badDate},
	"duration": {phrase: "duration"},
	"header":   httpName("!#$%&'*+.^_`|~-", "name of a header"),
	"member":   {phrase: "a.b.c", check: badMember},
	"regexp":   {phrase: "regular expression", check: badRegexp},
	"segment":  {phrase: "name in the route", check: wideName},
	"host":     {phrase: "host", check: badPlace},
	"hostname": {phrase: "host", check: badHost},
	"none":     {phrase: "`none`", pattern: "^none$"},
	"field":    httpName("_-", "name of a field"),
	"param":    httpName("._~-", "name of a query parameter"),
	"percent":  {phrase: "a percentage such as `30%`", pattern: "^[0-9]{1,2}%$", check: badPercent},
	"phrase":   {phrase: "text", check: plainText(256)},
	"pool":     {phrase: "name of a pool"},
	"route":    {phrase: "`VERB /path`", pattern: `^([A-Z]+|\*) /`},
	"urlpath":  {phrase: "path, such as `/v1`", pattern: `^(/[A-Za-z0-9._~-]+)+$`, check: badPath},
	"variable": httpName("_", "name of a variable"),
	"zone":     {phrase: "IANA time zone", check: badZone},
}

// nameKinds say what is wrong with the name of an entry, or "".
var nameKinds = map[string]func(string) string{
	"wide": wideName, "narrow": narrowName, "long": plainText(1024), "account": accountName, "verb": badVerb,
}

const (
	digits  = "0123456789"
	lower   = "abcdefghijklmnopqrstuvwxyz"
	letters = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// httpName is a name in HTTP: letters, digits and some marks.
func httpName(marks, phrase string) textKind {
	return textKind{phrase: phrase, pattern: "^[A-Za-z0-9" + marks + "]+$", check: func(s string) string {
		if s == "" || len(s) > 128 || strings.Trim(s, letters+digits+marks) != "" {
			return "is not the " + phrase
		}
		return ""
	}}
}

var (
	// wideName accepts the names of upstreams, methods, classes and families.
	wideName = nameOf(letters+digits+"-_.", "letters, digits, dot, dash and underscore")
	// narrowName accepts the names of accounts and pools.
	narrowName = nameOf(lower+digits+"-_", "lower-case letters, digits, dash and underscore")
)

func nameOf(set, allowed string) func(string) string {
	return func(s string) string {
		if s == "" || len(s) > 64 || strings.Trim(s, set) != "" {
			return "may have 1 to 64 " + allowed
		}
		return ""
	}
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

func badPath(text string) string {
	rest, rooted := strings.CutPrefix(text, "/")
	if !rooted || len(text) > 128 {
		return "is not a path; write it as /v1"
	}
	for part := range strings.SplitSeq(rest, "/") {
		if strings.Trim(part, ".") == "" || strings.Trim(part, letters+digits+"._~-") != "" {
			return "is not a path; write it as /v1"
		}
	}
	return ""
}

func badDate(text string) string {
	if _, err := time.Parse(time.DateOnly, text); err != nil {
		return "is no day; write it as 2026-11-22"
	}
	return ""
}
