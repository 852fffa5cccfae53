package content

import "strings"

// Decoded shows a body that comes in pieces to a function, without its gzip. It shows
// nothing of a body in another encoding.
type Decoded struct {
	to     func([]byte)
	packed bool
	gzip   *inflater // nil until the body begins
	over   bool
}

// NewDecoded shows a body with a Content-Encoding to a function.
func NewDecoded(encoding string, to func([]byte)) *Decoded {
	packed, readable := encodingOf(encoding)
	return &Decoded{to: to, packed: packed, over: !readable}
}

// encodingOf reports whether a body of an encoding is packed with gzip, and whether it can
// be read here at all.
func encodingOf(encoding string) (packed, readable bool) {
	switch strings.ToLower(encoding) {
	case "", "identity":
		return false, true
	case "gzip", "x-gzip":
		return true, true
	}
	return false, false
}

// Write shows the next piece of the body.
func (d *Decoded) Write(p []byte) {
	switch {
	case d.over || len(p) == 0:
	case !d.packed:
		d.to(p)
	default:
		if d.gzip == nil {
			d.gzip = newInflater(0, d.to)
		}
		d.gzip.write(p)
	}
}

// Enough says, from within the function, that it needs no more of the body.
func (d *Decoded) Enough() {
	d.over = true
	if d.gzip != nil {
		d.gzip.enough = true
	}
}

// End ends the body. It must be called if there was any, but not from within the function.
// The function may get the rest now.
func (d *Decoded) End() {
	if d.gzip != nil {
		d.gzip.end()
		d.gzip = nil
	}
	d.over = true
}
