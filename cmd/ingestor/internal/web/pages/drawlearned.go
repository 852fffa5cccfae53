package pages

import (
	"html/template"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/svg"
	"github.com/headroom-quota/headroom/quota"
)

// drawLearned draws how a learned limit changed: what passed in a second, from one refusal to the
// next. It draws nothing before there are two of them.
func drawLearned(k *quota.Learned) template.HTML {
	const width, height, left, top, bottom = 340.0, 120.0, 52.0, 12.0, 24.0
	if len(k.Course) < 2 {
		return ""
	}
	first, last, most := k.Course[0].At, k.Course[len(k.Course)-1].At, 0.0
	for _, r := range k.Course {
		most = max(most, 60*r.Rate)
	}
	c := svg.New(width, height, "The limit as it was learned, in units a minute", "The latest is "+view.Rate(k.Measured)+".")
	y := grid(c, left, top, width, height-bottom, svg.Ticks(0, max(most, 1), 3))
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
