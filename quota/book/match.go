package book

import (
	"cmp"
	"net/netip"
	"net/url"
	gopath "path"
	"slices"
	"strconv"
	"strings"
)

// Match is what a request turned out to be.
type Match struct {
	Upstream *Upstream // nil: the host is not metered
	Method   *Method   // nil: the upstream is metered, the call has no price
	Route    *Route    // that matched; nil for a call without a method of its own

	host, path string
}

// Segment returns what a {name} of the route stands for, without its escapes; "" if
// the route has no such name.
func (m *Match) Segment(name string) string {
	if m.Route == nil {
		return ""
	}
	template, path := m.Route.Path[1:], m.path[1:]
	for template != "" {
		part, after, _ := strings.Cut(template, "/")
		text, rest, _ := strings.Cut(path, "/")
		inner, suffix, _ := strings.Cut(strings.TrimPrefix(part, "{"), "}")
		tail := strings.TrimSuffix(inner, "...")
		if part[0] == '{' && tail == name {
			if tail != inner {
				text = path
			}
			plain, err := url.PathUnescape(strings.TrimSuffix(text, suffix))
			if err != nil {
				return ""
			}
			return plain
		}
		template, path = after, rest
	}
	return ""
}

// Label returns a label of the host, in lower case; 1 is the first. It returns "" if the
// host has no such label.
func (m *Match) Label(n int) string {
	rest := m.host
	for ; n > 1; n-- {
		_, rest, _ = strings.Cut(rest, ".")
	}
	label, _, _ := strings.Cut(rest, ".")
	return label
}

// Match finds the method that an HTTP request calls. Host may carry a port;
// path is the escaped path, as [net/url.URL.EscapedPath] returns it, without
// the query. An empty verb is GET.
//
// A host that the book lists without a port is metered on every port. A path
// matches a route exactly or not at all: what a lenient server might still take
// for a route ("//", "..", "%2F", a slash at the end) has no price, rather than
// the price of something cheaper. A literal segment wins over a {name}, and a {name}
// over {rest...}. On the same path a verb wins over *. A {name} takes one segment that
// is not empty and has no colon, because "/items/{id}:purge" is another method than
// "/items/{id}".
//
// A {rest...} and the default of an upstream also take a path that is written oddly, if a
// lenient server would take it for nothing else. A path that such a server might take for
// one below the path of a host is metered.
func (b *Book) Match(verb, host, path string) Match {
	if b == nil {
		return Match{}
	}
	t, host := b.route(host, path)
	if t == nil {
		return Match{}
	}
	found := t.lookup(verb, path)
	return Match{Upstream: t.upstream, Method: found.method, Route: found.route, host: host, path: path}
}

// hostPath is what a book meters of a host: all, or what is below a path.
type hostPath struct {
	prefix string // "" or "/path/"
	table  *routeTable
}

// addHost adds an entry of hosts.
func (b *Book) addHost(text string, t *routeTable) {
	host, path := cutPlace(text)
	into := &b.hosts
	if suffix, wild := strings.CutPrefix(host, "*"); wild {
		host, into = suffix, &b.wild
	}
	if *into == nil {
		*into = map[string][]hostPath{}
	}
	all := append((*into)[host], hostPath{path, t})
	slices.SortStableFunc(all, func(a, b hostPath) int { return len(b.prefix) - len(a.prefix) })
	(*into)[host] = all
}

