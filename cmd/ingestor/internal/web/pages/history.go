package pages

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// groupings are the labels by which the history groups spend.
var groupings = []grouping{byJob, byMethod, "region", "class", byCaller, "account", "model", "key"}

// ranges are the ranges of the history, in days. The ledger keeps labels for 30 days, and
// the catalog keeps totals for longer.
var ranges = []struct {
	span, name string
	days       int
}{{"24h", "24 h", 1}, {"7d", "7 days", 7}, {"30d", "30 days", 30}, {"1y", "1 year", 365}}

// past is the spend of a pool over a range: one bar for each hour of 24h, or for each day.
type past struct {
	pool    string
	keyed   bool // the spend is that of all keys of the pool
	money   bool // it is a budget
	by      grouping
	span    string
	days    int            // of the span
	zone    *time.Location // of the pool's days
	limit   int64          // of a day; 0 without one, or for several accounts or keys
	bars    []bar
	groups  []group // the largest first; hours are those of bars
	total   int64
	refused int64
	blocked int64
}

// bar is the time of a bar, and the refusals in it.
type bar struct {
	key     string // the day, or the hour in RFC 3339
	at      time.Time
	refused int64            // calls
	blocked int64            // units of work, and calls of callers
	by      map[string]int64 // the refused calls, by runs and callers
}

// historyPage is the data of the template history.html.
type historyPage struct {
	Page
	Pool           string
	Pools          []choice
	Keep           []input // of the address, when another pool is chosen
	Ranges, By     []choice
	Wide, Narrow   template.HTML
	Groups         []legend
	Total, Refused string
	Blocked        string
	Limit          string
	CSV            string
	Zone           string
	Problem        string
	Did            *table
}

// choice is a link to another view of the history, or another pool.
type choice struct {
	Name, Path string
	Chosen     bool
}

// History serves the spend of a pool: /history?pool=&range=&by=.
func (b *Board) History(w http.ResponseWriter, r *http.Request) {
	s := b.read(r.Context())
	p := &historyPage{Page: s.judged("History", "/")}
	h, err := b.past(r, s)
	if h == nil && err == nil {
		b.Problem(w, r, http.StatusNotFound, "There is no such pool")
		return
	}
	if err != nil {
		b.o.Log.Warn("show the history", "error", err)
		p.Problem = "The history cannot be read now"
		partly(r.Context())
		b.show(w, r, http.StatusOK, "history", p)
		return
	}
	p.Pool = h.of()
	path := func(pool, span string, by grouping) string {
		return "/history?" + url.Values{"pool": {pool}, "range": {span}, "by": {string(by)}}.Encode()
	}
	for i := range s.Pools {
		if u := &s.Pools[i]; s.Used(u) {
			if one := (choice{Name: pageOf(u.Pool), Chosen: pageOf(u.Pool) == h.pool}); !slices.Contains(p.Pools, one) {
				p.Pools = append(p.Pools, one)
			}
		}
	}
	p.Keep = []input{{Name: "range", Value: h.span}, {Name: "by", Value: string(h.by)}}
	for _, r := range ranges {
		p.Ranges = append(p.Ranges, choice{r.name, path(h.pool, r.span, h.by), r.span == h.span})
	}
	for _, by := range groupings {
		if h.span != "1y" && (h.money || by != "model" && by != "key") { // other pools have none
			p.By = append(p.By, choice{"by " + string(by), path(h.pool, h.span, by), by == h.by})
		}
	}
	p.Wide, p.Narrow = h.draw(760), h.draw(340)
	p.Groups = linesOf(h.pool, slices.DeleteFunc(slices.Clone(h.groups), func(g group) bool { return g.units == 0 }))
	p.Total = view.Units(h.pool, h.total)
	if h.refused > 0 {
		p.Refused = count(h.refused, "call")
	}
	if h.blocked > 0 {
		p.Blocked = count(h.blocked, "unit of work or call", "units of work or calls")
	}
	if h.limit > 0 && h.span != "24h" {
		p.Limit = view.Amount(h.pool, h.limit)
	}
	if h.span != "24h" {
		p.Zone = cmp.Or(verdict.Zones[h.zone.String()], h.zone.String())
	}
	p.CSV = strings.Replace(path(h.pool, h.span, h.by), "/history?", "/csv/history?", 1)
	p.Did = s.did(r.Context(), b)
	b.show(w, r, http.StatusOK, "history", p)
}

