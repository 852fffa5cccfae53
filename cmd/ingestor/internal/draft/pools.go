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
)

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

type series struct {
	kind
	points []point
	window window
}

var plainPool = pattern.Of(`^[a-z][a-z0-9_-]*$`)

func poolName(text string) string {
	name := strings.ToLower(strings.ReplaceAll(clean(text, "requests"), ".", "_"))
	if !plainPool().MatchString(name) || strictyaml.Quoted(name) != name {
		name = "pool_" + name
	}
	return name
}

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

func (p *pool) otherwise(r *route, pools []*pool) bool {
	return slices.ContainsFunc(pools, func(o *pool) bool {
		return o != p && o.inOne[r] && len(p.series) > 0 && !strings.Contains(o.name, "token") && o.name != "points"
	})
}

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
