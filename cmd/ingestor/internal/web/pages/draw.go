package pages

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/svg"
	"github.com/headroom-quota/headroom/quota"
)

// inline returns a picture as HTML. The canvas escapes all text.
func inline(c *svg.Canvas) template.HTML {
	return template.HTML(c.Inline()) //nolint:gosec // see above
}

// draw draws a bar for each hour, with the groups stacked.
func (h *hours) draw(by grouping, width float64) template.HTML {
	const height, left, top, bottom = 190.0, 44.0, 12.0, 24.0
	title := fmt.Sprintf("%s by %s, by the hour", h.of, by)
	most, desc := h.peak()
	c := svg.New(width, height, title, desc)
	y := grid(c, h.pool, left, top, width, height-bottom, svg.Ticks(0, float64(most), 4))
	slot := (width - left) / float64(h.n)
	every := 3
	if width < 500 {
		every = 6
	}
	for i := range h.n {
		at := h.from.Add(time.Duration(i) * time.Hour)
		x := left + float64(i)*slot
		if at.Hour()%every == 0 && i > 0 && i < h.n-1 {
			c.Time(x+slot/2, height-6, "middle faint", at)
		}
		stack(c, h.pool, h.groups, i, x, slot, y, at.Format("15:04 UTC"))
	}
	return inline(c)
}

// grid draws the lines of a chart with their numbers. It returns the height of a value.
func grid(c *svg.Canvas, pool string, left, top, width, base float64, ticks []float64) (y func(float64) float64) {
	y = func(v float64) float64 { return base - v/ticks[len(ticks)-1]*(base-top) }
	for _, t := range ticks {
		class := "grid"
		if t == 0 {
			class = "axis"
		}
		c.Line(left, y(t), width, y(t), class)
		c.Text(left-8, y(t)+4, "end faint", view.Amount(pool, int64(t)))
	}
	return y
}

// stack draws what groups spent in the time of a bar, one on top of the other. It returns the sum.
func stack(c *svg.Canvas, pool string, groups []group, bar int, x, slot float64, y func(float64) float64, when string) (sum float64) {
	for _, g := range groups {
		if v := float64(g.hours[bar]); v > 0 {
			c.Bar(x+slot*0.14, y(sum+v), slot*0.72, y(sum)-y(sum+v), g.class, when+": "+view.Units(pool, g.hours[bar])+" of "+g.name)
			sum += v
		}
	}
	return sum
}

// highest returns the bar in which groups spent most.
func highest(groups []group, bars int) (bar int, most int64) {
	for i := range bars {
		var sum int64
		for _, g := range groups {
			sum += max(g.hours[i], 0)
		}
		if sum > most {
			bar, most = i, sum
		}
	}
	return bar, most
}

// peak returns the units of the highest hour, and a description of the chart.
func (h *hours) peak() (most int64, desc string) {
	bar, most := highest(h.groups, h.n)
	if most == 0 {
		return 0, "None is used."
	}
	at := h.from.Add(time.Duration(bar) * time.Hour).Format("15:04 UTC")
	return most, fmt.Sprintf("%s in all, at most %s in the hour from %s. The table below has the sums.", view.Amount(h.pool, h.total), view.Amount(h.pool, most), at)
}

// lookAhead is how far into the future a timeline reaches.
const lookAhead = 6 * time.Hour

// drawRuns draws the runs of the last 24 hours, with a row for each job, and when jobs are
// due in the next hours. Failed and deferred runs differ in shape as well as in colour.
func (s *state) drawRuns(width float64) template.HTML {
	names := s.jobNames()
	left, row, every := 110.0, 34.0, 3
	if width < 500 {
		left, row, every = 8, 46, 6
	}
	const top, bottom = 22.0, 8.0
	height := top + row*float64(len(names)) + bottom
	c := svg.New(width, height, "Runs of the last 24 hours, and when jobs are due in the next 6", s.runsInWords())
	from, to := s.Now.Add(-day), s.Now.Add(lookAhead)
	x := func(t time.Time) float64 { return left + float64(t.Sub(from))/float64(to.Sub(from))*(width-left-4) }
	c.Rect(x(s.Now), top-4, width-x(s.Now), height-top-bottom+8, "shade")
	for t := from.UTC().Truncate(time.Hour).Add(time.Hour); t.Before(to); t = t.Add(time.Hour) {
		if t.Hour()%every == 0 {
			c.Line(x(t), top-4, x(t), height-bottom+4, "grid")
			if near := x(t) - x(s.Now); near < -36 || near > 36 {
				c.Time(x(t), 12, "middle faint", t)
			}
		}
	}
	c.Line(x(s.Now), top-6, x(s.Now), height-bottom+4, "axis")
	c.Text(x(s.Now), 12, "middle", "now")
	for i, name := range names {
		mid := top + row*(float64(i)+0.5)
		if width < 500 {
			c.Text(left, mid-10, "", name)
			mid += 8
		} else {
			c.Text(left-12, mid+4, "end", shorten(name))
		}
		c.Line(left, mid, width-4, mid, "grid")
		for k := len(s.runs) - 1; k >= 0; k-- {
			if s.runs[k].Job == name {
				s.mark(c, &s.runs[k], x, mid)
			}
		}
		s.ticks(c, name, x, mid, to)
	}
	return inline(c)
}

