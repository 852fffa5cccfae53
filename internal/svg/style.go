package svg

import _ "embed"

// Stylesheet is how the classes of a picture look, in the light and in the dark. A
// file that stands alone has it inside; a page links it once.
//
//	s1 ... s8     the colour of a series: of bars, areas, and with line of a line
//	line          not filled, a line in its colour
//	axis, grid    the line of zero, and fainter ones
//	limit         a line that nothing should cross
//	shade         what lies behind a part that is different
//	good, bad     a mark of what went well, or wrong; warn of what may go wrong
//	past          what was there before
//	middle, end   text around its place, or to the left of it
//	head, faint   text that is larger, or that stands back
//
//go:embed style.css
var Stylesheet string
