package pages

import (
	"cmp"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/svg"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// grouping is the label by which a chart groups spend.
type grouping string

const (
	byJob    grouping = "job"
	byMethod grouping = "method"
	byCaller grouping = "caller"
)

// dimension returns the label that the ledger has. Callers are the jobs that are none of ours.
func (by grouping) dimension() quota.Dimension {
	if by == byCaller {
		return quota.ByJob
	}
	return quota.Dimension(by)
}

func (by grouping) label(l *quota.Labels) string {
	if by == byMethod {
		return l.Method
	}
	return l.Job
}

// hours says who spent the units that a window counts, by the hour. The groups and what is
// unnamed add up to what the window counts, unless says tells otherwise.
type hours struct {
	pool    string    // whose units, without a key
	of      string    // what is shown, in words
	within  string    // the window, in words
	since   time.Time // when the earliest units were spent that are shown
	says    sentence  // what the groups add up to if it is not what the window counts, or nil
	from    time.Time // the first hour that is drawn
	n       int       // the number of hours up to now
	groups  []group   // by name
	unnamed int64     // units that no spend explains
	total   int64
}

// The kinds of those who spend.
const (
	kindJob    = "job"
	kindCaller = "caller"
	kindPerson = "person"
	kindHand   = "corrected by hand"
	kindOthers = "outside this ledger"
)

// group is the part of one job or method.
type group struct {
	name  string
	kind  string // of a spender
	hours []int64
	units int64
	class string // of the colour
}

// startOf returns when the earliest units were spent that a window may count.
func startOf(w *quota.WindowUsage, now time.Time) time.Time {
	if w.Spec.Calendar() {
		start, _ := w.Spec.Bounds(window.At(now))
		return start.Time().Add(-max(w.Spec.Lag, 0)) // until then they count for both periods
	}
	return now.Add(-w.Spec.Span())
}

// hours names who spent what a window counts. The spend is kept by the hour, but a window
// may begin within one. Of that first hour, hours takes as many units as the window counts
// beyond the later hours, and each group gets its share of them. A short window is mostly
// that first hour, and for a key only the spend of all keys is known. In these two cases
// hours shows whole hours, and says so.
func (s *state) hours(u *quota.Usage, w *quota.WindowUsage, by grouping) hours {
	if w == nil && s.Outage == nil {
		return hours{}
	}
	var h hours
	if w == nil { // all that is known is what runs saved
		w = &quota.WindowUsage{Spec: window.Spec{Per: day}, WindowState: quota.WindowState{Window: "24h", Used: math.MaxInt64}}
	}
	start := startOf(w, s.Now)
	if long := s.Now.Add(-spendRead); start.After(long) {
		h.from = start.UTC().Truncate(time.Hour)
	} else {
		h.from = long.UTC().Truncate(time.Hour)
	}
	h.within, h.since = period(w), start
	h.pool, h.of = pageOf(u.Pool), spendOf(u.Pool.String())+" that count "+h.within
	h.n = int(s.Now.Sub(h.from)/time.Hour) + 1
	whole, first, undated, kinds := map[place]int64{}, map[place]int64{}, map[place]int64{}, map[string]string{}
	for _, sp := range s.spend {
		if sp.Pool.Upstream != u.Pool.Upstream || sp.Pool.Account != u.Pool.Account || sp.Pool.Name != u.Pool.Name {
			continue
		}
		name, kind := s.spender(by, &sp.Labels)
		at := place{name, -1}
		if !sp.Hour.Before(h.from) {
			at.hour = int(sp.Hour.Sub(h.from) / time.Hour)
		}
		kinds[name] = kind
		switch {
		case sp.Hour.IsZero():
			undated[at] += sp.Units
		case !sp.Hour.Add(time.Hour).After(start):
		case sp.Hour.Before(start):
			first[at] += sp.Units
		default:
			whole[at] += sp.Units
		}
	}
	left := w.Used
	switch all := pageOf(u.Pool); {
	case u.Pool.Key != "":
		h.whole(s, w, say("Spent of all keys"))
		h.of, left = spendOf(all)+", all keys", math.MaxInt64
	case s.Outage == nil && verdict.IsShort(w) && len(first) > 1 && sumOf(whole)+sumOf(first) > left:
		h.whole(s, w, say("Spent"))
		h.of, left = spendOf(all), math.MaxInt64
	}
	most := left
	groups := map[string]*group{}
	for _, part := range []map[place]int64{whole, first, undated} {
		for at, units := range within(part, left) {
			g := groups[at.group]
			if g == nil {
				g = &group{name: at.group, kind: kinds[at.group], hours: make([]int64, h.n)}
				groups[at.group] = g
			}
			if g.units += units; at.hour >= 0 && at.hour < h.n {
				g.hours[at.hour] += units
			}
			left -= units
		}
	}
	h.total = most - left
	if s.Outage == nil && h.says == nil {
		h.unnamed, h.total = left, w.Used
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		h.groups = append(h.groups, *groups[name])
	}
	s.colours(by).paint(h.groups)
	return h
}

// whole says that the groups are those of whole hours.
func (h *hours) whole(s *state, w *quota.WindowUsage, what sentence) {
	h.since = startOf(w, s.Now).UTC().Truncate(time.Hour)
	h.says = say(what, " since ", s.Moment(h.since))
}

func sumOf(parts map[place]int64) (sum int64) {
	for _, units := range parts {
		sum += units
	}
	return sum
}

// pageOf returns the name of a pool without its key. Spend has no key.
func pageOf(p quota.Pool) string {
	p.Key = ""
	return p.String()
}

// spendOfRuns is what runs say that they spent, for when the ledger cannot be read.
func (s *state) spendOfRuns() (all []quota.Spent) {
	for i := range s.runs {
		r := &s.runs[i]
		j := s.job(r.Job)
		for _, w := range r.Work {
			charges, labels := w.Charges, quota.Labels{Job: r.Job}
			if j != nil {
				labels.Method = strings.Join(j.Methods, " + ")
				more, rest := catalog.Charges{}, max(w.Units-charges.Sum(), 0) // of earlier versions
				for _, name := range j.Pools() {
					more[name] = int64(float64(rest)*j.Share[name] + 0.5)
				}
				charges.Add(more)
			}
			for name, units := range charges {
				if pool, err := quota.ParsePool(name); err == nil && units > 0 {
					all = append(all, quota.Spent{Pool: pool, Hour: endOf(r, &w).UTC().Truncate(time.Hour), Units: units, Labels: labels})
				}
			}
		}
	}
	return all
}

// place is a group in an hour of a chart; the hour -1 is no place.
type place struct {
	group string
	hour  int
}

func (s *state) spender(by grouping, l *quota.Labels) (name, kind string) {
	name = by.label(l)
	switch person := verdict.Person(l.Reason); {
	case l.Method == quota.Others:
		return "others", kindOthers
	case person != "":
		return person, kindPerson
	case l.Reason != "":
		return "corrections", kindHand
	case name == "":
		return "no " + string(by), ""
	case by != byJob:
		return name, ""
	case !s.ours[name]:
		return name, kindCaller
	}
	return name, kindJob
}

// within reduces units in proportion so that they are at most so many. Units that
// corrections gave back reduce the others.
func within(parts map[place]int64, most int64) map[place]int64 {
	keys := slices.SortedFunc(maps.Keys(parts), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.hour, b.hour))
	})
	var units []int64
	var sum, net int64
	for _, k := range keys {
		net += parts[k]
		units = append(units, max(parts[k], 0))
		sum += max(parts[k], 0)
	}
	if most = min(most, max(net, 0)); sum > most {
		units = split(most, units)
	}
	reduced := map[place]int64{}
	for i, k := range keys {
		if units[i] > 0 {
			reduced[k] = units[i]
		}
	}
	return reduced
}