// cutPlace splits an entry of hosts into host and path.
func cutPlace(text string) (host, path string) {
	if i := strings.IndexByte(text, '/'); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// route finds the routes of a host, and its name without the port.
func (b *Book) route(host, path string) (*routeTable, string) {
	if t := pick(b.hosts[host], path); t != nil {
		name, _ := splitPort(host)
		return t, name
	}
	host = strings.ToLower(host) // allocates only where there is something to lower
	name, port := splitPort(host)
	port = strings.TrimLeft(port, "0") // net dials 0443 as 443
	name = plainAddress(strings.TrimSuffix(name, "."))
	if port != "" {
		if t := pick(b.hosts[name+":"+port], path); t != nil {
			return t, name
		}
	}
	if t := pick(b.hosts[name], path); t != nil {
		return t, name
	}
	if dot := strings.IndexByte(name, '.'); dot > 0 && b.wild != nil {
		if port != "" {
			if t := pick(b.wild[name[dot:]+":"+port], path); t != nil {
				return t, name
			}
		}
		return pick(b.wild[name[dot:]], path), name
	}
	return nil, name
}

// pick returns the routes for a path, of the longest path that it is below.
func pick(all []hostPath, path string) *routeTable {
	lenient := ""
	for i := range all {
		p := &all[i]
		if strings.HasPrefix(path, p.prefix) {
			return p.table
		}
		if lenient == "" {
			if lenient = path; !isPlain(path) {
				lenient = leniently(path)
			}
		}
		if n := len(p.prefix) - 1; len(lenient) >= n && strings.EqualFold(lenient[:n], p.prefix[:n]) && (len(lenient) == n || lenient[n] == '/') {
			return p.table
		}
	}
	return nil
}

// isPlain reports whether every server reads a path alike, and nobody has hidden what it
// says.
func isPlain(path string) bool {
	if !strings.HasPrefix(path, "/") {
		return false
	}
	for rest, more := path[1:], path != "/"; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if !isData(part) || strings.IndexByte(part, ';') >= 0 || hidesByte(part) {
			return false
		}
	}
	return true
}

// hidesByte reports whether a segment escapes a byte that needs no escape.
func hidesByte(part string) bool {
	for i := strings.IndexByte(part, '%'); i >= 0; {
		b, err := strconv.ParseUint(part[i+1:i+3], 16, 8)
		if err == nil && isPathByte(byte(b)) {
			return true
		}
		next := strings.IndexByte(part[i+1:], '%')
		if next < 0 {
			return false
		}
		i += 1 + next
	}
	return false
}

