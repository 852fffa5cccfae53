package book

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Format prints the book as YAML in one piece: what it extends worked in, short
// forms and defaults written out, everything in a fixed order. Reading it back
// gives an equal book.
func (b *Book) Format() []byte {
	return render(b.tree())
}

// Diff prints only what differs from the book that this one extends, as an
// overlay: reading it back gives an equal book. Of a book that extends none it
// is what [Book.Format] prints.
func (b *Book) Diff() []byte {
	if b.base == nil {
		return b.Format()
	}
	t := &tree{kind: isMapping}
	t.add("extends", text(b.extends))
	if d := diff(b.base.tree(), b.tree()); d != nil {
		t.entries = append(t.entries, d.entries...)
	}
	return render(t)
}

// diff is the overlay that makes one tree of another, or nil if they are equal.
// What the new one lacks is null in it.
func diff(old, made *tree) *tree {
	if old == nil || old.kind != made.kind {
		return made
	}
	if made.kind != isMapping {
		if slices.Equal(render(old), render(made)) {
			return nil
		}
		return made
	}
	d := &tree{kind: isMapping, flow: made.flow}
	for _, e := range made.entries {
		before := old.get(e.key)
		if v := diff(before, e.value); v != nil {
			d.add(e.key, v)
		}
	}
	for _, e := range old.entries {
		if made.get(e.key) == nil {
			d.add(e.key, &tree{kind: isNull})
		}
	}
	if len(d.entries) == 0 {
		return nil
	}
	// Of a method, either way of charging replaces the other by itself.
	switch o := made.get("outage"); {
	case o == nil || o.kind != isText:
	case d.get("charge") != nil && d.get("charge").kind == isMapping && old.get("pool") != nil:
		return d.without("pool", "cost")
	case d.get("cost") != nil && d.get("cost").kind == isNumber && old.get("charge") != nil:
		return d.without("charge")
	}
	return d
}

