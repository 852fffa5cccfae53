package book

import (
	"fmt"
	"net/url"
	"slices"
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
	parts := strings.Split(r.Path, "/")
	for i, part := range parts {
		inner, suffix, named := strings.Cut(strings.TrimPrefix(part, "{"), "}")
		if !named {
			continue
		}
		name := strings.TrimSuffix(inner, "...")
		text, has := value(name)
		if !has {
			return "", name
		}
		if parts[i] = url.PathEscape(text) + suffix; name != inner { // a tail, whose slashes stay
			parts[i] = strings.ReplaceAll(parts[i], "%2F", "/")
		}
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
