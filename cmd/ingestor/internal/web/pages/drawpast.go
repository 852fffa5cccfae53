package pages

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/svg"
)

// draw draws a bar for each day or hour, with the groups stacked, the limit of a day as a
// line, and marks where calls were refused or work was blocked.
func (h *past) draw(width float64) template.HTML {
	const height, left, top, bottom = 260.0, 52.0, 30.0, 26.0
	most, desc := h.peak()
	c := svg.New(width, height, fmt.Sprintf("Units of %s by %s", h.of(), h.by), desc)
	limit := h.limit
	if h.span == "24h" {
		limit = 0
	}
	y := grid(c, left, top, width, height-bottom, svg.Ticks(0, float64(max(most, limit, 1)), 4))
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
		sum := stack(c, h.groups, i, x, slot, y, h.nameOfBar(b))
		h.marks(c, b, x+slot/2, y(sum)-7)
	}
	if limit > 0 {
		c.Line(left, y(float64(limit)), width, y(float64(limit)), "limit")
		c.Text(width-2, y(float64(limit))-5, "end faint", "limit "+view.Number(limit))
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
	return most, fmt.Sprintf("%s in all, at most %s: %s. The table below has the sums.", count(h.total, "unit"), view.Number(most), h.nameOfBar(&h.bars[bar]))
}

// did returns what people did on the pages, or nil if nobody did anything.
func (s *state) did(ctx context.Context, b *Board) *table {
	const latest = 20
	t := view.Table{Columns: []view.Column{{Name: "when"}, {Name: "who"}, {Name: "did"}, {Name: "to", Long: true}, {Name: "detail", Long: true}}}
	err := b.o.Facts.Within(ctx, func(ctx context.Context) error {
		all, err := s.src.Catalog.Actions(ctx, latest)
		for _, a := range all {
			t.Rows = append(t.Rows, []any{a.At, a.Who, a.What, view.Plain(a.Target), view.Plain(a.Detail)})
		}
		return err
	})
	if err != nil || len(t.Rows) == 0 {
		return nil
	}
	return s.table("What people did on these pages", false, t)
}
