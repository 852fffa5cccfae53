package book

import (
	"slices"
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

// refusals makes the rules for an upstream's own no.
func (r *reader) refusals(all []refusalYAML) []Refusal {
	var rules []Refusal
	var given []*refusalYAML
	for i := range all {
		d := &all[i]
		if !r.means(d) || !r.sound(d) {
			continue
		}
		rule := Refusal{
			Status: d.Status, Header: d.Header.name, Value: d.Header.value, Reason: d.Reason, Body: d.Body,
			Until: d.Until, For: d.For, Credential: d.Credential,
		}
		for i := range rules {
			if rules[i].covers(&rule) {
				r.fault(r.place(d), "this refusal is never reached: the one at %s takes every answer that this is for; move this one above it", r.place(given[i]))
				break
			}
		}
		rules, given = append(rules, rule), append(given, d)
	}
	return rules
}

// means checks that a rule means something, and each of its statuses something more.
func (r *reader) means(d *refusalYAML) bool {
	for i := range d.Status {
		if status := &d.Status[i]; r.sound(status) && slices.Contains(d.Status[:i], *status) {
			r.fault(r.place(status), "status %d is given twice; keep one", *status)
			return false
		}
	}
	if r.given(&d.Credential) && r.sound(&d.Credential) && !d.Credential {
		r.fault(r.place(&d.Credential), "credential: false says nothing; write until or for, or remove the refusal")
		return false
	}
	return true
}

// covers holds for a rule that takes every answer another one is for.
func (u *Refusal) covers(v *Refusal) bool {
	if u.Until != "" && u.Until != UntilReset {
		return false // only where its header is to be read
	}
	asks := u.Header != "" || u.Reason != nil || u.Body != nil
	return !asks && !slices.ContainsFunc(v.Status, func(s int) bool { return !slices.Contains(u.Status, s) })
}

// headerValue is a header that must be there, or one and its value.
type headerValue struct{ name, value string }

func (h *headerValue) read(r *reader, f *field, t *tree) {
	if t.kind == isText {
		if name, value, both := strings.Cut(t.text, ":"); both {
			r.fault(t.at, "header %q is a name and a value; write header: {%s: %s}", t.text, name, strings.TrimSpace(value))
		} else if r.text(f, t, f.key) {
			h.name = name
		}
		return
	}
	if t.kind != isMapping || len(t.entries) != 1 {
		r.fault(t.at, "header must be the name of one, or one and its value, as in {x-ratelimit-remaining: 0}, is %s", t.show())
		return
	}
	e := t.entries[0]
	r.text(f, &tree{kind: isText, at: e.at, text: e.key}, f.key)
	h.name, h.value = e.key, e.value.text
	switch kind, why := e.value.kind, textKinds["phrase"].check(h.value); {
	case kind != isText && kind != isNumber && kind != isFlag:
		r.fault(e.at, "the value of header %s must be text or a number, is %s", e.key, kind)
	case why != "":
		r.fault(e.value.at, "the value of header %s %s", e.key, why)
	case h.value != strings.TrimSpace(h.value):
		r.fault(e.value.at, "the value of header %s has spaces around it, which no header keeps; remove them", e.key)
	}
}

func (h *headerValue) tree() *tree {
	switch {
	case h.value != "":
		return &tree{kind: isMapping, flow: true, entries: []entry{{key: h.name, value: text(h.value)}}}
	case h.name != "":
		return text(h.name)
	}
	return nil
}
