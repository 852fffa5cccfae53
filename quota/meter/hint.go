package meter

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota/book"
)

// hint says how to fix a request without a price: correct the request, or add a line to
// the price book.
func hint(c *call) string {
	if plain, err := url.PathUnescape(c.path); err == nil {
		// what a lenient server would take it for
		clean := (&url.URL{Path: path.Clean("/" + plain)}).EscapedPath()
		if m := c.upstream.Find(c.verb, clean); m != nil && clean != c.path {
			return fmt.Sprintf("did you mean %s %s, which is %s? send exactly that", c.verb, clean, m.Name)
		}
	}
	where, line, ok := bookLine(c.upstream, c.verb, c.path)
	if !ok {
		return "no route of a price book is like it; send a plain path, and the verb in capitals"
	}
	return fmt.Sprintf("if it is meant, add this to %s in costs.yaml, with what it costs: %s", where, line)
}

// bookLine returns the line of a price book that would price a request, and where to put
// it. It returns false if no line can.
func bookLine(u *book.Upstream, verb, sent string) (where, line string, ok bool) {
	name := "root"
	parts := strings.Split(sent, "/")
	for i, part := range parts {
		switch {
		case part == "":
		case strings.ContainsFunc(part, func(c rune) bool { return !isPlain(c) && c != ':' }):
			parts[i] = "{id}" // data, not a name
		default:
			name = strings.Trim(strings.ReplaceAll(part, ":", "."), ".")
		}
	}
	name = name[:min(len(name), 40)] + "." + strings.ToLower(verb)
	for n, first := 2, name; u.Methods[name] != nil; n++ {
		name = fmt.Sprint(first, n)
	}
	pool := strictyaml.Quoted(commonPool(u))
	routes := []string{strings.Join(parts, "/")}
	for end := len(parts) - 1; end >= 2 && parts[1] != "{id}"; end-- { // all that begins alike
		routes = append(routes, strings.Join(parts[:end], "/")+"/{rest...}")
	}
	for _, route := range routes {
		line := fmt.Sprintf("%s: {route: %q, pool: %s, cost: 1}", name, verb+" "+route, pool)
		if prices("methods: {"+line+"}", pool, verb, sent) {
			return "the methods of " + u.Name, line, true
		}
	}
	line = fmt.Sprintf("default: {%s: {pool: %s, cost: 1}}", strictyaml.Quoted(verb), pool)
	return u.Name, line, u.Default == nil && prices(line, pool, verb, sent)
}

// prices reports whether a key of an upstream prices a request.
func prices(key, pool, verb, sent string) bool {
	b, err := book.Parse("line", fmt.Appendf(nil, trial, pool, key), nil)
	return err == nil && b.Match(verb, "trial", sent).Method != nil
}

// trial is a price book to try a line in.
const trial = `{revision: 1, upstreams: {trial: {hosts: [trial], pools: {%s: {quota: 1, windows: [{per: 1h}]}}, %s}}}`

// isPlain reports whether a character can be in the name of a method.
func isPlain(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_'
}

func commonPool(u *book.Upstream) string {
	by := map[string]int{}
	for pool := range u.Pools {
		by[pool] = 0
	}
	for _, m := range u.Methods {
		for pool := range m.Charges {
			by[pool]++
		}
	}
	names := slices.Collect(maps.Keys(by))
	if len(names) == 0 {
		return "units"
	}
	return slices.MinFunc(names, func(a, b string) int { return cmp.Or(by[b]-by[a], strings.Compare(a, b)) })
}