// split divides a whole in proportion to some weights. The remainder of rounding down goes to
// the parts that lost most by it, so that the parts add up.
func split(whole int64, weights []int64) []int64 {
	var sum float64
	for _, w := range weights {
		sum += float64(w)
	}
	parts, order := make([]int64, len(weights)), make([]int, len(weights))
	lost := make([]float64, len(weights))
	left := whole
	for i, w := range weights {
		order[i] = i
		if sum > 0 {
			exact := float64(whole) * (float64(w) / sum)
			parts[i] = min(int64(exact), left)
			lost[i] = exact - float64(parts[i])
		}
		left -= parts[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lost[b], lost[a]) })
	for _, i := range order {
		if left > 0 && weights[i] > 0 {
			parts[i]++
			left--
		}
	}
	return parts
}

// legend returns a line for each group, the largest first, and one for what is unnamed. The
// shares add up to 100%.
func (h *hours) legend() (lines []legend) {
	groups := slices.Clone(h.groups)
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.units, a.units) })
	if h.unnamed > 0 {
		groups = append(groups, group{name: "not named", class: classNone, units: h.unnamed})
	}
	return linesOf(h.pool, groups)
}

// linesOf returns a line for each group. One that gave units back has no share.
func linesOf(pool string, groups []group) (lines []legend) {
	var units []int64
	for _, g := range groups {
		units = append(units, max(g.units, 0))
	}
	shares := split(100, units)
	for i, g := range groups {
		l := legend{g.class, g.name, g.kind, view.Amount(pool, g.units), view.Number(shares[i]) + "%", g.units, shares[i]}
		if g.units < 0 {
			l.Share = ""
		}
		lines = append(lines, l)
	}
	return lines
}