// leniently returns the path that a lenient server might read in a path: unescaped as
// often as it can be, with backslashes as slashes, without parameters behind a semicolon,
// and cleaned.
func leniently(text string) string {
	for strings.IndexByte(text, '%') >= 0 {
		plain, err := url.PathUnescape(text)
		if err != nil || plain == text || len(text) > maxLenient {
			break
		}
		text = plain
	}
	parts := strings.Split(strings.ReplaceAll(text, `\`, "/"), "/")
	for i, part := range parts {
		parts[i], _, _ = strings.Cut(part, ";")
	}
	return (&url.URL{Path: gopath.Clean("/" + strings.Join(parts, "/"))}).EscapedPath()
}

// maxLenient bounds the paths that are unescaped repeatedly.
const maxLenient = 1 << 13

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

// badPlace says what is wrong with an entry of hosts.
func badPlace(text string) string {
	host, path := cutPlace(text)
	if path == "" || strings.HasPrefix(path, "//") {
		return badHost(text)
	}
	if why := badHost(host); why != "" {
		return why
	}
	if !strings.HasSuffix(path, "/") || len(path) < 2 || len(path) > 1024 {
		return "has a path that does not end with a slash, or only a slash; write what the calls are below, as in www.example.com/maps/"
	}
	for _, part := range strings.Split(path[1:len(path)-1], "/") {
		if why := badSegment(part); why != "" || strings.Contains(part, "{") {
			return cmp.Or(why, "has braces, which stand for nothing here")
		}
	}
	return ""
}

// badHost says what is wrong with a host of the book.
func badHost(host string) string {
	if suffix, wild := strings.CutPrefix(host, "*."); wild {
		if why := badHost(suffix); why != "" {
			return why
		}
		if name, _ := splitPort(suffix); strings.Trim(name, "0123456789.") == "" || !strings.Contains(name, ".") {
			return "would be too many hosts; write at least two labels behind the *"
		}
		return ""
	}
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
			return "has an invalid port; it must be from 1 to 65535"
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
		if label == "" || len(label) > 63 || strings.Trim(label, "-") != label || strings.Trim(label, lower+digits+"-_") != "" {
			return "is not the name of a host; letters, digits, dots and dashes, with a port behind a colon"
		}
	}
	return ""
}

// routeTable is the routes of an upstream: a tree of segments.
type routeTable struct {
	upstream *Upstream
	root     segment
	defaults map[string]*Method // by verb, or "*"
}

// segment is a place in the tree of paths.
type segment struct {
	literal map[string]*segment
	suffix  map[string]*segment // {name}:suffix
	any     *segment            // {name}
	rest    *segment            // {name...}
	targets map[string]target   // of routes that end here, by verb
}

// target is where a route leads.
type target struct {
	method *Method
	route  *Route
}

// end is a place in the tree where a route ends, and its verb.
type end struct {
	at   *segment
	verb string
}

func (e end) add(t target) {
	if e.at.targets == nil {
		e.at.targets = map[string]target{}
	}
	e.at.targets[e.verb] = t
}

// segment returns the place where a route ends.
func (t *routeTable) segment(r Route) *segment {
	s := &t.root
	for _, part := range strings.Split(r.Path[1:], "/") {
		s = s.child(part)
	}
	return s
}

// lookup finds what a request leads to.
func (t *routeTable) lookup(verb, path string) target {
	if verb == "" {
		verb = "GET"
	}
	if !strings.HasPrefix(path, "/") || verb == anyName {
		return target{}
	}
	found := t.root.find(verb, path[1:])
	if found.method == nil {
		found = t.byDefault(verb)
	}
	if found.method == nil || found.route != nil && !strings.HasSuffix(found.route.Path, "...}") || isPlain(path) {
		return found
	}
	// the tail and the default take anything, so what is odd must be nothing else
	meant := leniently(path)
	if !isPlain(meant) || strings.ContainsAny(path, "?#") {
		return target{}
	}
	again := t.root.find(verb, meant[1:])
	if again.method == nil {
		again = t.byDefault(verb)
	}
	if again == found || again.method == nil && path == meant+"/" {
		return found
	}
	return target{}
}

// byDefault returns the default of a verb.
func (t *routeTable) byDefault(verb string) target {
	m := t.defaults[verb]
	if m == nil && isVerb(verb) {
		m = t.defaults[anyName]
	}
	return target{method: m}
}

// child returns the place behind a segment of a template.
func (s *segment) child(part string) *segment {
	kids, key := &s.literal, part
	if strings.HasSuffix(part, "...}") {
		if s.rest == nil {
			s.rest = &segment{}
		}
		return s.rest
	}
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

// find returns where the rest of a path leads. It never visits a place of the tree
// twice.
func (s *segment) find(verb, rest string) target {
	part, after, more := strings.Cut(rest, "/")
	try := func(next *segment) target {
		switch {
		case next == nil:
			return target{}
		case more:
			return next.find(verb, after)
		}
		return next.target(verb)
	}
	if t := try(s.literal[part]); t.method != nil {
		return t
	}
	if s.suffix != nil {
		if name, custom, ok := strings.Cut(part, ":"); ok && isName(name) {
			if t := try(s.suffix[custom]); t.method != nil {
				return t
			}
		}
	}
	if s.any != nil && isName(part) {
		if t := try(s.any); t.method != nil {
			return t
		}
	}
	if s.rest != nil {
		return s.rest.target(verb)
	}
	return target{}
}

// target returns what a verb leads to here.
func (s *segment) target(verb string) target {
	t, ok := s.targets[verb]
	if !ok && isVerb(verb) {
		t = s.targets[anyName]
	}
	return t
}

// isName says whether a {name} may stand for an escaped segment: one that every server
// reads as a single piece of data, and without a colon.
func isName(part string) bool { return strings.IndexByte(part, ':') < 0 && isData(part) }

// isData says whether every server reads an escaped segment as a single piece of data.
func isData(part string) bool {
	dots := true // also of the empty one
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c == '%' {
			b, err := strconv.ParseUint(part[i+1:min(i+3, len(part))], 16, 8)
			if c = byte(b); err != nil || i+2 >= len(part) || c == '/' || c == '\\' || c == '%' || c < ' ' {
				return false
			}
			i += 2
		} else if !isPathByte(c) {
			return false
		}
		dots = dots && c == '.'
	}
	return !dots
}

// isPathByte holds for what may stand unescaped in a segment, by RFC 3986.
func isPathByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0
}