// tree is the book as a tree. Whatever may have been left out is there, except
// what is empty.
func (b *Book) tree() *tree {
	t := &tree{kind: isMapping}
	t.add("revision", number(b.Revision))
	upstreams := &tree{kind: isMapping}
	for _, name := range sorted(b.Upstreams) {
		upstreams.add(name, b.Upstreams[name].tree())
	}
	t.addFull("upstreams", upstreams)
	families := &tree{kind: isMapping}
	for _, name := range sorted(b.Families) {
		families.add(name, b.Families[name].tree())
	}
	t.addFull("families", families)
	return t
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func (u *Upstream) tree() *tree {
	t := &tree{kind: isMapping}
	t.addFull("hosts", texts(u.Hosts))
	t.add("unpriced", text(string(u.Unpriced)))
	t.addFull("api_key", u.Key.tree())
	if u.Resumable != "" {
		t.add("resumable", text(u.Resumable))
	}
	refusals := &tree{kind: isList}
	for i := range u.Refusals {
		refusals.items = append(refusals.items, u.Refusals[i].tree())
	}
	t.addFull("refusals", refusals)
	classes := &tree{kind: isMapping}
	for _, name := range sorted(u.Classes) {
		classes.add(name, u.Classes[name].tree())
	}
	t.addFull("classes", classes)
	accounts := &tree{kind: isMapping}
	for _, name := range u.Accounts {
		if u.listed {
			accounts.add(name, u.accountTree(name))
		}
	}
	t.addFull("accounts", accounts)
	pools := &tree{kind: isMapping}
	for _, name := range sorted(u.Pools) {
		a := u.Pools[name]
		p := a.grant.tree()
		p.add("windows", windowTrees(a.Windows, a.own))
		pools.add(name, p)
	}
	t.addFull("pools", pools)
	methods := &tree{kind: isMapping}
	for _, name := range sorted(u.Methods) {
		methods.add(name, u.Methods[name].tree())
	}
	t.addFull("methods", methods)
	return t
}

func (u *Upstream) accountTree(name string) *tree {
	t, pools := &tree{kind: isMapping, flow: true}, &tree{kind: isMapping, flow: true}
	for _, pool := range sorted(u.Pools) {
		if g, ok := u.Pools[pool].grants[name]; ok {
			g.hasHeadroom = true
			p := g.tree()
			p.flow = true
			pools.add(pool, p)
		}
	}
	t.addFull("pools", pools)
	return t
}

func (c Class) tree() *tree {
	t := &tree{kind: isMapping, flow: true}
	switch {
	case c.KeepFree > 0:
		t.add("keep_free", number(c.KeepFree))
	case c.KeepFreePercent > 0:
		t.add("keep_free", text(strconv.FormatInt(c.KeepFreePercent, 10)+"%"))
	}
	if c.UseHeadroom {
		t.add("use_headroom", &tree{kind: isFlag, text: "true"})
	}
	if c.Outage != "" {
		t.add("outage", text(string(c.Outage)))
	}
	return t
}

func (m *Method) tree() *tree {
	t := &tree{kind: isMapping, flow: true}
	routes := make([]string, len(m.Routes))
	for i, r := range m.Routes {
		routes[i] = r.String()
	}
	if len(routes) == 1 {
		t.add("route", text(routes[0]))
	} else {
		t.addFull("route", texts(routes))
	}
	charge := &tree{kind: isMapping, flow: true}
	for _, pool := range sorted(m.Charges) {
		charge.add(pool, number(m.Charges[pool]))
	}
	if len(charge.entries) == 1 {
		t.add("pool", text(charge.entries[0].key))
		t.add("cost", charge.entries[0].value)
	} else {
		t.add("charge", charge)
	}
	t.add("outage", text(string(m.Outage)))
	if m.Source != "" {
		t.add("source", text(m.Source))
	}
	return t
}

func (f *Family) tree() *tree {
	t := f.grant.tree()
	t.add("windows", windowTrees(f.Windows, f.own))
	t.add("max_keys", number(int64(f.MaxKeys)))
	keys := &tree{kind: isMapping}
	for _, key := range sorted(f.Overrides) {
		g := f.grants[key]
		k := g.grant.tree()
		k.flow = true
		if g.own != nil {
			k.add("windows", windowTrees(f.Overrides[key], g.own))
		}
		keys.add(key, k)
	}
	t.addFull("keys", keys)
	return t
}

func (g grant) tree() *tree {
	t := &tree{kind: isMapping}
	if g.hasQuota {
		t.add("quota", number(g.quota))
	}
	if g.hasHeadroom {
		t.add("headroom", number(g.headroom))
	}
	return t
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

// brief is a duration without the zeros that its String adds: 24h, not 24h0m0s.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (t *tree) add(key string, value *tree) {
	t.entries = append(t.entries, entry{key: key, value: value})
}

// addFull adds a value unless it is empty.
func (t *tree) addFull(key string, value *tree) {
	if len(value.entries)+len(value.items) > 0 {
		t.add(key, value)
	}
}

func text(s string) *tree { return &tree{kind: isText, text: s} }

func number(n int64) *tree { return &tree{kind: isNumber, text: strconv.FormatInt(n, 10)} }

func texts(all []string) *tree {
	t := &tree{kind: isList, flow: true}
	for _, s := range all {
		t.items = append(t.items, text(s))
	}
	return t
}

// render writes a tree as YAML.
func render(t *tree) []byte {
	var out strings.Builder
	printBlock(&out, t, "")
	return []byte(out.String())
}

func printBlock(out *strings.Builder, t *tree, indent string) {
	for _, e := range t.entries {
		fmt.Fprintf(out, "%s%s:", indent, quoted(e.key))
		printValue(out, e.value, indent)
	}
	for _, item := range t.items {
		out.WriteString(indent + "- ")
		printFlow(out, item)
		out.WriteByte('\n')
	}
	if t.kind != isMapping && t.kind != isList {
		printFlow(out, t)
	}
}

func printValue(out *strings.Builder, t *tree, indent string) {
	if block := len(t.entries)+len(t.items) > 0 && !t.flow; block {
		out.WriteByte('\n')
		printBlock(out, t, indent+"  ")
		return
	}
	out.WriteByte(' ')
	printFlow(out, t)
	out.WriteByte('\n')
}

func printFlow(out *strings.Builder, t *tree) {
	comma := ""
	switch t.kind {
	case isMapping:
		out.WriteByte('{')
		for _, e := range t.entries {
			out.WriteString(comma + quoted(e.key) + ": ")
			printFlow(out, e.value)
			comma = ", "
		}
		out.WriteByte('}')
	case isList:
		out.WriteByte('[')
		for _, item := range t.items {
			out.WriteString(comma)
			printFlow(out, item)
			comma = ", "
		}
		out.WriteByte(']')
	case isText:
		out.WriteString(quoted(t.text))
	case isNull:
		out.WriteString("null")
	default:
		out.WriteString(t.text)
	}
}

// quoted puts quotes around text that YAML might take for something else.
func quoted(s string) string {
	plain := s != "" && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z')
	if n := strings.TrimRight(s, "%"); len(s)-len(n) == 1 && strings.Trim(n, "0123456789") == "" && n != "" {
		return s // a percentage
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		plain = plain && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_./ ", c) >= 0 ||
			c == ':' && i+1 < len(s) && s[i+1] != ' ')
	}
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		plain = false
	}
	if plain && s == strings.TrimSpace(s) {
		return s
	}
	if d, err := time.ParseDuration(s); err == nil && brief(d) == s && strings.Trim(s, "0123456789hms") == "" && strings.ContainsAny(s, "hms") {
		return s // a duration
	}
	return strconv.Quote(s)
}
