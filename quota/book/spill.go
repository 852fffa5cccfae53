package book

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota/book/keys"
)

// Spill is where calls go for which an upstream lacks units.
type Spill struct {
	Upstream *Upstream
	Account  string // "": that of the call
}

// MaySpill reports whether a call may go to another upstream if its own lacks units.
func (m *Match) MaySpill() bool {
	return m.Upstream != nil && len(m.Upstream.Spill) > 0 && m.Route != nil && m.Upstream.maySpill(m.Method)
}

func (u *Upstream) maySpill(m *Method) bool {
	return u.SpillMethods == nil || slices.Contains(u.SpillMethods, m.Name)
}

// PathAt returns the path at which another upstream has the same call: that of its method of the same
// name, or else the same path, if a route lists it. It returns "" if the upstream does not have the call.
func (m *Match) PathAt(u *Upstream) string {
	if m.Route == nil || u.routes == nil {
		return ""
	}
	verb := cmp.Or(m.verb, "GET")
	same := u.routes.lookup(verb, m.path)
	if other := u.Methods[m.Method.Name]; other != nil && same.method != other {
		for _, route := range other.Routes {
			segment := func(name string, tail bool) (string, bool) { // a tail keeps the escapes of its slashes
				text, has := m.escaped(name)
				if !tail {
					text = strings.ReplaceAll(text, "/", "%2F")
				}
				return text, has
			}
			if path, missing := route.fill(segment); missing == "" && u.routes.lookup(verb, path).method == other {
				return path
			}
		}
	}
	if same.route == nil {
		return ""
	}
	return m.path
}

// Host returns the first host of the upstream that has an escaped path. If hosts name accounts, it is that of the
// account, if it has one. Host returns "" if there is none.
func (u *Upstream) Host(account, path string) (first string) {
	for _, entry := range u.Hosts {
		host, prefix, _ := strings.Cut(entry, "/")
		if prefix != "" && !strings.HasPrefix(path, "/"+prefix) {
			continue
		}
		suffix, wild := strings.CutPrefix(host, "*")
		switch {
		case wild && u.AccountFrom.Host == 1 && isLabel(account):
			return account + suffix
		case wild:
		case u.AccountFrom.Host > 0 && (&Match{host: host}).Label(u.AccountFrom.Host) == account:
			return host
		default:
			first = cmp.Or(first, host)
		}
	}
	return first
}

func isLabel(text string) bool {
	return text != "" && len(text) <= 63 && strings.Trim(text, "-") == text && strings.Trim(text, lower+digits+"-_") == ""
}

// Listed returns a host as the book lists it, which may have a star in the place of a name, or "". Ports must be equal.
func (u *Upstream) Listed(whole string) string {
	for _, entry := range u.Hosts {
		if host, _, _ := strings.Cut(entry, "/"); isOf(whole, host) {
			return host
		}
	}
	return ""
}

// isOf reports whether a host is the one that is listed, which may have a star in the place of a label.
func isOf(host, listed string) bool {
	suffix, wild := strings.CutPrefix(listed, "*")
	label, under := strings.CutSuffix(host, suffix)
	return host == listed || wild && under && isLabel(label)
}

// spills makes what upstreams say of calls for which they lack units.
func (r *reader) spills(b *Book, d *keys.Book) {
	for _, name := range r.names(&d.Upstreams) {
		u, of := b.Upstreams[name], d.Upstreams[name]
		u.NoSpill, u.SpillMethods = of.NoSpill, of.SpillMethods
		if !r.readable(of) {
			continue
		}
		if u.SpillMethods != nil && of.Spill == nil {
			r.fault(r.place(&of.SpillMethods), "spill_methods changes nothing without spill; name the upstreams, as in spill: [azure-east]")
		}
		for i, method := range u.SpillMethods {
			if m := u.Methods[method]; m == nil || m.Routes == nil {
				r.fault(r.place(&of.SpillMethods[i]), "upstream %q has no method %q with a route that could spill%s", name, method, orMean(method, slices.Sorted(maps.Keys(u.Methods)), "add it to methods, or leave it out"))
			}
		}
		for i := range of.Spill {
			if to, why := spillOf(u, of.Spill[i], b, d); why == "" {
				u.Spill = append(u.Spill, to)
			} else if r.sound(&of.Spill, &of.Methods, &of.Accounts) {
				r.fault(r.place(&of.Spill[i]), "%s", why)
			}
		}
	}
}

