package svg

import _ "embed"

// Stylesheet styles the classes of a picture, for light and dark schemes. [Canvas.File]
// includes it; a page links it once.
//
//	s1 ... s8     the colour of a series, for bars and areas, and with line for lines
//	line          a line in its colour, without a fill
//	axis, grid    the zero line, and fainter lines
//	limit         a line that values should not cross
//	shade         the background of a part that differs
//	good, bad     marks of success and failure; warn is between them
//	past          earlier values
//	middle, end   text centred at its point, or ending there
//	head, faint   larger text, and fainter text
//
//go:embed style.css
var Stylesheet string
