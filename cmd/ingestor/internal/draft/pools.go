package draft

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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
	inOne   map[*route]bool   // routes whose answers tell about it
	costs   map[*route]line   // what calls take, if it is not 1
	told    []*series         // as series, but those of all routes as one
	keys    map[*route][]line // the windows of each route, if each has limits of its own
}

func (p *pool) add(w window, from string) {
	p.windows = append(p.windows, line{w.written(), from})
}

// series is what answers told about one window of a pool, in their order.
type series struct {
	kind
	points []point
	window window
	route  *route // whose calls it is about; nil: those of all
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
		slices.SortFunc(p.series, func(a, b *series) int { return cmp.Compare(a.per, b.per) })
		for _, s := range p.series {
			s.window = windowOf(s.points)
		}
		p.series = slices.DeleteFunc(p.series, func(s *series) bool { // a limit without a window may be one of those that have one
			return s.per == 0 && slices.ContainsFunc(p.series, func(o *series) bool {
				return o.per != 0 && (o.window.per == s.window.per || o.window.quota == s.window.quota)
			})
		})
		p.byRoute(u)
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
		free := p.findCosts(u)
		for _, s := range p.series {
			from := u.withDocuments(p.name, s)
			if s.window.free = min(free, s.window.quota/5); s.window.free > 0 {
				from += "; calls cost more or less, and no answer says how much: the headroom is for those that cost more"
			} else if s.window.per <= time.Second && s.window.quota >= 25 && !s.window.drains() {
				s.window.free = max(s.window.quota/50, 1)
				from += "; the headroom is for calls that take more or less time on their way"
			}
			if s.route != nil { // the window of a key has no headroom
				s.window.quota, s.window.free = s.window.quota-s.window.free, 0
				p.keys[s.route] = append(p.keys[s.route], line{s.window.written(), from})
				continue
			}
			p.add(s.window, from)
		}
		p.others()
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

// byRoute splits what answers told by routes, if each route has limits of its own: those that its
// answers tell are the same each time, and not those of all other routes. Two recordings may be of
// two plans, and documents do not say whether their limits are of all calls.
func (p *pool) byRoute(u *upstream) {
	p.told = p.series
	limits, of, headers, sources := map[int64]*route{}, map[*route]map[kind]int64{}, map[string]bool{}, map[string]bool{}
	alike, several, named := true, false, true
	documented := slices.ContainsFunc(u.limits, func(l limit) bool { return l.pool == p.name })
	for _, s := range p.series {
		for _, pt := range s.points {
			r := pt.call.route
			if pt.limit <= 0 {
				continue
			}
			if of[r] == nil {
				of[r] = map[kind]int64{}
			}
			had := of[r][pt.kind]
			several = several || had != 0 && had != pt.limit
			of[r][pt.kind], limits[pt.limit] = pt.limit, cmp.Or(limits[pt.limit], r)
			headers[pt.in["limit"]], sources[pt.call.from] = true, true
			named = named && pt.per > 0
		}
	}
	var one map[kind]int64
	for _, own := range of {
		if one == nil {
			one = own
		}
		alike = alike && maps.Equal(own, one)
		several = several || len(headers) == 1 && !headers[""] && len(own) > 1
		named = named && len(own) == len(p.series)
	}
	if len(limits) < 2 || alike && !several {
		return
	}
	if several || documented || len(sources) > 1 || len(headers) > 1 && !named {
		var texts []string
		for _, n := range slices.Sorted(maps.Keys(limits)) {
			texts = append(texts, fmt.Sprintf("%d at %s %s", n, limits[n].verb, limits[n].path))
		}
		u.noteOnce(fmt.Sprintf("contradiction: answers tell several limits of %s: %s; the draft has the last. If each call, model or user has limits of its own, give the pool a key with by", p.name, strings.Join(texts, ", ")))
		return
	}
	p.series, p.keys = nil, map[*route][]line{}
	for _, s := range p.told {
		routes, first := map[*route]*series{}, len(p.series)
		for _, pt := range s.points {
			r := routes[pt.call.route]
			if r == nil {
				r = &series{kind: s.kind, route: pt.call.route}
				routes[r.route], p.series = r, append(p.series, r)
			}
			r.points = append(r.points, pt)
		}
		for _, r := range p.series[first:] {
			r.window = windowOf(r.points)
		}
		s.window = p.series[first].window
	}
	if len(headers) == 1 { // the same headers tell windows of several lengths
		for _, s := range p.told[1:] {
			p.told[0].points = append(p.told[0].points, s.points...)
		}
		p.told = p.told[:1]
	}
}

// others gives calls of no recorded route the windows of the route with the lowest limit.
func (p *pool) others() {
	lowest := p.limit(nil)
	for _, s := range p.series {
		if s.route != nil && len(p.windows) == 0 && max(s.window.quota, s.window.burst) == lowest {
			for _, l := range p.keys[s.route] {
				p.windows = append(p.windows, line{l.text, "the lowest limit that a call has; for calls without a key below"})
			}
		}
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

// again returns when a call that was refused may be made again, or zero.
func (c *call) again() time.Time {
	until, wait, ok := content.Time(book.RetryAfterTime, c.Header["Retry-After"])
	switch {
	case !ok || wait > 30*day || until.Sub(c.at) > 30*day:
		return time.Time{}
	case until.IsZero():
		return c.at.Add(max(wait, 0))
	}
	return until
}

// byRefusals works out a window from refusals alone: it is as long as the longest wait that they
// ask for, and has as many calls as were answered in it before.
func (u *upstream) byRefusals() (w window, from string) {
	refused := u.refused()
	var longest time.Duration
	for _, c := range refused {
		longest = max(longest, c.again().Sub(c.at)) // a zero time is long ago
	}
	if longest == 0 || len(refused) < 2 { // one says too little of how many calls fit
		return w, ""
	}
	w.per = usual[slices.IndexFunc(usual, func(d time.Duration) bool { return d >= longest-slack })]
	for _, no := range refused {
		n, begins := int64(0), no.again().Add(-w.per-slack)
		for _, c := range u.calls {
			if c.Status < 400 && no.again().After(no.at) && c.at.After(begins) && !c.at.After(no.at) {
				n++
			}
		}
		w.quota = max(w.quota, n)
	}
	return w, fmt.Sprintf("%s: worked out from %d refusals, that ask to wait %s at most; look it up", refused[0].from, len(refused), strictyaml.Duration(longest))
}

// otherwise reports whether answers to a route tell about another pool only.
func (p *pool) otherwise(r *route, pools []*pool) bool {
	return slices.ContainsFunc(pools, func(o *pool) bool {
		return o != p && o.inOne[r] && len(p.series) > 0 && !strings.Contains(o.name, "token") && o.name != "points"
	})
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
	if c, ok := p.costs[r]; ok {
		return c, true
	}
	return line{"1", ""}, true
}

// taking is what a call took off what was left.
type taking struct {
	call  *call
	units int64
}

// taken returns what calls have taken, as far as two answers tell it that the upstream counted one
// after the other in the same window. What has come back to a bucket meanwhile counts, too.
func (s *series) taken() (all []taking) {
	points, w := s.points, s.window
	if !w.moves {
		points = s.counted()
	}
	for i := 1; i < len(points); i++ {
		a, b, back := &points[i-1], &points[i], 0.0
		if a.remaining < 0 || b.remaining < 0 || b.call.Status >= 400 || !w.moves && !s.same(a, b) {
			continue
		}
		if w.burst > 0 {
			back = b.at.Sub(a.at).Seconds() * float64(w.quota) / w.per.Seconds()
			if float64(a.remaining)+back >= float64(w.burst) {
				continue // it was full
			}
		}
		if n := int64(math.Round(float64(a.remaining-b.remaining) + back)); n > 0 || n == 0 && (w.moves || s.ends(a, b)) {
			all = append(all, taking{b.call, n})
		}
	}
	return all
}

// ends reports whether the ends of windows tell these two apart: times in whole seconds do not in shorter ones.
func (s *series) ends(a, b *point) bool {
	return !a.end.IsZero() && !b.end.IsZero() && s.window.per > 2*slack
}

// same reports whether two answers are of the same window. Without its end, calls that are far apart
// may be of two windows, although less is left after the second one.
func (s *series) same(a, b *point) bool {
	if s.ends(a, b) {
		return a.end.Sub(b.end).Abs() <= slack
	}
	return a.end.Sub(b.end).Abs() <= slack && 2*b.at.Sub(a.at).Abs() < s.window.per
}

// counted returns the points in the order in which the upstream has counted them: within a window,
// what is left falls with each call. Answers to calls at once may come in another order.
func (s *series) counted() []point {
	all, begun := slices.Clone(s.points), 0
	for i := 1; i <= len(all); i++ {
		if i < len(all) && !rises(s.points, i) && s.same(&s.points[i-1], &s.points[i]) {
			continue
		}
		slices.SortStableFunc(all[begun:i], func(a, b point) int { return cmp.Compare(b.remaining, a.remaining) })
		begun = i
	}
	return all
}

// rises reports whether more is left at a point because a window has ended. If it is only that answers to
// calls at once came in another order, then more was left a little before, and no number comes twice.
func rises(points []point, i int) bool {
	const atOnce = 8
	b := points[i].remaining
	if b <= points[i-1].remaining {
		return false
	}
	before, after := points[max(i-atOnce, 0):i], points[i:min(i+atOnce, len(points))]
	twice := func(p point) bool {
		return p.call.Status < 400 && slices.ContainsFunc(before, func(o point) bool { return o.remaining == p.remaining && o.call.Status < 400 })
	}
	switch {
	case slices.ContainsFunc(after, twice):
		return true
	case slices.ContainsFunc(before, func(p point) bool { return p.remaining > b }):
		return false
	}
	return i >= atOnce || !slices.ContainsFunc(after, func(p point) bool { return p.remaining >= 0 && p.remaining < points[i-1].remaining })
}

// findCosts finds what the calls of each route take of a pool: what answers tell of it, a fixed price,
// or what they take on average. Then it returns how much to leave free for calls under way that take more.
func (p *pool) findCosts(u *upstream) (more int64) {
	p.costs = map[*route]line{}
	once := map[*route]int64{}  // what the one call of it took that is known
	often := map[*route]bool{}  // more is known
	learns := map[*route]bool{} // what its calls take is learnt from usage that answers tell
	for _, r := range u.routes {
		c, ok := p.cost(r, u)
		learns[r] = !ok || c.text != "1"
	}
	longest := func(a, b *series) int { return cmp.Compare(b.window.per, a.window.per) } // less comes back while calls are made
	for _, s := range slices.SortedStableFunc(slices.Values(p.series), longest) {
		all := s.taken()
		byRoute := map[*route][]taking{}
		for _, t := range all {
			byRoute[t.call.route] = append(byRoute[t.call.route], t)
		}
		told := s.told(all)
		for _, r := range u.routes {
			if p.costs[r].text != "" || learns[r] {
				continue
			}
			seen, most, sum, total := map[int64]int{}, int64(0), int64(0), len(byRoute[r])
			for _, t := range byRoute[r] {
				seen[t.units]++
				most, sum = max(most, t.units), sum+t.units
			}
			usual := int64(1)
			for n := range seen { // a call that took nothing is no reason to count none
				if n > 0 && (seen[n] > seen[usual] || seen[n] == seen[usual] && n < usual) {
					usual = n
				}
			}
			like := seen[usual]
			if s.window.burst > 0 {
				like += seen[usual-1] + seen[usual+1]
			}
			often[r] = often[r] || total > 1
			switch source := told[r]; {
			case most > p.limit(r):
			case total == 1:
				once[r] = max(once[r], most)
			case total == 0:
			case source.calls > like:
				p.costs[r] = line{source.text(most), "calls say what they cost"}
			case usual == 1 && 5*sum <= 6*int64(total):
			case 2*seen[usual] > total && 5*sum <= 6*usual*int64(total):
				p.costs[r] = line{fmt.Sprint(usual), fmt.Sprintf("%d of %d calls in a row took %d", seen[usual], total, usual)}
			default:
				mean := max((2*sum+int64(total)-1)/int64(2*total), 1)
				p.costs[r] = line{fmt.Sprint(mean), fmt.Sprintf("%d calls in a row took up to %d, and %d on average", total, most, mean)}
				more = max(more, most+mean)
			}
		}
	}
	for r, n := range once {
		if n > 1 && !often[r] {
			p.costs[r] = line{fmt.Sprint(n), fmt.Sprintf("one call took %d; look it up", n)}
		}
	}
	return more
}

// limit is the least limit of the calls of a route; nil: of any.
func (p *pool) limit(r *route) int64 {
	least := int64(math.MaxInt64)
	for _, s := range p.series {
		if r == nil || s.route == nil || s.route == r {
			least = min(least, max(s.window.quota, s.window.burst))
		}
	}
	return least
}

// source is what may tell the price of a call: a number in the query, of which each unit has so many,
// or one of the answer.
type source struct {
	at   string
	each int64 // 0: it is of the answer
}

// named reports whether the name of a header says that it tells a price.
func (s source) named() bool {
	name, header := strings.CutPrefix(s.at, "{header: ")
	return header && slices.ContainsFunc(strings.Split(strings.ToLower(strings.TrimSuffix(name, "}")), "-"), func(word string) bool { return prices[word] })
}

// text is the price as the price book writes it, if a call takes so much at most.
func (s source) text(most int64) string {
	if s.each > 0 {
		return fmt.Sprintf("{estimate: {query: %q, per: %d, default: %d}}", s.at, s.each, most)
	}
	return fmt.Sprintf("{estimate: {learn: p95, first: %d}, actual: %s}", most, s.at)
}

func (s source) compare(o source) int {
	return cmp.Or(cmp.Compare(s.at, o.at), cmp.Compare(s.each, o.each))
}

// told is a source, and of how many calls of a route it tells what they have taken.
type told struct {
	source
	calls int
}

// told returns what tells the price of the calls of each route: what fits the calls of all routes best.
func (s *series) told(all []taking) map[*route]told {
	has, fits, here := map[source]int{}, map[source]int{}, map[*route]map[source]int{}
	for _, t := range all {
		for from, n := range t.call.prices() {
			has[from]++
			back := n - t.units
			if back != 0 && (s.window.burst == 0 || back > 1 || back < -1) && (back < 0 || s.window.per > time.Second || !from.named()) {
				continue
			}
			if fits[from]++; here[t.call.route] == nil {
				here[t.call.route] = map[source]int{}
			}
			here[t.call.route][from]++
		}
	}
	best := map[*route]told{}
	for r, calls := range here {
		for _, from := range slices.SortedFunc(maps.Keys(calls), source.compare) {
			if n := fits[from]; n > 3 && 5*n >= 4*has[from] && n > fits[best[r].source] {
				best[r] = told{from, calls[from]}
			}
		}
	}
	return best
}

// prices returns what a call may have cost, by what tells it.
func (c *call) prices() map[source]int64 {
	all := map[source]int64{}
	answer := func(at, text string) {
		if n, ok := content.Number(text); ok && n > 0 {
			all[source{at: at}] = n
		}
	}
	for name, text := range c.Header {
		if role, _, _ := roleOf(name); role == "" && headerName().MatchString(name) && name != "Retry-After" && name != "Age" {
			answer("{header: "+name+"}", text)
		}
	}
	for name, text := range c.Body {
		answer(fmt.Sprintf("[{body: %q}]", record.PlacesOf(name)), text)
	}
	for name, text := range c.Sizes {
		n, _ := content.Number(text)
		for _, each := range []int64{1, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000} {
			all[source{name, each}] = (n + each - 1) / each
		}
	}
	return all
}
