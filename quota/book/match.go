package book

import (
	"net/url"
	gopath "path"
	"strconv"
	"strings"
)

// Match is what a request turned out to be.
type Match struct {
	Upstream *Upstream // nil: the host is not metered
	Method   *Method   // nil: the upstream is metered, the call has no price
	Route    *Route    // that matched; nil for a call without a method of its own

	book        *Book
	verb, asked string // asked is the host as it was given
	host, path  string
}

// TakesAny reports whether the match may be of any path: it has no price, the default one, or that of a tail.
func (m *Match) TakesAny() bool { return m.Route == nil || strings.HasSuffix(m.Route.Path, "...}") }

// Segment returns what a {name} of the route stands for, without its escapes. It returns false
// if the route has no such name.
func (m *Match) Segment(name string) (string, bool) {
	text, has := m.escaped(name)
	plain, err := url.PathUnescape(text)
	return plain, has && err == nil
}

// escaped is Segment as the path has it.
func (m *Match) escaped(name string) (string, bool) {
	if m.Route == nil {
		return "", false
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
			return strings.TrimSuffix(text, suffix), true
		}
		template, path = after, rest
	}
	return "", false
}

// Label returns a label of the host, in lower case; 1 is the first. It returns "" if the
// host has no such label.
func (m *Match) Label(n int) string {
	rest, _ := splitPort(m.host)
	for ; n > 1; n-- {
		_, rest, _ = strings.Cut(rest, ".")
	}
	label, _, _ := strings.Cut(rest, ".")
	return label
}

// Match finds the method that an HTTP request calls. The host that was asked for may carry a port;
// path is the escaped path, as [net/url.URL.EscapedPath] returns it, without
// the query. An empty verb is GET.
//
// A host that the book lists without a port is metered on every port. A path
// matches a route exactly or not at all: what a lenient server might still take
// for a route ("//", "..", a slash at the end) has no price, rather than
// the price of something cheaper. "%2F" is accepted if the path means the same method
// whether a server reads it as a slash or as data of a segment. A literal segment wins over a {name}, and a {name}
// over {rest...}. On the same path a verb wins over *. A {name} takes one segment that
// is not empty and has no colon, because "/items/{id}:purge" is another method than
// "/items/{id}".
//
// A {rest...} and the default of an upstream also take a path that is written oddly, if a
// lenient server would take it for nothing else. A path that such a server might take for
// one below the path of a host is metered.
func (b *Book) Match(verb, asked, path string) Match {
	if b == nil {
		return Match{}
	}
	t, host := b.route(asked, path)
	if t == nil {
		return Match{}
	}
	found := t.lookup(verb, path)
	return Match{Upstream: t.upstream, Method: found.method, Route: found.route, book: b, verb: verb, asked: asked, host: host, path: path}
}

// MatchAgain is Match for a request that may have been matched before. If m is of this book and
// request, it is the result.
func (b *Book) MatchAgain(m *Match, verb, host, path string) Match {
	if m != nil && m.book == b && m.Upstream != nil && m.verb == verb && m.asked == host && m.path == path {
		return *m
	}
	return b.Match(verb, host, path)
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
		if data, hides := readData(part); !data || hides || strings.IndexByte(part, ';') >= 0 {
			return false
		}
	}
	return true
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

// routeTable is the routes of an upstream: a tree of segments.
type routeTable struct {
	upstream *Upstream
	root     segment
	literal  map[string]*segment // paths without a {name}: nothing wins over them
	defaults map[string]*Method  // by verb, or "*"
}

// segment is a place in the tree of paths.
type segment struct {
	literal map[string]*segment
	suffix  map[string]*segment // {name}:suffix
	any     *segment            // {name}
	rest    *segment            // {name...}
	targets []target            // of routes that end here: one for each verb
}

// target is where a route leads.
type target struct {
	verb   string // "" for the default of an upstream
	method *Method
	route  *Route
	given  *string // the route in the book
}

// exact reports whether a target is a route that takes no tail.
func (t target) exact() bool { return t.route != nil && !strings.HasSuffix(t.route.Path, "...}") }

// segment returns the place where a route ends.
func (t *routeTable) segment(r Route) *segment {
	s := &t.root
	for _, part := range strings.Split(r.Path[1:], "/") {
		s = s.child(part)
	}
	if !strings.Contains(r.Path, "{") {
		t.literal[r.Path] = s
	}
	return s
}

func (t *routeTable) lookup(verb, path string) target {
	if verb == "" {
		verb = "GET"
	}
	if !strings.HasPrefix(path, "/") || verb == anyName {
		return target{}
	}
	if s := t.literal[path]; s != nil {
		if found := s.target(verb); found.method != nil {
			return found
		}
	}
	found := t.read(verb, path)
	if found.exact() || isPlain(path) {
		return found
	}
	if split := splitSlashes.Replace(path); split != path {
		named, parts := t.read(verb, dashSlashes.Replace(path)), t.read(verb, split)
		if named.method != parts.method {
			return target{}
		}
		if named.exact() && parts.exact() {
			return named
		}
	}
	// the tail and the default take anything, so what is odd must be nothing else
	meant := leniently(path)
	if !isPlain(meant) || strings.ContainsAny(path, "?#") {
		return target{}
	}
	again := t.read(verb, meant)
	if again == found || again.method == nil && path == meant+"/" {
		return found
	}
	return target{}
}

// Servers read an escaped slash as a slash, or as data in a segment, as a dash is.
var splitSlashes, dashSlashes = strings.NewReplacer("%2F", "/", "%2f", "/"), strings.NewReplacer("%2F", "-", "%2f", "-")

// read returns where a path leads, or the default.
func (t *routeTable) read(verb, path string) target {
	if found := t.root.find(verb, path[1:]); found.method != nil {
		return found
	}
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
	var any target
	for _, t := range s.targets {
		if t.verb == verb {
			return t
		}
		if t.verb == anyName {
			any = t
		}
	}
	if any.method != nil && isVerb(verb) {
		return any
	}
	return target{}
}

// isName says whether a {name} may stand for an escaped segment: one that every server
// reads as a single piece of data, and without a colon.
func isName(part string) bool {
	data, _ := readData(part)
	return data && strings.IndexByte(part, ':') < 0
}

// readData says whether every server reads an escaped segment as a single piece of data, and
// whether the segment escapes a byte that needs no escape.
func readData(part string) (data, hides bool) {
	dots := true // also of the empty one
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c == '%' {
			b, err := strconv.ParseUint(part[i+1:min(i+3, len(part))], 16, 8)
			if c = byte(b); err != nil || i+2 >= len(part) || c == '/' || c == '\\' || c == '%' || c < ' ' {
				return false, false
			}
			hides = hides || isPathByte(c)
			i += 2
		} else if !isPathByte(c) {
			return false, false
		}
		dots = dots && c == '.'
	}
	return !dots, hides
}

// isPathByte holds for what may stand unescaped in a segment, by RFC 3986.
func isPathByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0
}
