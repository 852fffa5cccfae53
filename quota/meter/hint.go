package meter

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// hint says how to fix a request without a price: correct the request, or add a line to
// the price book.
func hint(costs *quota.Book, c *call) string {
	if plain, err := url.PathUnescape(c.path); err == nil {
		// what a lenient server would take it for
		clean := (&url.URL{Path: path.Clean("/" + plain)}).EscapedPath()
		if m := costs.Match(c.verb, c.upstream.Hosts[0], clean); m.Method != nil {
			return fmt.Sprintf("did you mean %s %s, which is %s? send exactly that", c.verb, clean, m.Method.Name)
		}
	}
	line, ok := bookLine(c.upstream, c.verb, c.path)
	if !ok {
		return "no route of a price book is like it; send a plain path"
	}
	return fmt.Sprintf("if it is meant, add this to the methods of %s in costs.yaml, with what it costs: %s", c.upstream.Name, line)
}

// bookLine returns the line of a price book that would price a request. It returns false
// if no line can.
func bookLine(u *book.Upstream, verb, sent string) (string, bool) {
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
	pool := commonPool(u)
	line := fmt.Sprintf("%s: {route: %q, pool: %s, cost: 1}", name, verb+" "+strings.Join(parts, "/"), pool)
	b, err := book.Parse("line", fmt.Appendf(nil, trial, pool, line), nil)
	return line, err == nil && b.Match(verb, "trial", sent).Method != nil
}

// trial is a price book to try a line in.
const trial = `{revision: 1, upstreams: {trial: {hosts: [trial], pools: {%s: {quota: 1, windows: [{per: 1h}]}}, methods: {%s}}}}`

// isPlain reports whether a character can be in the name of a method.
func isPlain(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_'
}

// commonPool returns the pool that most methods charge.
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
