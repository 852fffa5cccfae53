package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/svg"
	"github.com/headroom-quota/headroom/quota/book"
)

// The measures of a picture.
const (
	pictureWidth = 900
	plotLeft     = 64
	plotRight    = pictureWidth - 24
	plotHeight   = 132
	headHeight   = 84
	panelHeight  = plotHeight + 74
	rowHeight    = 20
	maxRows      = 12 // of work that falls behind
)

type picture struct {
	*Plan
	*svg.Canvas
	series map[string]string // the class of each job
	shown  []string          // the jobs, sorted
}

// SVG returns a drawing of the plan. It shows units by pool, day and job, the limits,
// deferrals, and work that falls behind.
func (p *Plan) SVG() []byte {
	height := headHeight + len(p.Pools)*panelHeight + p.staleHeight()
	d := &picture{Plan: p, Canvas: svg.New(pictureWidth, float64(height), "The schedule, priced", p.Outcome()), series: map[string]string{}}
	jobs := map[string]bool{}
	for _, pool := range p.Pools {
		for _, day := range pool.Days {
			for job := range day.Jobs {
				jobs[job] = true
			}
		}
	}
	d.shown = slices.Sorted(maps.Keys(jobs))
	for i, job := range d.shown {
		d.series[job] = "s" + strconv.Itoa(i%8+1)
	}
	d.Rect(0, 0, pictureWidth, float64(height), "page")
	d.head()
	y := float64(headHeight)
	for i := range p.Pools {
		d.panel(&p.Pools[i], y)
		y += panelHeight
	}
	d.behind(y)
	return d.File()
}

// Outcome returns the result of the plan in a sentence.
func (p *Plan) Outcome() string {
	switch {
	case p.Impossible != "":
		return "It can never fit: " + p.Impossible
	case p.First == nil && len(p.LeftOut) > 0:
		return "Nothing is deferred, but the plan leaves out spend of " + strings.Join(p.LeftOut, ", ") + "."
	case p.First == nil:
		return "It fits: nothing is deferred."
	}
	f := p.First
	return fmt.Sprintf("It does not fit: at %s %s of %s is deferred until %s, as %s.", p.moment(f.At), shortened(f.Work), f.Job, p.moment(f.Until), f.Why())
}

func (p *Plan) moment(t time.Time) string {
	if zone, err := time.LoadLocation(p.Zone); err == nil {
		t = t.In(zone)
	}
	return t.Format("2006-01-02 15:04 MST")
}

func (d *picture) head() {
	d.Text(plotLeft-40, 28, "head", fmt.Sprintf("Units per day, %s to %s", d.moment(d.From), d.moment(d.Until)))
	class := "good"
	if !d.Fits {
		class = "bad"
	}
	d.Rect(plotLeft-40, 38, 8, 8, class)
	d.Text(plotLeft-26, 47, "", d.Outcome())
	x := float64(plotLeft - 40)
	entry := func(class, text string) {
		d.Rect(x, 60, 10, 10, class)
		d.Text(x+15, 69, "faint", text)
		x += 15 + 6.5*float64(len([]rune(text))) + 18
	}
	for _, job := range d.shown {
		entry(d.series[job], job)
	}
	if slices.ContainsFunc(d.Pools, func(p Pool) bool { return p.Days[0].Before > 0 }) {
		entry("past", "spent before")
	}
	if len(d.Deferred) > 0 {
		entry("bad", "deferred")
	}
}

func (d *picture) panel(p *Pool, top float64) {
	highest := int64(1)
	for _, day := range p.Days {
		highest = max(highest, day.Before+day.Units)
	}
	limited := p.Limit > 0 && p.Limit <= 4*highest
	title := p.Pool
	switch {
	case limited:
		highest = max(highest, p.Limit)
		title += ", limit " + amount(p.Pool, p.Limit)
	case p.Limit > 0:
		title += ", far below its limit of " + amount(p.Pool, p.Limit)
	}
	d.Text(plotLeft-40, top+18, "", title)
	a := axes{top: top + 34, ticks: svg.Ticks(0, 1.04*float64(highest), 4), days: len(p.Days)}
	d.days(p, &a)
	for _, tick := range a.ticks {
		class := "grid"
		if tick == 0 {
			class = "axis"
		}
		d.Line(plotLeft, a.y(tick), plotRight, a.y(tick), class)
		d.Text(plotLeft-8, a.y(tick)+4, "end faint", amount(p.Pool, int64(tick)))
	}
	for i := range p.Days {
		d.bar(p, &a, i)
	}
	if limited {
		d.Line(plotLeft, a.y(float64(p.Limit)), plotRight, a.y(float64(p.Limit)), "limit")
	}
}