// past reads the spend that a request asks for, or nil if there is no such pool.
func (b *Board) past(r *http.Request, s *state) (*past, error) {
	q := r.URL.Query()
	u := s.Worst()
	if name := withoutKey(q.Get("pool")); name != "" {
		u = nil
		if i := slices.IndexFunc(s.Pools, func(u quota.Usage) bool { return pageOf(u.Pool) == name }); i >= 0 {
			u = &s.Pools[i]
		}
	}
	if u == nil {
		return nil, s.Outage
	}
	h := &past{pool: pageOf(u.Pool), keyed: u.Pool.Key != "", money: u.Pool.IsMoney(), by: byJob, span: "7d", days: 7}
	h.zone = zoneIn(s.Book, h.pool)
	if by := grouping(q.Get("by")); slices.Contains(groupings, by) {
		h.by = by
	}
	for _, r := range ranges {
		if r.span == q.Get("range") {
			h.span, h.days = r.span, r.days
		}
	}
	for i := range u.Allowances {
		if w := &u.Allowances[i]; !w.Spec.InFlight() && w.Spec.Length() == day {
			h.limit = w.Limit
		}
	}
	if h.by == "account" || h.keyed {
		h.limit = 0
	}
	h.lay(s.Now)
	err := b.o.Facts.Within(r.Context(), func(ctx context.Context) error {
		if h.span == "1y" {
			return h.readDays(ctx, s, u)
		}
		return h.read(ctx, s, u)
	})
	for i := range h.bars {
		h.refused += h.bars[i].refused
		h.blocked += h.bars[i].blocked
	}
	return h, err
}

// of names the pool for people.
func (h *past) of() string {
	if h.keyed {
		return h.pool + ", all keys"
	}
	return h.pool
}

// lay lays the bars out, up to now.
func (h *past) lay(now time.Time) {
	if h.span == "24h" {
		for at := now.UTC().Truncate(time.Hour).Add(-day); !at.After(now); at = at.Add(time.Hour) {
			h.bars = append(h.bars, bar{key: at.Format(time.RFC3339), at: at})
		}
		return
	}
	y, m, d := now.In(h.zone).Date()
	for n := h.days - 1; n >= 0; n-- {
		at := time.Date(y, m, d-n, 12, 0, 0, 0, h.zone)
		h.bars = append(h.bars, bar{key: at.Format(time.DateOnly), at: at})
	}
}

// keyOf returns the key of the bar of a time.
func (h *past) keyOf(at time.Time) string {
	if h.span == "24h" {
		return at.UTC().Truncate(time.Hour).Format(time.RFC3339)
	}
	return at.In(h.zone).Format(time.DateOnly)
}

func (h *past) index() map[string]int {
	all := make(map[string]int, len(h.bars))
	for i := range h.bars {
		all[h.bars[i].key] = i
	}
	return all
}

// read reads the spend from the ledger, and the refusals from the catalog.
func (h *past) read(ctx context.Context, s *state, u *quota.Usage) error {
	dims := []quota.Dimension{quota.ByAccount, quota.ByDay, quota.ByJob, h.by.dimension()}
	if h.by.dimension() == quota.ByJob {
		dims = append(dims, quota.ByMethod) // which tells corrections and others apart
	}
	query := quota.SpendQuery{Upstream: u.Pool.Upstream, Account: u.Pool.Account, Since: h.bars[0].at.Add(-day / 2)}
	if h.by == "account" {
		query.Account = ""
	}
	if h.span == "24h" {
		dims, query.Since = append(dims, quota.ByHour), h.bars[0].at
	}
	all, err := s.src.Ledger.View().Spend(ctx, query, dims...)
	if err != nil {
		return err
	}
	if err := s.nameJobs(ctx, all, query.Since); err != nil {
		return err
	}
	at := h.index()
	groups := map[string]*group{}
	for i := range all {
		sp := &all[i]
		if sp.Pool.Name != u.Pool.Name {
			continue
		}
		key := sp.Day
		if h.span == "24h" {
			key = h.keyOf(sp.Hour)
		}
		if k, ok := at[key]; ok {
			name, kind := h.nameOf(s, sp)
			h.add(groups, name, kind, k, sp.Units)
		}
	}
	h.rank(groups, s.colours(h.by))
	refusals, err := s.src.Catalog.Refusals(ctx, h.bars[0].at.Add(-day/2))
	for i := range refusals {
		f := &refusals[i]
		if k, ok := at[h.keyOf(f.Hour)]; ok && withoutKey(f.Pool) == h.pool {
			h.mark(k, f)
		}
	}
	return err
}

func (h *past) nameOf(s *state, sp *quota.Spent) (name, kind string) {
	l := &sp.Labels
	switch h.by {
	case "region":
		return cmp.Or(l.Region, "no region"), ""
	case "class":
		return cmp.Or(l.Class, "no class"), ""
	case "account":
		return sp.Pool.Account, ""
	case "model":
		return cmp.Or(sp.Model, "no model"), ""
	case "key":
		return cmp.Or(sp.Key, "no key"), ""
	case byCaller:
		name, kind = s.spender(byJob, l)
		if kind == kindCaller {
			name, _, _ = strings.Cut(name, "/")
		} else if kind == kindJob {
			name = "runs of ingestor"
		}
		return name, kind
	}
	return s.spender(h.by, l)
}

func (h *past) add(groups map[string]*group, name, kind string, k int, units int64) {
	g := groups[name]
	if g == nil {
		g = &group{name: name, kind: kind, hours: make([]int64, len(h.bars))}
		groups[name] = g
	}
	g.hours[k] += units
	g.units += units
	h.total += units
}

