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
	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota/book"
)

// pool is a pool of the book.
type pool struct {
	name    string
	series  []*series // that answers tell
	windows []line
	least   int64           // of their limits; 0: there is none
	inOne   map[*route]bool // routes whose answers tell about it
}

func (p *pool) add(w window, from string) {
	p.windows = append(p.windows, line{w.String(), from})
	most := w.quota
	if w.drains() {
		most = w.burst
	}
	if p.least == 0 || most < p.least {
		p.least = most
	}
}

// series is what answers told about one window of a pool, in their order.
type series struct {
	kind
	points []point
	window window
}

// line is a line of the book, and where it comes from.
type line struct{ text, from string }

// Book writes the book, and what a person must know. It is the same each time.
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
		w.put(4, "windows:", "")
		for _, l := range p.windows[:min(len(p.windows), book.MaxWindows)] {
			w.put(5, "- "+l.text, l.from)
		}
	}
	w.feedback(pools)
	w.refusals(u)
	w.methods(u, pools)
}

var plainPool = pattern.Of(`^[a-z][a-z0-9_-]*$`)

// poolName makes the name of a pool, which YAML takes for nothing else.
func poolName(text string) string {
	name := strings.ToLower(strings.ReplaceAll(clean(text, "requests"), ".", "_"))
	if !plainPool().MatchString(name) || strictyaml.Quoted(name) != name {
		name = "pool_" + name
	}
	return name
}

// pools finds the pools and their windows, those of answers before those of documents.
func (u *upstream) pools() (all []*pool) {
	of := func(name string) *pool {
		for _, p := range all {
			if p.name == name {
				return p
			}
		}
		all = append(all, &pool{name: name, inOne: map[*route]bool{}})
		return all[len(all)-1]
	}
	told := map[kind]*series{}
	for _, c := range u.calls {
		for _, p := range pointsOf(c.Exchange) {
			p.at, p.call = c.at, c
			p.pool = poolName(p.pool)
			s := told[p.kind]
			if s == nil {
				s = &series{kind: p.kind}
				told[p.kind] = s
				of(p.pool).series = append(of(p.pool).series, s)
			}
			s.points = append(s.points, p)
			of(p.pool).inOne[c.route] = true
		}
	}
	for _, p := range all {
		if len(p.series) > 1 { // a limit without a window is one of those that have one
			p.series = slices.DeleteFunc(p.series, func(s *series) bool { return s.per == 0 })
		}
		slices.SortFunc(p.series, func(a, b *series) int { return cmp.Compare(a.per, b.per) })
		for _, s := range p.series {
			s.window = windowOf(s.points)
			s.unlike(u)
		}
	}
	for _, p := range all {
		for _, s := range p.series {
			rate, ok := content.Number(s.points[0].call.Body["extensions.cost.throttleStatus.restoreRate"])
			switch requests := told[kind{pool: "requests"}]; {
			case p.name == "points" && ok && rate > 0:
				s.window = window{quota: rate, per: time.Second, burst: s.points[0].limit, moves: true}
			case strings.Contains(p.name, "token") && s.per == 0 && requests != nil && requests.window.per > 0 && requests.window.unsure == "": // both count the same time
				quota := s.window.quota
				if s.window = requests.window; s.window.burst > 0 {
					s.window.burst = quota
				}
				s.window.quota = quota
			}
		}
	}
	if len(all) == 0 || len(u.limits) == 0 && u.refused() != nil {
		of("requests")
	}
	for _, p := range all {
		for _, s := range p.series {
			from := u.withDocuments(p.name, s)
			p.add(s.window, from)
		}
		if len(p.series) == 0 && p.name == "requests" && len(u.limits) == 0 {
			if w, from := u.byRefusals(); w.quota > 0 {
				p.add(w, from)
			}
		}
	}
	slices.SortStableFunc(u.limits, func(a, b limit) int { return cmp.Compare(a.window.quota, b.window.quota) })
	for i, l := range u.limits {
		p := of(l.pool)
		if l.window.quota == 0 { // it is one that answers tell
			continue
		}
		if before := slices.IndexFunc(u.limits[:i], func(o limit) bool { return o.pool == l.pool && o.window.per == l.window.per && o.window.quota > 0 }); before >= 0 {
			if other := u.limits[before]; other.window.quota != l.window.quota {
				u.contradict("%s says %s, and %s says %s; the draft has the lower one", other.from, other.window, l.from, l.window)
			}
			continue
		}
		from := l.from
		if l.window.unsure != "" {
			from += "; " + l.window.unsure
		}
		p.add(l.window, from)
	}
	slices.SortFunc(all, func(a, b *pool) int { return cmp.Compare(a.name, b.name) })
	return all
}