// spillOf returns where the calls of an upstream go by an entry, or says what is wrong with that.
func spillOf(u *Upstream, text string, b *Book, d *keys.Book) (to Spill, why string) {
	name, account, named := strings.Cut(text, "@")
	other := b.Upstreams[name]
	lacks := func(account string) bool { return !other.AnyAccount && !slices.Contains(other.Accounts, account) }
	switch {
	case u.NoSpill != "":
		return to, fmt.Sprintf("calls of upstream %q must not spill: %s", u.Name, u.NoSpill)
	case other == nil || name == Budgets:
		known := slices.DeleteFunc(b.Metered(), func(s string) bool { return s == u.Name })
		return to, fmt.Sprintf("spill of upstream %q names %q, which does not exist%s", u.Name, name, orMean(name, known, "add it to upstreams, or leave it out"))
	case d.Upstreams[name].NoSpill != "":
		return to, fmt.Sprintf("calls must not spill to upstream %q: %s", name, d.Upstreams[name].NoSpill)
	case len(u.Hosts) == 0:
		return to, fmt.Sprintf("upstream %q has no hosts, and only requests over HTTP spill; add hosts and routes, or leave spill out", u.Name)
	case other == u && !named:
		return to, fmt.Sprintf("spill of upstream %q names itself; name another upstream, or another account of it, as in %s@second", name, name)
	case named && (account == "" || lacks(account)):
		return to, fmt.Sprintf("upstream %q has no account %q; add it to its accounts, or write accounts: any", name, account)
	case !named && (u.AnyAccount && !other.AnyAccount || slices.ContainsFunc(u.Accounts, lacks) || other.AccountFrom.Host > 0 && other.AccountFrom != u.AccountFrom):
		return to, fmt.Sprintf("upstream %q does not have the accounts of %q; name the one that pays, as in %s@default", name, u.Name, name)
	case other.leadsTo(u) && other != u:
		return to, fmt.Sprintf("spill leads from upstream %q to %q and back in a circle; remove one of the two", u.Name, name)
	}
	if missing := u.lackedBy(other, cmp.Or(account, "any")); len(missing) > 0 {
		why = fmt.Sprintf("calls of upstream %q may spill to %q, which lacks %s; add them there with the same name or route, or name the methods that may spill, as in spill_methods: [NAME]", u.Name, name, list(missing, "and"))
	}
	return Spill{other, account}, why
}

// leadsTo reports whether spill leads from an upstream to another one.
func (u *Upstream) leadsTo(other *Upstream) bool {
	return slices.ContainsFunc(u.Spill, func(s Spill) bool {
		return s.Upstream != u && (s.Upstream == other || s.Upstream.leadsTo(other))
	})
}

// lackedBy returns what another upstream would need for the calls that may spill to an account of it.
func (u *Upstream) lackedBy(other *Upstream, account string) (missing []string) {
	for _, name := range slices.Sorted(maps.Keys(u.Methods)) {
		m := u.Methods[name]
		if u.maySpill(m) && slices.ContainsFunc(m.Routes, func(route Route) bool {
			verb := strings.ReplaceAll(route.Verb, anyName, "ANY") // which only the same takes
			path := (&Match{Method: m, Route: &route, verb: verb, path: sample.Replace(route.Path)}).PathAt(other)
			return path == "" || other.Host(account, path) == ""
		}) {
			missing = append(missing, "method "+name)
		}
	}
	for _, class := range slices.Sorted(maps.Keys(u.Classes)) {
		if _, has := other.Classes[class]; !has {
			missing = append(missing, "class "+class)
		}
	}
	return missing
}

// sample makes a path of a route: each name stands for itself.
var sample = strings.NewReplacer("{", "", "...}", "", "}", "")

// SpillsTo says where calls go that lack units, of one pool or of any if it is "". It returns "" if they go nowhere.
func (u *Upstream) SpillsTo(pool string) string {
	names := textsOf(u.Spill, func(s Spill) string { return s.String() })
	charges := pool == ""
	for _, m := range u.Methods {
		_, charged := m.Charges[pool]
		charges = charges || charged && len(m.Routes) > 0 && u.maySpill(m)
	}
	switch {
	case !charges:
		return ""
	case u.SpillMethods != nil:
		return list(names, "or") + " (" + list(u.SpillMethods, "and") + " alone)"
	}
	return list(names, "or")
}

// String names where calls go: an upstream, or an account of it.
func (s *Spill) String() string {
	if s.Account == "" {
		return s.Upstream.Name
	}
	return s.Upstream.Name + "@" + s.Account
}
