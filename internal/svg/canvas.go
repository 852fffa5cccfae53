// Package svg draws small charts: rectangles, lines and text on a canvas.
//
//	c := svg.New(640, 240, "Units per day", "30 days; the limit is 9,500.")
//	c.Line(40, 200, 620, 200, "axis")
//	c.Bar(50, 120, 12, 80, "s1", "2026-11-02: 4,100 units of trending")
//	c.Text(36, 204, "end faint", "0")
//	file := c.File()     // a file of its own, with its stylesheet
//	part := c.Inline()   // for a page that links [Stylesheet]
//
// A picture has classes and no style attributes, so that a page may forbid those. All text
// is escaped. Numbers are short and the output does not vary, so the same picture is always
// the same file.
package svg

import (
	"encoding/xml"
	"math"
	"strconv"
	"strings"
	"time"
)

// Canvas is a picture. Later shapes cover earlier ones. The unit is a pixel, and y grows
// downwards. Classes are those of [Stylesheet], separated by spaces.
type Canvas struct {
	width, height float64
	title, desc   string
	body          strings.Builder
	indent        string
}

// New returns an empty picture. Screen readers read its title and description. A browser
// shows the title as a tooltip.
func New(width, height float64, title, desc string) *Canvas {
	return &Canvas{width: width, height: height, title: title, desc: desc, indent: "  "}
}

// Point is a point on the canvas.
type Point struct{ X, Y float64 }

// Rect draws a rectangle. The point is its upper left corner.
func (c *Canvas) Rect(x, y, width, height float64, class string) {
	c.Bar(x, y, width, height, class, "")
}

// Bar draws a rectangle with a tooltip.
func (c *Canvas) Bar(x, y, width, height float64, class, hint string) {
	c.shape("rect", class, hint, "x", number(x), "y", number(y), "width", number(width), "height", number(height))
}

// Line draws a line.
func (c *Canvas) Line(x1, y1, x2, y2 float64, class string) {
	c.shape("line", class, "", "x1", number(x1), "y1", number(y1), "x2", number(x2), "y2", number(y2))
}

// Polyline draws a line through points.
func (c *Canvas) Polyline(class string, points ...Point) {
	c.shape("polyline", class, "", "points", join(points))
}

// Polygon fills the area between points. It has a tooltip unless the hint is empty.
func (c *Canvas) Polygon(class, hint string, points ...Point) {
	c.shape("polygon", class, hint, "points", join(points))
}

// Text writes text on the base line y, starting at x. The class "middle" centres it at x,
// and "end" ends it there.
func (c *Canvas) Text(x, y float64, class, text string) {
	c.body.WriteString(c.indent + "<text" + attributes("class", class, "x", number(x), "y", number(y)) + ">" + escape(text) + "</text>\n")
}

// Time writes a time of day in UTC. Its attribute data-at lets a page write it in the time
// zone of the reader.
func (c *Canvas) Time(x, y float64, class string, at time.Time) {
	at = at.UTC()
	c.body.WriteString(c.indent + "<text" + attributes("class", class, "x", number(x), "y", number(y), "data-at", at.Format(time.RFC3339)) + ">" + at.Format("15:04") + "</text>\n")
}

// Group puts the shapes that draw adds into one group.
func (c *Canvas) Group(class string, draw func()) {
	c.body.WriteString(c.indent + "<g" + attributes("class", class) + ">\n")
	c.indent += "  "
	draw()
	c.indent = c.indent[2:]
	c.body.WriteString(c.indent + "</g>\n")
}

// File returns the picture as a file of its own, with its stylesheet.
func (c *Canvas) File() []byte {
	return []byte(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + c.svg("<style>\n"+Stylesheet+"</style>\n"))
}

// Inline returns the picture as an element for a page that links [Stylesheet].
func (c *Canvas) Inline() string { return c.svg("") }

func (c *Canvas) svg(style string) string {
	w, h := number(c.width), number(c.height)
	head := "<svg" + attributes("xmlns", "http://www.w3.org/2000/svg", "class", "chart", "role", "img", "width", w, "height", h, "viewBox", "0 0 "+w+" "+h) + ">\n"
	about := "  <title>" + escape(c.title) + "</title>\n"
	if c.desc != "" {
		about += "  <desc>" + escape(c.desc) + "</desc>\n"
	}
	return head + about + style + c.body.String() + "</svg>\n"
}

// shape writes an element, with its tooltip if it has one.
func (c *Canvas) shape(name, class, hint string, rest ...string) {
	c.body.WriteString(c.indent + "<" + name + attributes(append([]string{"class", class}, rest...)...))
	if hint == "" {
		c.body.WriteString("/>\n")
		return
	}
	c.body.WriteString("><title>" + escape(hint) + "</title></" + name + ">\n")
}

// attributes writes names and values, without those that are empty.
func attributes(pairs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			b.WriteString(" " + pairs[i] + `="` + escape(pairs[i+1]) + `"`)
		}
	}
	return b.String()
}

func join(points []Point) string {
	all := make([]string, len(points))
	for i, p := range points {
		all[i] = number(p.X) + "," + number(p.Y)
	}
	return strings.Join(all, " ")
}

// number writes v with at most two decimals.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100+0, 'f', -1, 64) // +0: there is no -0
}

// escape escapes text for elements and attributes.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder does not fail
	return b.String()
}