// mark draws a run: a bar over its duration, a triangle if it was deferred, or a cross if
// it failed.
func (s *state) mark(c *svg.Canvas, r *catalog.RunRecord, x func(time.Time) float64, y float64) {
	end := r.EndedAt
	if end.IsZero() {
		end = s.Now
	}
	x1 := x(later(r.StartedAt, s.Now.Add(-day)))
	x2 := max(x(end), x1+4)
	hint := fmt.Sprintf("%s, %s: %s, %s", r.Job, s.Stamp(r.StartedAt), r.State, count(view.Total(r).Units, "unit"))
	switch r.State {
	case catalog.Deferred:
		c.Polygon("warn", hint, svg.Point{X: x1 - 6, Y: y + 6}, svg.Point{X: x1, Y: y - 7}, svg.Point{X: x1 + 6, Y: y + 6})
	case catalog.Failed:
		const a, b = 2.2, 6.5
		c.Polygon("bad", hint, cross(x1, y, a, b)...)
	case catalog.Skipped: // nothing ran
	case catalog.Running:
		c.Bar(x1, y-7, x2-x1, 14, "running", hint)
	default:
		c.Bar(x1, y-7, x2-x1, 14, "done", hint)
	}
}

// ticks draws when a job is due, and when its deferred work resumes.
func (s *state) ticks(c *svg.Canvas, name string, x func(time.Time) float64, y float64, to time.Time) {
	j := s.job(name)
	if j == nil {
		return
	}
	n := 0
	for at := j.Next; !at.IsZero() && at.Before(to) && n < 400; at = j.Schedule().Next(at) {
		c.Bar(x(at)-1, y-7, 2, 14, "due", name+" is due at "+s.Stamp(at))
		n++
	}
	if at, resumes := j.Start(s.Now); resumes && at.Before(to) {
		c.Bar(x(at)-2, y-9, 4, 18, "warn", name+" resumes at "+s.Stamp(at))
	}
}

// runsInWords describes the timeline for screen readers.
func (s *state) runsInWords() string {
	n := map[catalog.State]int64{}
	for i := range s.runs {
		n[s.runs[i].State]++
	}
	return fmt.Sprintf("%s: %d done, %d deferred, %d failed, %d skipped, %d under way. The table below has the latest.", count(int64(len(s.runs)), "run"),
		n[catalog.Done], n[catalog.Deferred], n[catalog.Failed], n[catalog.Skipped], n[catalog.Running])
}

// shorten cuts a name so that it fits beside a timeline.
func shorten(name string) string {
	const most = 15
	if len(name) <= most {
		return name
	}
	return name[:most-1] + "…" // names of jobs are ASCII
}

// drawLearned draws how a learned limit changed: what passed in a second, from one refusal to the
// next. It draws nothing before there are two of them, nor while calls in flight are limited instead.
func drawLearned(k *quota.Learned) template.HTML {
	const width, height, left, top, bottom = 340.0, 120.0, 52.0, 12.0, 24.0
	if k.Places > 0 || len(k.Course) < 2 {
		return ""
	}
	first, last, most := k.Course[0].At, k.Course[len(k.Course)-1].At, 0.0
	for _, r := range k.Course {
		most = max(most, 60*r.Rate)
	}
	c := svg.New(width, height, "The limit as it was learned, in units a minute", "The latest is "+view.Rate(k.Measured)+".")
	y := grid(c, "", left, top, width, height-bottom, svg.Ticks(0, max(most, 1), 3))
	x := func(r quota.LearnedRate) float64 {
		return left + r.At.Sub(first).Seconds()/max(last.Sub(first).Seconds(), 1)*(width-left)
	}
	var line []svg.Point
	for _, r := range k.Course {
		line = append(line, svg.Point{X: x(r), Y: y(60 * r.Rate)})
	}
	c.Polyline("running", line...)
	c.Time(left, height-7, "faint", first)
	c.Time(width, height-7, "end faint", last)
	return inline(c)
}