type axes struct {
	top   float64
	ticks []float64
	days  int
}

func (a *axes) y(units float64) float64 {
	return a.top + plotHeight*(1-units/a.ticks[len(a.ticks)-1])
}

func (a *axes) x(day int) float64 {
	return plotLeft + float64(plotRight-plotLeft)*float64(day)/float64(a.days)
}

// days labels some of the days, and shades days of 23 and 25 hours.
func (d *picture) days(p *Pool, a *axes) {
	step := (a.days + 9) / 10
	for i, day := range p.Days {
		name := day.Day
		if t, err := time.Parse(time.DateOnly, day.Day); err == nil {
			name = t.Format("Jan 2")
		}
		middle := (a.x(i) + a.x(i+1)) / 2
		if i%step == 0 {
			d.Text(middle, a.top+plotHeight+16, "middle faint", name)
		}
		if i > 0 && day.Hours != 24 {
			d.Rect(a.x(i), a.top-12, a.x(i+1)-a.x(i), plotHeight+12, "shade")
			d.Text(middle, a.top+plotHeight+28, "middle faint", fmt.Sprintf("%g h", day.Hours))
		}
	}
}

// bar draws a day: earlier spend and the spend of each job, stacked.
func (d *picture) bar(p *Pool, a *axes, i int) {
	day := &p.Days[i]
	gap := min((a.x(1)-a.x(0))*0.2, 6)
	left, width := a.x(i)+gap/2, a.x(1)-a.x(0)-gap
	below := int64(0)
	part := func(units int64, class, hint string) {
		if units <= 0 {
			return
		}
		top := a.y(float64(below + units))
		d.Bar(left, top, width, a.y(float64(below))-top, class, hint)
		below += units
	}
	part(day.Before, "past", fmt.Sprintf("%s: %s spent before", day.Day, units(p.Pool, day.Before)))
	for _, job := range slices.Sorted(maps.Keys(day.Jobs)) {
		part(day.Jobs[job], d.series[job], fmt.Sprintf("%s: %s of %s", day.Day, units(p.Pool, day.Jobs[job]), job))
	}
	if day.Deferred > 0 {
		x, y := left+width/2, a.y(float64(below))-5
		r := min(width/2, 5)
		d.Polygon("bad", fmt.Sprintf("%s: deferred %d times", day.Day, day.Deferred),
			svg.Point{X: x - r, Y: y - 1.6*r}, svg.Point{X: x + r, Y: y - 1.6*r}, svg.Point{X: x, Y: y})
	}
}

func (p *Plan) staleHeight() int {
	rows := min(len(p.Stale), maxRows)
	if rows == 0 {
		return 0
	}
	return 44 + rowHeight*rows + 16
}

// behind draws the work that falls behind its schedule, the worst first.
func (d *picture) behind(top float64) {
	if len(d.Stale) == 0 {
		return
	}
	shown := d.Stale[:min(len(d.Stale), maxRows)]
	title := "Behind schedule at worst"
	if len(shown) < len(d.Stale) {
		title += fmt.Sprintf(", the first %d of %d", len(shown), len(d.Stale))
	}
	d.Text(plotLeft-40, top+18, "", title)
	const left, right = 230, plotRight - 150
	worst := 1.0
	for _, s := range shown {
		worst = max(worst, float64(s.Behind))
	}
	for i, s := range shown {
		y := top + 34 + float64(i)*rowHeight
		long := time.Duration(s.Behind) * time.Second
		d.Text(left-10, y+12, "end", shortened(s.Job+" "+s.Work))
		d.Bar(left, y+2, max((right-left)*float64(s.Behind)/worst, 1), rowHeight-7, cmp.Or(d.series[s.Job], "warn"), s.Error)
		d.Text(left+max((right-left)*float64(s.Behind)/worst, 1)+8, y+12, "faint", fmt.Sprintf("%s since %s", hours(long), d.moment(s.Since)[5:16]))
	}
}

// shortened cuts a text to fit beside a bar.
func shortened(text string) string {
	const limit = 26
	if r := []rune(text); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return text
}

func hours(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
	return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
}

// amount writes units of a pool: 1,250, or 12.50 USD of a budget.
func amount(pool string, n int64) string {
	if strings.HasPrefix(pool, book.BudgetKey("")) {
		return book.FormatMoney(n)
	}
	return grouped(n)
}

// units writes units of a pool with their word.
func units(pool string, n int64) string {
	text := amount(pool, n)
	if strings.HasSuffix(text, book.Money) {
		return text
	}
	return text + " units"
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
