package draft

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/record"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota/book"
)

// line is a line of the book, and where it comes from.
type line struct{ text, from string }

// Book writes the book, and returns what a person must know about it. Both are the same each time.
func (d *Draft) Book() (text string, notes []string) {
	hosts := slices.Sorted(maps.Keys(d.upstreams))
	if len(d.homeless) > 0 && len(hosts) > 0 {
		u := d.upstreams[hosts[0]]
		u.limits = append(u.limits, d.homeless...)
		if len(hosts) > 1 {
			d.note("%s names no host; its limits are drafted for %s", d.homeless[0].from, hosts[0])
		}
	}
	w := &writer{}
	names := map[string]bool{}
	for _, host := range hosts {
		u := d.upstreams[host]
		name := clean(nameOf(host), "api")
		for n := 2; names[name]; n++ {
			name = fmt.Sprintf("%s%d", clean(nameOf(host), "api"), n)
		}
		names[name] = true
		w.upstream(name, u)
		for _, n := range u.notes {
			d.notes = append(d.notes, host+": "+n)
		}
	}
	var head strings.Builder
	head.WriteString("# A draft, from what others wrote and from recorded calls. Compare each line with the documentation\n# of the API, and try it with ingestor costs try. Then remove mode: observe, and these comments.\n")
	for _, n := range d.notes {
		head.WriteString("# - " + strings.Map(printable, n) + "\n")
	}
	return head.String() + "revision: 1\nupstreams:\n" + w.text.String(), d.notes
}

type writer struct{ text strings.Builder }

func (w *writer) put(indent int, text, from string) {
	w.text.WriteString(strings.Repeat("  ", indent) + text)
	if from != "" {
		w.text.WriteString("  # " + strings.Map(printable, from))
	}
	w.text.WriteByte('\n')
}

// printable keeps a comment on its line.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
		return ' '
	}
	return r
}

var notName = pattern.Of(`[^A-Za-z0-9._-]+`)

func clean(text, otherwise string) string {
	text = strings.Trim(notName().ReplaceAllString(text, "-"), "-._")
	return cmp.Or(text[:min(len(text), 60)], otherwise)
}

func (w *writer) upstream(name string, u *upstream) {
	u.sortRoutes()
	u.nameRoutes()
	pools := u.pools()
	from := strings.Join(u.from, ", ")
	w.put(1, fmt.Sprintf("%q:", name), from)
	w.put(2, "mode: observe", "until you have checked this draft: calls are counted, and none is refused")
	w.put(2, fmt.Sprintf("hosts: [%q]", u.host), from)
	switch {
	case u.key.header != "" && u.key.query != "":
		w.put(2, fmt.Sprintf("api_key: {header: %q, query: %q}", u.key.header, u.key.query), u.key.from)
	case u.key.header != "":
		w.put(2, fmt.Sprintf("api_key: {header: %q}", u.key.header), u.key.from)
	case u.key.query != "":
		w.put(2, fmt.Sprintf("# api_key: {header: NAME, query: %q}", u.key.query), u.key.from+"; look up which header may have the key in its place")
	default:
		w.put(2, "# api_key: {header: NAME}", "no source says where a key stands")
	}
	w.put(2, "pools:", "")
	for _, p := range pools {
		w.put(3, p.name+":", "")
		if len(p.windows) == 0 {
			w.put(4, "quota: {learn: {}}", "no source says a limit; write it if you know it, or it is learned from refusals without mode: observe")
			continue
		}
		if p.keys != nil {
			w.put(4, "by: {call: method}", "answers tell another limit at another route")
		}
		w.put(4, "windows:", "")
		for _, l := range p.windows[:min(len(p.windows), book.MaxWindows)] {
			w.put(5, "- "+l.text, l.from)
		}
		if p.keys == nil {
			continue
		}
		w.put(4, "keys:", "")
		for _, key := range slices.Sorted(maps.Keys(u.routes)) {
			r := u.routes[key]
			var texts, from []string
			for _, l := range p.keys[r] {
				texts, from = append(texts, l.text), append(from, l.from)
			}
			if len(texts) > 0 {
				w.put(5, fmt.Sprintf("%q: {windows: [%s]}", r.name, strings.Join(texts, ", ")), strings.Join(from, "; "))
			}
		}
	}
	w.feedback(pools)
	w.refusals(u, pools)
	w.methods(u, pools)
}

