package book

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/quota/book/keys"
)

// Route is how a method looks in HTTP: a verb and a path template such as
// "/youtube/v3/captions/{id}".
type Route struct {
	Verb string
	Path string
}

// String is how the price book writes it: "GET /youtube/v3/captions/{id}".
func (r Route) String() string { return r.Verb + " " + r.Path }

// Fill returns the path with its names filled in, or the first name for which value has nothing.
func (r Route) Fill(value func(name string) (string, bool)) (path, missing string) {
	return r.fill(func(name string, tail bool) (string, bool) {
		text, has := value(name)
		if text = url.PathEscape(text); tail { // its slashes stay
			text = strings.ReplaceAll(text, "%2F", "/")
		}
		return text, has
	})
}

// fill is Fill with values that are escaped.
func (r Route) fill(value func(name string, tail bool) (string, bool)) (path, missing string) {
	parts := strings.Split(r.Path, "/")
	for i, part := range parts {
		inner, suffix, named := strings.Cut(strings.TrimPrefix(part, "{"), "}")
		if !named {
			continue
		}
		name := strings.TrimSuffix(inner, "...")
		text, has := value(name, name != inner)
		if !has {
			return "", name
		}
		parts[i] = text + suffix
	}
	return strings.Join(parts, "/"), ""
}

// routes makes the routes of a method. Two that differ in the names in their braces end in one
// place of the table.
func (r *reader) routes(m *Method, d *keys.Method, table *routeTable) {
	for i := range d.Route {
		text := &d.Route[i]
		if !r.sound(text) {
			continue
		}
		route, why := parseRoute(*text)
		if why != "" {
			r.fault(r.place(text), "route %q of method %q %s", *text, m.Name, why)
			continue
		}
		m.Routes = append(m.Routes, route)
		end := table.segment(route)
		if i := slices.IndexFunc(end.targets, func(t target) bool { return t.verb == route.Verb }); i >= 0 {
			at, other := r.twice(text, end.targets[i].given)
			r.fault(at, "route %q of method %q is given twice, the other time at %s; a request can have one price only", *text, m.Name, other)
			continue
		}
		end.targets = append(end.targets, target{route.Verb, m, &route, text})
	}
}

// parseRoute reads "GET /path/{name}", or says what is wrong with it.
func parseRoute(text string) (r Route, why string) {
	verb, path, ok := strings.Cut(text, " ")
	if !ok || !strings.HasPrefix(path, "/") {
		return r, `must be a verb and a path, as in "GET /v3/videos"`
	}
	if badVerb(verb) != "" {
		return r, "must begin with a verb in capitals, as in GET, or with * for any"
	}
	if len(path) > 1024 {
		return r, "is longer than 1024 bytes"
	}
	if path == "/" {
		return Route{verb, path}, ""
	}
	parts := strings.Split(path[1:], "/")
	for i, part := range parts {
		if name, tail := strings.CutSuffix(part, "...}"); tail && i == len(parts)-1 {
			part = name + "}"
		}
		if strings.Contains(part, "...}") {
			return r, fmt.Sprintf("has %q before its end; a tail is the last segment", part)
		}
		if why := badSegment(part); why != "" {
			return r, why
		}
	}
	return Route{verb, path}, ""
}

func badVerb(verb string) string {
	if verb != anyName && !isVerb(verb) {
		return "must be a verb in capitals, as in GET, or * for any"
	}
	return ""
}

// isVerb holds for a verb that every server reads alike.
func isVerb(verb string) bool {
	return verb != "" && len(verb) <= 16 && strings.Trim(verb, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

func badSegment(part string) string {
	name, after, closed := strings.Cut(part, "}")
	if open := strings.HasPrefix(part, "{"); open || closed || strings.Contains(part, "{") {
		switch {
		case !open || !closed || strings.ContainsAny(after, "{}"):
			return "has braces that are not a whole segment, as in /{id} or /{id}:verb"
		case wideName(name[1:]) != "":
			return fmt.Sprintf("has a bad name in %q", part)
		case after == "":
			return ""
		case after[0] != ':' || len(after) == 1 || wideName(after[1:]) != "":
			return "has braces that are not a whole segment, as in /{id} or /{id}:verb"
		}
		return ""
	}
	switch part {
	case "":
		return "has an empty segment; remove the double or last slash"
	case ".", "..":
		return fmt.Sprintf("has a segment %q, which no request keeps", part)
	}
	for i := 0; i < len(part); i++ {
		switch c := part[i]; {
		case c == '?' || c == '#':
			return fmt.Sprintf("has a %q; a route is a path without query and fragment", c)
		case !isPathByte(c):
			return fmt.Sprintf("has a %q, which a path does not hold unescaped", rune(c))
		}
	}
	return ""
}

// hostPath is what a book meters of a host: all, or what is below a path.
type hostPath struct {
	prefix string // "" or "/path/"
	table  *routeTable
}

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

func cutPlace(text string) (host, path string) {
	if i := strings.IndexByte(text, '/'); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// route finds the routes of a host, and its name, which may have the port.
func (b *Book) route(host, path string) (*routeTable, string) {
	if t := pick(b.hosts[host], path); t != nil {
		return t, host
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
