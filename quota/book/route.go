package book

import (
	"fmt"
	"strings"
)

// Route is how a method looks in HTTP: a verb and a path template such as
// "/youtube/v3/captions/{id}".
type Route struct {
	Verb string
	Path string
}

// String is how the price book writes it: "GET /youtube/v3/captions/{id}".
func (r Route) String() string { return r.Verb + " " + r.Path }

// shape is the route without the names in its braces: two routes of one shape
// are the same.
func (r Route) shape() string {
	var s strings.Builder
	s.WriteString(r.Verb)
	s.WriteByte(' ')
	in := false
	for _, c := range r.Path {
		if in = in && c != '}'; !in {
			s.WriteRune(c)
		}
		in = in || c == '{'
	}
	return s.String()
}

// routes reads how a method looks in HTTP.
func (r *reader) routes(e entry, m *Method, table *routeTable, given map[string]place) {
	for _, t := range r.texts(e.value.get("route"), "route") {
		route, why := parseRoute(t.text)
		if why != "" {
			r.fault(t.at, "route %q of method %q %s", t.text, e.key, why)
			continue
		}
		m.Routes = append(m.Routes, route)
		shape := route.shape()
		if first, dup := given[shape]; dup {
			r.fault(r.blame(t.at, first), "route %q of method %q is given twice, the other time at %s; a request can have one price only",
				t.text, e.key, r.other(t.at, first))
			continue
		}
		given[shape] = t.at
		table.add(route, m)
	}
}

// parseRoute reads "GET /path/{name}", or says what is wrong with it.
func parseRoute(text string) (r Route, why string) {
	verb, path, ok := strings.Cut(text, " ")
	if !ok || !strings.HasPrefix(path, "/") {
		return r, `must be a verb and a path, as in "GET /v3/videos"`
	}
	if verb == "" || len(verb) > 16 || strings.Trim(verb, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return r, "must begin with a verb in capitals, as in GET"
	}
	if len(path) > 1024 {
		return r, "is longer than 1024 bytes"
	}
	if path == "/" {
		return Route{verb, path}, ""
	}
	for _, part := range strings.Split(path[1:], "/") {
		if why := badSegment(part); why != "" {
			return r, why
		}
	}
	return Route{verb, path}, ""
}

// badSegment says what is wrong with a segment of a path template.
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