// mark counts refusals in a bar.
func (h *past) mark(k int, f *catalog.Refusal) {
	b := &h.bars[k]
	b.refused += f.Calls
	b.blocked += stoppedBy(f)
	if b.by == nil {
		b.by = map[string]int64{}
	}
	b.by[cmp.Or(f.Caller, "runs")] += f.Calls
}

// stoppedBy returns what a block stopped: units of work of runs, and calls of callers.
func stoppedBy(f *catalog.Refusal) int64 {
	switch {
	case f.Cause != "blocked":
		return 0
	case f.Caller != "":
		return f.Calls
	}
	return f.Works
}

// maxSeries bounds the groups of a chart; the smallest become one more.
const maxSeries = 12

// rank sorts the groups and gives them colours.
func (h *past) rank(groups map[string]*group, p *palette) {
	all := slices.SortedFunc(maps.Values(groups), func(a, b *group) int { return cmp.Or(cmp.Compare(b.units, a.units), strings.Compare(a.name, b.name)) })
	var rest *group
	for i, g := range all {
		if i >= maxSeries {
			if rest == nil {
				rest = &group{name: count(int64(len(all)-maxSeries), "other"), class: classNone, hours: make([]int64, len(h.bars))}
			}
			for k, n := range g.hours {
				rest.hours[k] += n
			}
			rest.units += g.units
			continue
		}
		h.groups = append(h.groups, *g)
	}
	if rest != nil {
		h.groups = append(h.groups, *rest)
	}
	p.paint(h.groups)
}

// daysRead is how many days of the ledger's spend KeepDays reads.
const daysRead = 30

// KeepDays saves the totals of each pool by the day in the catalog, which keeps them longer
// than the ledger. It may be called at any time, by several servers too.
func (b *Board) KeepDays(ctx context.Context) error {
	src := b.sources()
	now := b.o.Clock.Now()
	since := now.Add(-daysRead * day)
	spent, err := src.Ledger.View().Spend(ctx, quota.SpendQuery{Since: since}, quota.ByAccount, quota.ByDay)
	if err != nil {
		return err
	}
	// The spend is that of whole days, so the refusals must be.
	refusals, err := src.Catalog.Refusals(ctx, since.Add(-day))
	if err != nil {
		return err
	}
	type key struct{ pool, day string }
	sums := map[key]*catalog.PoolDay{}
	sum := func(pool, day string) *catalog.PoolDay {
		k := key{pool, day}
		if sums[k] == nil {
			sums[k] = &catalog.PoolDay{Pool: pool, Day: day}
		}
		return sums[k]
	}
	for _, sp := range spent {
		d := sum(sp.Pool.String(), sp.Day)
		d.Units += sp.Units
		d.Calls += sp.Calls
	}
	for _, f := range refusals {
		zone := zoneIn(src.Ledger.Book(), f.Pool)
		on := f.Hour.In(zone).Format(time.DateOnly)
		if on < since.In(zone).Format(time.DateOnly) {
			continue
		}
		d := sum(withoutKey(f.Pool), on) // as spend is
		d.Refused += f.Calls
		d.Blocked += stoppedBy(&f)
	}
	days := make([]catalog.PoolDay, 0, len(sums))
	for _, d := range sums {
		days = append(days, *d)
	}
	return src.Catalog.SaveDays(ctx, days)
}

// zoneIn returns the zone of the days of a pool of the price book.
func zoneIn(b *quota.Book, name string) *time.Location {
	pool, err := quota.ParsePool(name)
	if err != nil || b.Upstreams[pool.Upstream] == nil || b.Upstreams[pool.Upstream].Pools[pool.Name] == nil {
		return time.UTC
	}
	return book.Zone(b.Upstreams[pool.Upstream].Pools[pool.Name].Windows)
}

func withoutKey(name string) string {
	if pool, err := quota.ParsePool(name); err == nil && pool.Name != "" {
		return pageOf(pool)
	}
	return name
}

// readDays reads the totals that the catalog keeps, and those of today from the ledger.
func (h *past) readDays(ctx context.Context, s *state, u *quota.Usage) error {
	days, err := s.src.Catalog.Days(ctx, h.pool, h.bars[0].key)
	if err != nil {
		return err
	}
	at := h.index()
	groups := map[string]*group{}
	latest := &past{pool: h.pool, by: byJob, span: "30d", days: daysRead, zone: h.zone}
	latest.lay(s.Now)
	if err := latest.read(ctx, s, u); err != nil {
		return err
	}
	fresh := latest.index()
	for _, d := range days {
		k, ok := at[d.Day]
		if _, is := fresh[d.Day]; !ok || is {
			continue
		}
		h.add(groups, "all", "", k, d.Units)
		h.bars[k].refused, h.bars[k].blocked = d.Refused, d.Blocked
	}
	for i, one := range latest.bars {
		k := at[one.key]
		for _, g := range latest.groups {
			h.add(groups, "all", "", k, g.hours[i])
		}
		h.bars[k].refused, h.bars[k].blocked, h.bars[k].by = one.refused, one.blocked, one.by
	}
	h.rank(groups, s.colours(h.by))
	return nil
}
