// Package svg draws small charts: rectangles, lines and text on a canvas.
//
//	c := svg.New(640, 240, "Units per day", "30 days; the limit is 9,500.")
//	c.Line(40, 200, 620, 200, "axis")
//	c.Bar(50, 120, 12, 80, "s1", "2026-11-02: 4,100 units of trending")
//	c.Text(36, 204, "end faint", "0")
//	file := c.File()     // stands alone, with its own colours
//	part := c.Inline()   // belongs into a page that links [Stylesheet]
//
// A picture has class names and no style attributes, so that a page may forbid
// them. What the classes look like, in the light and in the dark, is [Stylesheet].
// All text is escaped, wherever it came from, and numbers are short, so that the
// same picture is the same file.
package svg
