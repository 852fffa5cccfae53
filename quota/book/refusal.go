package book

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Refusal reads an upstream's own no: which answers it is for, and what they
// mean. Of Until, For and Credential one is set.
type Refusal struct {
	Status []int    // of the answer: one of these
	Header string   // that it has; "" does not ask
	Value  string   // of Header; "" asks only that it is there
	Reason []string // the JSON of its body has a member "reason" that is one of these
	Body   []string // its body has one of these in it

	Until      string        // the pools are shut until their reset ([UntilReset]), or the time in this header
	For        time.Duration // or for so long; Retry-After, if it comes, says otherwise
	Credential bool          // or it is not about quota: the key may not be used
}

// UntilReset is the Until of a rule that shuts pools until their reset.
const UntilReset = "reset"

// What a rule may hold.
const (
	maxRefusals = 64
	maxPhrase   = 256 // bytes of a text to be found in a body
)

// refusals reads the rules for an upstream's own no.
func (r *reader) refusals(t *tree) []Refusal {
	if t == nil || !r.is(t, isList, "refusals") {
		return nil
	}
	if n := len(t.items); n > maxRefusals {
		r.fault(t.at, "there may be at most %d refusals, there are %d", maxRefusals, n)
		return nil
	}
	var rules []Refusal
	var at []place
	for _, item := range t.items {
		rule, ok := r.refusal(item)
		if !ok {
			continue
		}
		for i := range rules {
			if rules[i].covers(&rule) {
				r.fault(item.at, "this refusal is never reached: the one at %s takes every answer that this is for; move this one above it", at[i])
				break
			}
		}
		rules, at = append(rules, rule), append(at, item.at)
	}
	return rules
}

// covers holds for a rule that takes every answer another one is for.
func (u *Refusal) covers(v *Refusal) bool {
	if u.Until != "" && u.Until != UntilReset {
		return false // only where its header is to be read
	}
	asks := u.Header != "" || u.Reason != nil || u.Body != nil
	return !asks && !slices.ContainsFunc(v.Status, func(s int) bool { return !slices.Contains(u.Status, s) })
}

// refusal reads one rule.
func (r *reader) refusal(t *tree) (u Refusal, ok bool) {
	if !r.sound(t, "refusal", "a refusal") {
		return u, false
	}
	before := len(r.faults)
	if s := t.get("status"); s == nil {
		r.fault(t.at, "a refusal needs a status, as in {status: 429, for: 30s}")
	} else {
		u.Status = r.statuses(s)
	}
	if h := t.get("header"); h != nil {
		u.Header, u.Value = r.headerValue(h)
	}
	u.Reason = r.phrases(t.get("reason"), "reason")
	u.Body = r.phrases(t.get("body"), "body")
	r.meaning(t, &u)
	return u, len(r.faults) == before
}

// statuses reads a status or a list of them.
func (r *reader) statuses(t *tree) []int {
	all := []*tree{t}
	if t.kind == isList {
		all = t.items
	}
	if len(all) == 0 {
		r.fault(t.at, "status is empty; name one at least")
	}
	var statuses []int
	for _, s := range all {
		n, ok := r.integer(s, "status", 200, 599)
		if ok && slices.Contains(statuses, int(n)) {
			r.fault(s.at, "status %d is given twice; keep one", n)
		}
		statuses = append(statuses, int(n))
	}
	return statuses
}

// phrases reads a text or a list of them, one of which an answer must have.
func (r *reader) phrases(t *tree, label string) []string {
	if t != nil && t.kind == isList && len(t.items) == 0 {
		r.fault(t.at, "%s is empty; leave it out, or write a text", label)
	}
	var all []string
	for _, s := range r.texts(t, label) {
		if why := plainText(maxPhrase)(s.text); why != "" {
			r.fault(s.at, "%s %q %s", label, s.text, why)
		}
		all = append(all, s.text)
	}
	return all
}

// headerValue reads a header that must be there, or one and its value.
func (r *reader) headerValue(t *tree) (name, value string) {
	if t.kind == isText {
		if name, value, both := strings.Cut(t.text, ":"); both {
			r.fault(t.at, "header %q is a name and a value; write header: {%s: %s}", t.text, name, strings.TrimSpace(value))
			return "", ""
		}
		return r.header(t, "header"), ""
	}
	if t.kind != isMapping || len(t.entries) != 1 {
		r.fault(t.at, "header must be the name of one, or one and its value, as in {x-ratelimit-remaining: 0}, is %s", t.show())
		return "", ""
	}
	e := t.entries[0]
	name = r.header(&tree{kind: isText, at: e.at, text: e.key}, "header")
	if e.value.kind != isText && e.value.kind != isNumber && e.value.kind != isFlag {
		r.fault(e.at, "the value of header %s must be text or a number, is %s", e.key, e.value.kind)
		return name, ""
	}
	if why := plainText(maxPhrase)(e.value.text); why != "" {
		r.fault(e.value.at, "the value of header %s %s", e.key, why)
	}
	if e.value.text != strings.TrimSpace(e.value.text) {
		r.fault(e.value.at, "the value of header %s has spaces around it, which no header keeps; remove them", e.key)
	}
	return name, e.value.text
}

// meaning reads what a rule does.
func (r *reader) meaning(t *tree, u *Refusal) {
	var given []string
	for _, key := range []string{"until", "for", "credential"} {
		if t.get(key) != nil {
			given = append(given, key)
		}
	}
	if len(given) != 1 {
		says := "does not say what it means"
		if len(given) > 1 {
			says = "has " + list(given, "and")
		}
		r.fault(t.at, "a refusal %s; write one of until: reset, until: a header with the time, for: a duration, credential: true", says)
		return
	}
	switch v := t.get(given[0]); given[0] {
	case "until":
		if u.Until = r.header(v, "until"); u.Until != UntilReset && strings.EqualFold(u.Until, UntilReset) {
			r.fault(v.at, "until: %s would be a header; write reset", v.text)
		}
	case "for":
		d, ok := r.duration(v, "for")
		if ok && (d < time.Second || d > MaxBlock) {
			r.fault(v.at, "for must be from 1s to %s, is %s", brief(MaxBlock), v.text)
		}
		u.For = d
	case "credential":
		if u.Credential = v.text == "true"; r.is(v, isFlag, "credential") && !u.Credential {
			r.fault(v.at, "credential: false says nothing; write until or for, or remove the refusal")
		}
	}
}

func (u *Refusal) tree() *tree {
	t := &tree{kind: isMapping, flow: true}
	statuses := &tree{kind: isList, flow: true}
	for _, s := range u.Status {
		statuses.items = append(statuses.items, number(int64(s)))
	}
	if len(statuses.items) == 1 {
		statuses = statuses.items[0]
	}
	t.add("status", statuses)
	switch {
	case u.Value != "":
		t.add("header", &tree{kind: isMapping, flow: true, entries: []entry{{key: u.Header, value: text(u.Value)}}})
	case u.Header != "":
		t.add("header", text(u.Header))
	}
	t.addPhrases("reason", u.Reason)
	t.addPhrases("body", u.Body)
	switch {
	case u.Until != "":
		t.add("until", text(u.Until))
	case u.For != 0:
		t.add("for", text(brief(u.For)))
	default:
		t.add("credential", &tree{kind: isFlag, text: strconv.FormatBool(u.Credential)})
	}
	return t
}

// addPhrases adds one text as it is, several as a list.
func (t *tree) addPhrases(key string, all []string) {
	if len(all) == 1 {
		t.add(key, text(all[0]))
		return
	}
	t.addFull(key, texts(all))
}