func (w *writer) feedback(pools []*pool) {
	var lines []line
	standard := false
	for _, p := range pools {
		for _, s := range p.told {
			in, n := map[string]string{}, 0
			for _, pt := range s.points {
				if pt.standard {
					standard = true
					continue
				}
				maps.Copy(in, pt.in)
				n++
			}
			if n == 0 {
				continue
			}
			if in["remaining"] != "" {
				delete(in, "used")
			}
			text := "pool: " + p.name
			if others := func(o *pool) bool { return o != p && len(o.told) > 0 && o.told[0].points[0].in["pool"] != "" }; in["pool"] != "" && slices.ContainsFunc(pools, others) {
				text = "pool: " + in["pool"] // the same headers tell about several
			}
			if len(p.told) > 1 {
				text += ", per: " + strictyaml.Duration(s.window.per)
			}
			for _, key := range []string{"limit", "remaining", "used", "reset"} {
				if in[key] != "" && !(key == "reset" && s.window.moves) {
					text += ", " + key + ": " + in[key]
				}
			}
			if s.window.moves {
				text += ", refills: true"
			}
			if text = "- {" + text + "}"; slices.ContainsFunc(lines, func(l line) bool { return l.text == text }) {
				continue
			}
			lines = append(lines, line{text, fmt.Sprintf("%s: %d answers have it", s.points[0].call.from, n)})
		}
	}
	if standard {
		lines = append(lines, line{"- ietf", "answers have the standard fields RateLimit or RateLimit-Policy"})
	}
	if len(lines) > 0 {
		w.put(2, "feedback:", "")
	}
	for _, l := range lines {
		w.put(3, l.text, l.from)
	}
}

func (w *writer) refusals(u *upstream, pools []*pool) {
	lines := map[string]string{}
	for _, c := range u.calls {
		if c.Status == http.StatusUnauthorized {
			lines["- {status: 401, credential: true}"] = c.from + ": seen"
		}
		for _, member := range []string{"errors.0.extensions.code", "errors.0.type"} {
			if text := c.Body[member]; c.Status == http.StatusOK && (strings.Contains(text, "THROTTLED") || strings.Contains(text, "RATE") && strings.Contains(text, "LIMITED")) {
				lines[fmt.Sprintf("- {status: 200, body: %q, for: 1s}", text)] = c.from + ": seen in an answer with status 200"
			}
		}
	}
	for _, c := range u.refused() {
		delete(u.refusals, c.Status)
		text, from := fmt.Sprintf("- {status: %d, for: 30s}", c.Status), "seen, without a time"
		switch after := c.Header["Retry-After"]; {
		case after != "":
			from = "seen, with Retry-After: " + after + ", which takes precedence"
			if c.Status != http.StatusTooManyRequests {
				text = fmt.Sprintf("- {status: %d, header: Retry-After, for: 30s}", c.Status)
			}
		case c.Status == http.StatusTooManyRequests:
			text = "- {status: 429, " + again(pools) + "}"
		default:
			for _, p := range pointsOf(c.Exchange) {
				if in, name := p.in["reset"], strings.TrimSuffix(strings.TrimPrefix(p.in["remaining"], "{header: "), "}"); in != "" && p.remaining <= 0 && headerName().MatchString(name) {
					text, from = fmt.Sprintf("- {status: %d, header: {%s: 0}, until: %s}", c.Status, name, in), "seen"
				}
			}
		}
		if lines[text] == "" {
			lines[text] = c.from + ": " + from
		}
	}
	for _, status := range slices.Sorted(maps.Keys(u.refusals)) {
		lines[fmt.Sprintf("- {status: %d, for: 30s}", status)] = u.refusals[status] + "; look up for how long"
	}
	if !strings.Contains(strings.Join(slices.Collect(maps.Keys(lines)), ""), "status: 429") {
		const unseen = "not seen; look up what a refusal looks like"
		lines["- {status: [403, 429, 503], header: Retry-After, for: 30s}"] = unseen
		lines["- {status: 429, "+again(pools)+"}"] = unseen
	}
	w.put(2, "refusals:", "")
	for _, text := range slices.SortedFunc(maps.Keys(lines), func(a, b string) int { // those with a condition first, and those whose answer must have a time
		return cmp.Or(cmp.Compare(strings.Count(b, ", header: "), strings.Count(a, ", header: ")), cmp.Compare(strings.Count(b, "until: "), strings.Count(a, "until: ")), cmp.Compare(a, b))
	}) {
		w.put(3, text, lines[text])
	}
}