func (u *upstream) contradict(format string, args ...any) {
	u.noteOnce("contradiction: " + fmt.Sprintf(format, args...))
}

// unlike notes if routes have limits of their own.
func (s *series) unlike(u *upstream) {
	limits := map[int64]*route{}
	for _, p := range s.points {
		if p.limit > 0 && limits[p.limit] == nil {
			limits[p.limit] = p.call.route
		}
	}
	if len(limits) > 1 {
		var texts []string
		for _, n := range slices.Sorted(maps.Keys(limits)) {
			texts = append(texts, fmt.Sprintf("%d at %s %s", n, limits[n].verb, limits[n].path))
		}
		u.noteOnce(fmt.Sprintf("contradiction: answers tell several limits of %s: %s; the draft has the last. If each call has limits of its own, the pool needs by: {call: method}", s.pool, strings.Join(texts, ", ")))
	}
}

// withDocuments compares what answers tell with what documents say, and says where the window
// comes from. A document that says the same is not needed any more.
func (u *upstream) withDocuments(pool string, s *series) string {
	from := fmt.Sprintf("%s: %d answers tell it", s.points[0].call.from, len(s.points))
	against := ""
	for i := range u.limits {
		l := &u.limits[i]
		switch {
		case l.pool != pool || l.window.atOnce || l.window.quota == 0:
		case l.window.per == s.window.per && l.window.quota != s.window.quota:
			u.contradict("%s says %s, and answers tell %s; the draft has what answers tell", l.from, l.window, s.window)
			against += "; contradiction: " + l.from + " says " + l.window.String()
			l.window.quota = 0
		case l.window.quota == s.window.quota && (l.window.per == s.window.per || s.window.unsure != ""):
			s.window.per, s.window.unsure, l.window.quota = l.window.per, "", 0
			from += ", and so does " + l.from
		}
	}
	if s.window.unsure != "" {
		against += "; " + s.window.unsure
	}
	return from + against
}

// refused returns the calls that the upstream refused for a limit.
func (u *upstream) refused() (all []*call) {
	for _, c := range u.calls {
		_, later := c.Header["Retry-After"]
		none := slices.ContainsFunc(pointsOf(c.Exchange), func(p point) bool { return p.remaining == 0 })
		if c.Status == http.StatusTooManyRequests || c.Status >= 400 && c.Status != http.StatusUnauthorized && (later || none) {
			all = append(all, c)
		}
	}
	return all
}

// byRefusals works out a window from refusals alone: it is as long as the longest wait that they
// ask for, and has as many calls as were answered in it before.
func (u *upstream) byRefusals() (w window, from string) {
	refused := u.refused()
	wait := func(c *call) time.Duration {
		n, _ := content.Number(c.Header["Retry-After"])
		return min(time.Duration(n)*time.Second, 30*day)
	}
	var longest time.Duration
	for _, c := range refused {
		longest = max(longest, wait(c))
	}
	if longest == 0 {
		return w, ""
	}
	w.per = usual[slices.IndexFunc(usual, func(d time.Duration) bool { return d >= longest-slack })]
	for _, no := range refused {
		n, begins := int64(0), no.at.Add(wait(no)-w.per-slack)
		for _, c := range u.calls {
			if c.Status < 400 && wait(no) > 0 && c.at.After(begins) && !c.at.After(no.at) {
				n++
			}
		}
		w.quota = max(w.quota, n)
	}
	return w, fmt.Sprintf("%s: worked out from %d refusals, that ask to wait %s at most; look it up", refused[0].from, len(refused), strictyaml.Duration(longest))
}