// endOf returns when work ended; for work under way, when its run ended or started.
func endOf(r *catalog.RunRecord, w *catalog.WorkRecord) time.Time {
	return cmp.Or(w.EndedAt, r.EndedAt, r.StartedAt)
}

// who says who spent the units of a pool that a window counts, the largest first. The lines
// add up to what is used, unless Says tells otherwise.
type who struct {
	Pool, Within string
	Of           string // what the lines are of
	Used, Limit  string
	Says         sentence
	Bar          template.HTML
	Lines        []legend
	CSV          string // address of the same figures
}

// mostLines is how many spenders the first card names.
const mostLines = 6

// who names the spenders of a pool, by job. Without a window it takes the one that is shown.
func (s *state) who(u *quota.Usage, w *quota.WindowUsage) *who {
	w = cmp.Or(w, verdict.Shown(u))
	h := s.hours(u, w, byJob)
	lines := h.legend()
	a := &who{Pool: u.Pool.String(), Within: h.within, Used: view.Amount(u.Pool.String(), h.total), Of: h.of, Says: h.says}
	csv, limit := url.Values{"pool": {a.Pool}}, h.total
	if w != nil {
		csv.Set("window", w.Window)
		a.Limit, a.Used = view.Amount(a.Pool, w.Limit), view.Amount(a.Pool, w.Used)
		if h.says == nil {
			limit = w.Limit
		}
	}
	a.CSV = "/csv/who?" + csv.Encode()
	desc := a.Used + " of " + view.Units(a.Pool, limit) + " are used. The list below names who spent them."
	if h.says != nil {
		desc = h.says.String() + ": " + view.Units(a.Pool, h.total) + ". The list below names who spent them."
	}
	a.Bar = drawWho(a.Pool, lines, max(limit, h.total), desc)
	a.Lines = firstOf(a.Pool, lines, mostLines)
	return a
}

// spendOf says of what the spend is shown.
func spendOf(pool string) string {
	if view.Units(pool, 0) == view.Amount(pool, 0) {
		return "Dollars of " + pool
	}
	return "Units of " + pool
}

// firstOf returns the first lines, and one that sums up the others.
func firstOf(pool string, lines []legend, most int) []legend {
	if len(lines) <= most {
		return lines
	}
	var rest, share int64
	for _, l := range lines[most-1:] {
		rest += l.units
		share += l.share
	}
	return append(lines[:most-1:most-1], legend{Class: classNone, Name: view.Number(int64(len(lines)-most+1)) + " others", Units: view.Amount(pool, rest), Share: view.Number(share) + "%", units: rest, share: share})
}

// drawWho draws a bar of the spenders, as long as the limit.
func drawWho(pool string, lines []legend, limit int64, desc string) template.HTML {
	const width, height, gap, least = 1000.0, 24.0, 3.0, 5.0
	if limit <= 0 {
		limit = 1
	}
	c := svg.New(width, height, "Who spent it", desc)
	c.Rect(0, 0, width, height, "track")
	x := 0.0
	for _, l := range lines {
		part := math.Max(float64(l.units)/float64(limit)*width, least)
		if x+part > width {
			part = math.Max(width-x, 0)
		}
		c.Bar(x, 0, math.Max(part-gap, 1), height, cmp.Or(l.Class, classNone), l.Name+": "+view.Units(pool, l.units))
		x += part
	}
	return inline(c)
}