// again says when calls may pass after a refusal that names no time.
func again(pools []*pool) string {
	wait := 30 * time.Second
	for _, p := range pools {
		for _, s := range p.series {
			if in := s.points[0].in["reset"]; in != "" && !s.window.moves {
				return "until: " + in
			}
			if wait = min(wait, s.window.per); s.window.moves {
				wait = time.Second
			}
		}
	}
	return "for: " + strictyaml.Duration(max(wait, time.Second))
}

func (w *writer) methods(u *upstream, pools []*pool) {
	general := pools[0].name
	for _, p := range pools {
		if p.name == "requests" {
			general = p.name
		}
	}
	w.put(2, "methods:", "")
	if len(u.routes) == 0 {
		w.put(3, fmt.Sprintf(`all: {route: "* /{rest...}", charge: {%s: 1}}`, general), "no source names a call; only calls with a route get the key")
	}
	for _, key := range slices.Sorted(maps.Keys(u.routes)) {
		r := u.routes[key]
		from := strings.Join(r.from, ", ")
		if r.seen > 0 {
			from += fmt.Sprintf("; %d calls", r.seen)
		}
		var charges []string
		for _, p := range pools {
			if !p.inOne[r] && (p.name != general || p.otherwise(r, pools)) && p.name != "at_once" {
				continue
			}
			if c, ok := p.cost(r, u); ok {
				charges = append(charges, p.name+": "+c.text)
				if c.from != "" {
					from += "; " + c.from
				}
			}
		}
		if len(charges) == 0 {
			charges = []string{general + ": 1"}
		}
		w.put(3, fmt.Sprintf("%q: {route: %q, charge: {%s}}", r.name, r.verb+" "+r.path, strings.Join(charges, ", ")), from)
	}
	w.put(2, "default:", "")
	w.put(3, fmt.Sprintf(`"*": {charge: {%s: 1}}`, general), "calls that no source names")
}

// nameRoutes gives each route a name of its own.
func (u *upstream) nameRoutes() {
	taken := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(u.routes)) {
		r := u.routes[key]
		base := cmp.Or(clean(r.name, ""), r.called(""))
		if taken[base] && r.name == "" && strings.HasSuffix(r.path, "}") { // GET /users has the name users.get
			base = r.called("id.")
		}
		r.name = base
		for n := 2; taken[r.name]; n++ {
			r.name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[r.name] = true
	}
}

// called makes a name of a path: users.orders.get.
func (r *route) called(what string) string {
	var words []string
	for part := range strings.SplitSeq(r.path, "/") {
		if part != "" && part[0] != '{' && part != "api" && !(record.Common(part) && strings.ContainsAny(part, "0123456789")) {
			words = append(words, part)
		}
	}
	words = append(words[max(0, len(words)-3):], what+strings.ToLower(r.verb))
	return clean(strings.Join(words, "."), "call")
}
