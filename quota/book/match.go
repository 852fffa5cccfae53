package book

import (
	"net/netip"
	"strconv"
	"strings"
)

// Match is what a request turned out to be.
type Match struct {
	Upstream *Upstream // nil: the host is not metered
	Method   *Method   // nil: the upstream is metered, the call has no price
}

// Match finds the method that an HTTP request calls. Host may carry a port;
// path is the escaped path, as [net/url.URL.EscapedPath] returns it, without
// the query. An empty verb is GET.
//
// A host that the book lists without a port is metered on every port. A path
// matches a route exactly or not at all: what a lenient server might still take
// for a route ("//", "..", "%2F", a slash at the end) has no price, rather than
// the price of something cheaper. A literal segment wins over a {name}, and a
// {name} takes one segment that is not empty and has no colon, because
// "/items/{id}:purge" is another method than "/items/{id}".
func (b *Book) Match(verb, host, path string) Match {
	if b == nil {
		return Match{}
	}
	t := b.route(host)
	if t == nil {
		return Match{}
	}
	if verb == "" {
		verb = "GET"
	}
	m := Match{Upstream: t.upstream}
	if root := t.verbs[verb]; root != nil && strings.HasPrefix(path, "/") {
		m.Method = root.find(path[1:])
	}
	return m
}

// route finds the routes of a host.
func (b *Book) route(host string) *routeTable {
	if t := b.hosts[host]; t != nil {
		return t
	}
	host = strings.ToLower(host) // allocates only where there is something to lower
	name, port := splitPort(host)
	port = strings.TrimLeft(port, "0") // net dials 0443 as 443
	name = plainAddress(strings.TrimSuffix(name, "."))
	if port != "" {
		if t := b.hosts[name+":"+port]; t != nil {
			return t
		}
	}
	return b.hosts[name]
}

// splitPort splits a port off; an IPv6 address keeps its brackets.
func splitPort(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		return host[:i], host[i+1:]
	}
	return host, ""
}

// plainAddress is the one spelling of an IPv6 address in brackets, or of the IPv4
// address that it stands for. Other names it leaves as they are.
func plainAddress(name string) string {
	inner, ok := strings.CutPrefix(name, "[")
	if !ok {
		return name
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
	if err != nil {
		return name
	}
	if a = a.WithZone("").Unmap(); a.Is4() {
		return a.String()
	}
	return "[" + a.String() + "]"
}

// badHost says what is wrong with a host of the book.
func badHost(host string) string {
	name, port := splitPort(host)
	switch {
	case strings.Contains(host, "/"):
		return "must be a host alone, without scheme and path"
	case host != strings.ToLower(host):
		return "must be written in lower case"
	case name == "" || len(name) > 253:
		return "is not the name of a host"
	}
	if name != host {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return "has a port that is none; it must be from 1 to 65535"
		}
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || !a.Is6() || a.Zone() != "" || !strings.HasSuffix(inner, "]") {
			return "is not an IPv6 address in brackets"
		}
		if plain := plainAddress(name); plain != name {
			return "must be written as " + plain
		}
		return ""
	}
	for _, label := range strings.Split(name, ".") {
		ok := label != "" && len(label) <= 63 && label[0] != '-' && label[len(label)-1] != '-'
		for i := 0; i < len(label); i++ {
			c := label[i]
			ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_')
		}
		if !ok {
			return "is not the name of a host; letters, digits, dots and dashes, with a port behind a colon"
		}
	}
	return ""
}

// routeTable is the routes of an upstream: a tree of segments for each verb.
type routeTable struct {
	upstream *Upstream
	verbs    map[string]*segment
}

// segment is a place in the tree of paths.
type segment struct {
	literal map[string]*segment
	suffix  map[string]*segment // {name}:suffix
	any     *segment            // {name}
	method  *Method             // of a route that ends here
}

func (t *routeTable) add(r Route, m *Method) {
	if t.verbs == nil {
		t.verbs = map[string]*segment{}
	}
	s := t.verbs[r.Verb]
	if s == nil {
		s = &segment{}
		t.verbs[r.Verb] = s
	}
	for _, part := range strings.Split(r.Path[1:], "/") {
		s = s.child(part)
	}
	s.method = m
}

// child returns the place behind a segment of a template.
func (s *segment) child(part string) *segment {
	kids, key := &s.literal, part
	if strings.HasPrefix(part, "{") {
		_, after, _ := strings.Cut(part, "}")
		if after == "" {
			if s.any == nil {
				s.any = &segment{}
			}
			return s.any
		}
		kids, key = &s.suffix, after[1:]
	}
	if *kids == nil {
		*kids = map[string]*segment{}
	}
	if (*kids)[key] == nil {
		(*kids)[key] = &segment{}
	}
	return (*kids)[key]
}

// find returns the method whose route is the rest of a path, or nil. It never
// visits a place of the tree twice.
func (s *segment) find(rest string) *Method {
	part, after, more := strings.Cut(rest, "/")
	try := func(next *segment) *Method {
		switch {
		case next == nil:
			return nil
		case more:
			return next.find(after)
		}
		return next.method
	}
	if m := try(s.literal[part]); m != nil {
		return m
	}
	if s.suffix != nil {
		if name, verb, ok := strings.Cut(part, ":"); ok && isName(name) {
			if m := try(s.suffix[verb]); m != nil {
				return m
			}
		}
	}
	if s.any != nil && isName(part) {
		return try(s.any)
	}
	return nil
}

// isName says whether a {name} may stand for an escaped segment: one that every
// server reads as a single piece of data.
func isName(part string) bool {
	dots := true // also of the empty one
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c == '%' {
			if i+2 >= len(part) || !isHex(part[i+1]) || !isHex(part[i+2]) {
				return false
			}
			c = unhex(part[i+1])<<4 | unhex(part[i+2])
			if c == '/' || c == '\\' || c == '%' || c < ' ' {
				return false
			}
			i += 2
		} else if !isPathByte(c) || c == ':' {
			return false
		}
		dots = dots && c == '.'
	}
	return !dots
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// isPathByte holds for what may stand unescaped in a segment, by RFC 3986.
func isPathByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0
}