func (w *writer) feedback(pools []*pool) {
	var lines []line
	standard := false
	for _, p := range pools {
		for _, s := range p.series {
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
			if len(p.series) > 1 {
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
			lines = append(lines, line{"- {" + text + "}", fmt.Sprintf("%s: %d answers have it", s.points[0].call.from, n)})
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

func (w *writer) refusals(u *upstream) {
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
		if after := c.Header["Retry-After"]; after != "" {
			from = "seen, with Retry-After: " + after + ", which takes precedence"
		} else {
			for _, p := range pointsOf(c.Exchange) {
				if in := p.in["reset"]; in != "" && p.remaining <= 0 {
					text, from = fmt.Sprintf("- {status: %d, until: %s}", c.Status, in), "seen"
					if c.Status != http.StatusTooManyRequests && strings.Contains(p.in["remaining"], "header: ") {
						name := strings.TrimSuffix(strings.TrimPrefix(p.in["remaining"], "{header: "), "}")
						text = fmt.Sprintf("- {status: %d, header: {%s: 0}, until: %s}", c.Status, name, in)
					}
				}
			}
		}
		if c.Status != http.StatusTooManyRequests && c.Header["Retry-After"] != "" {
			text = fmt.Sprintf("- {status: %d, header: Retry-After, for: 30s}", c.Status)
		}
		if lines[text] == "" {
			lines[text] = c.from + ": " + from
		}
	}
	for _, status := range slices.Sorted(maps.Keys(u.refusals)) {
		lines[fmt.Sprintf("- {status: %d, for: 30s}", status)] = u.refusals[status] + "; look up for how long"
	}
	if len(lines) == 0 {
		lines["- {status: 429, for: 30s}"] = "not seen; look up what a refusal looks like"
	}
	w.put(2, "refusals:", "")
	for _, text := range slices.SortedFunc(maps.Keys(lines), func(a, b string) int { // those with a condition first
		return cmp.Or(cmp.Compare(strings.Count(b, ", header: "), strings.Count(a, ", header: ")), cmp.Compare(a, b))
	}) {
		w.put(3, text, lines[text])
	}
}

func (w *writer) methods(u *upstream, pools []*pool) {
	costs := map[*route]map[string]line{}
	for _, r := range u.routes {
		costs[r] = map[string]line{}
	}
	general := pools[0].name
	for _, p := range pools {
		if p.name == "requests" {
			general = p.name
		}
	}
	for _, p := range pools {
		for _, r := range u.routes {
			if p.inOne[r] || p.name == general && !p.otherwise(r, pools) || p.name == "at_once" {
				if c, ok := p.cost(r, u); ok {
					costs[r][p.name] = c
				}
			}
		}
	}
	w.put(2, "methods:", "")
	if len(u.routes) == 0 {
		w.put(3, fmt.Sprintf(`all: {route: "* /{rest...}", charge: {%s: 1}}`, general), "no source names a call; only calls with a route get the key")
	}
	taken := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(u.routes)) {
		r := u.routes[key]
		name := clean(r.name, "")
		if name == "" {
			name = r.called()
		}
		base := name
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[name] = true
		from := strings.Join(r.from, ", ")
		if r.seen > 0 {
			from += fmt.Sprintf("; %d calls", r.seen)
		}
		var charges []string
		for _, p := range slices.Sorted(maps.Keys(costs[r])) {
			charges = append(charges, p+": "+costs[r][p].text)
			if why := costs[r][p].from; why != "" {
				from += "; " + why
			}
		}
		if len(charges) == 0 {
			charges = []string{general + ": 1"}
		}
		w.put(3, fmt.Sprintf("%q: {route: %q, charge: {%s}}", name, r.verb+" "+r.path, strings.Join(charges, ", ")), from)
	}
	w.put(2, "default:", "")
	w.put(3, fmt.Sprintf(`"*": {charge: {%s: 1}}`, general), "calls that no source names")
}

// otherwise reports whether answers to a route tell about another pool only.
func (p *pool) otherwise(r *route, pools []*pool) bool {
	return slices.ContainsFunc(pools, func(o *pool) bool {
		return o != p && o.inOne[r] && len(p.series) > 0 && !strings.Contains(o.name, "token") && o.name != "points"
	})
}

// called makes a name of a path: users.orders.get.
func (r *route) called() string {
	var words []string
	for part := range strings.SplitSeq(r.path, "/") {
		if part != "" && part[0] != '{' && part != "api" && !(record.Common(part) && strings.ContainsAny(part, "0123456789")) {
			words = append(words, part)
		}
	}
	words = append(words[max(0, len(words)-3):], strings.ToLower(r.verb))
	return clean(strings.Join(words, "."), "call")
}

// cost returns what a call charges a pool: by usage that answers tell, or by what was left before
// and after it.
func (p *pool) cost(r *route, u *upstream) (line, bool) {
	largest := func(name string) (n int64) {
		for _, c := range u.calls {
			if v, ok := content.Number(c.Body[name]); ok && c.route == r {
				n = max(n, v)
			}
		}
		return n
	}
	learnt := func(names ...string) (line, bool) {
		var actual []string
		first := int64(0)
		for _, name := range names {
			actual = append(actual, fmt.Sprintf("{body: %q}", record.PlacesOf(name)))
			first += largest(name)
		}
		return line{fmt.Sprintf("{estimate: {learn: p95, first: %d}, actual: [%s]}", first, strings.Join(actual, ", ")), "answers tell what a call has cost"}, first > 0
	}
	switch {
	case strings.Contains(p.name, "byte"):
		u.noteOnce("what a call takes of " + p.name + " is not known; no call is charged for it")
		return line{}, false
	case p.name == "points" && largest("extensions.cost.actualQueryCost") > 0:
		return learnt("extensions.cost.actualQueryCost")
	case p.name == "points" && largest("data.rateLimit.cost") > 0:
		return learnt("data.rateLimit.cost")
	case strings.Contains(p.name, "token") && strings.Contains(p.name, "input"):
		return learnt("usage.input_tokens")
	case strings.Contains(p.name, "token") && strings.Contains(p.name, "output"):
		return learnt("usage.output_tokens")
	case strings.Contains(p.name, "token") && largest("usage.total_tokens") > 0:
		return learnt("usage.total_tokens")
	case strings.Contains(p.name, "token"):
		return learnt("usage.input_tokens", "usage.output_tokens")
	}
	seen, total := map[int64]int{}, 0
	for _, s := range p.series {
		for i := 1; i < len(s.points); i++ {
			a, b := &s.points[i-1], &s.points[i]
			apart := b.at.Sub(a.at).Seconds()
			refilled := s.window.burst > 0 && apart*float64(s.window.quota)/s.window.per.Seconds() >= 0.5
			if b.call.route != r || b.remaining < 0 || a.remaining < b.remaining || b.call.Status >= 400 || refilled || !s.window.moves && a.end.Sub(b.end).Abs() > slack {
				continue
			}
			seen[a.remaining-b.remaining]++
			total++
		}
	}
	for _, n := range slices.Sorted(maps.Keys(seen)) {
		if 2*seen[n] > total && n > 1 && seen[n] > 1 && n <= p.least {
			return line{fmt.Sprint(n), fmt.Sprintf("%d of %d calls in a row took %d", seen[n], total, n)}, true
		}
	}
	return line{"1", ""}, true
}
