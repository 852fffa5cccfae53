package pages

import (
	"cmp"
	"html/template"
	"math"
	"net/url"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/svg"
	"github.com/headroom-quota/headroom/quota"
)

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
	a.Bar = drawWho(lines, max(limit, h.total), desc)
	a.Lines = firstOf(lines, mostLines)
	for i := range a.Lines {
		a.Lines[i].Units = view.Amount(a.Pool, a.Lines[i].units)
	}
	return a
}

// firstOf returns the first lines, and one that sums up the others.
func firstOf(lines []legend, most int) []legend {
	if len(lines) <= most {
		return lines
	}
	var rest, share int64
	for _, l := range lines[most-1:] {
		rest += l.units
		share += l.share
	}
	return append(lines[:most-1:most-1], legend{Class: classNone, Name: view.Number(int64(len(lines)-most+1)) + " others", Units: view.Number(rest), Share: view.Number(share) + "%", units: rest, share: share})
}

// drawWho draws a bar of the spenders, as long as the limit.
func drawWho(lines []legend, limit int64, desc string) template.HTML {
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
		c.Bar(x, 0, math.Max(part-gap, 1), height, cmp.Or(l.Class, classNone), l.Name+": "+count(l.units, "unit"))
		x += part
	}
	return inline(c)
}