// draw draws a bar for each day or hour, with the groups stacked, the limit of a day as a
// line, and marks where calls were refused or work was blocked.
func (h *past) draw(width float64) template.HTML {
	const height, left, top, bottom = 260.0, 52.0, 30.0, 26.0
	most, desc := h.peak()
	c := svg.New(width, height, spendOf(h.of())+" by "+string(h.by), desc)
	limit := h.limit
	if h.span == "24h" {
		limit = 0
	}
	y := grid(c, h.pool, left, top, width, height-bottom, svg.Ticks(0, float64(max(most, limit, 1)), 4))
	slot := (width - left) / float64(len(h.bars))
	const label = 40.0 // is the width of "30 Sep", with some room; the last ends with the picture
	every := max(int(math.Ceil((label+4+max(label-slot, 0)/2)/slot)), 1)
	for i := range h.bars {
		b := &h.bars[i]
		x := left + float64(i)*slot
		if (len(h.bars)-1-i)%every == 0 { // so that the last has one
			at, class := x+slot/2, "middle faint"
			if at+label/2 > width {
				at, class = width, "end faint"
			}
			if h.span == "24h" {
				c.Time(at, height-7, class, b.at)
			} else {
				c.Text(at, height-7, class, b.at.Format("2 Jan"))
			}
		}
		sum := stack(c, h.pool, h.groups, i, x, slot, y, h.nameOfBar(b))
		h.marks(c, b, x+slot/2, y(sum)-7)
	}
	if limit > 0 {
		c.Line(left, y(float64(limit)), width, y(float64(limit)), "limit")
		c.Text(width-2, y(float64(limit))-5, "end faint", "limit "+view.Amount(h.pool, limit))
	}
	return inline(c)
}

// marks draws a triangle where calls were refused, and a cross where work was blocked.
func (h *past) marks(c *svg.Canvas, b *bar, x, y float64) {
	if b.refused > 0 {
		c.Polygon("warn", h.nameOfBar(b)+": "+b.says(),
			svg.Point{X: x - 5, Y: y + 4}, svg.Point{X: x, Y: y - 6}, svg.Point{X: x + 5, Y: y + 4})
		y -= 13
	}
	if b.blocked > 0 {
		c.Polygon("bad", h.nameOfBar(b)+": a block stopped "+count(b.blocked, "unit of work or call", "units of work or calls"), cross(x-4.5, y, 2, 5.5)...)
	}
}

// says says how many calls were refused, and whose most were.
func (b *bar) says() string {
	text := count(b.refused, "call was", "calls were") + " refused"
	names := slices.SortedFunc(maps.Keys(b.by), func(x, y string) int { return cmp.Or(cmp.Compare(b.by[y], b.by[x]), strings.Compare(x, y)) })
	for i, name := range names[:min(len(names), mostLines)] {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		text += sep + view.Number(b.by[name]) + " of " + name
	}
	return text
}

// cross returns the outline of a cross: its left end, the half of its stroke, and of its
// size.
func cross(x, y, a, b float64) []svg.Point {
	var all []svg.Point
	for _, d := range [][2]float64{{0, -a}, {b - a, -b}, {b, a - b}, {a, 0}, {b, b - a}, {b - a, b}, {0, a}, {a - b, b}, {-b, b - a}, {-a, 0}, {-b, a - b}, {a - b, -b}} {
		all = append(all, svg.Point{X: x + d[0], Y: y + d[1]})
	}
	return all
}

func (h *past) nameOfBar(b *bar) string {
	if h.span == "24h" {
		return b.at.Format("15:04 UTC")
	}
	return b.at.Format("2 January")
}

// peak returns the units of the highest bar, and a description of the chart.
func (h *past) peak() (most int64, desc string) {
	bar, most := highest(h.groups, len(h.bars))
	if most == 0 {
		return 0, "Nothing was spent."
	}
	return most, fmt.Sprintf("%s in all, at most %s: %s. The table below has the sums.", view.Units(h.pool, h.total), view.Amount(h.pool, most), h.nameOfBar(&h.bars[bar]))
}

// did returns what people did on the pages, or nil if nobody did anything.
func (s *state) did(ctx context.Context, b *Board) *table {
	const latest = 20
	t := view.Table{Columns: []view.Column{{Name: "when"}, {Name: "who"}, {Name: "did"}, {Name: "to", Long: true}, {Name: "detail", Long: true}}}
	all, err := b.actions(ctx, s, latest)
	if err != nil || len(all) == 0 {
		return nil
	}
	for _, a := range all {
		t.Rows = append(t.Rows, []any{a.At, a.Who, a.What, view.Plain(a.Target), view.Plain(a.Detail)})
	}
	return s.table("What people did on these pages", false, t)
}
