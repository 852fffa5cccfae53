package content

import (
	"cmp"
	"compress/gzip"
	"io"
	"iter"
	"strings"
)

// mostInflated is how many bytes gzip is followed for. More is a bomb, or nothing that a
// program reads.
const mostInflated = 1 << 30

// inflater decodes gzip that comes in pieces. It runs as a coroutine: the decoder pulls,
// and the pieces are pushed.
type inflater struct {
	piece  []byte
	ended  bool // no more pieces come
	enough bool // no more data is wanted
	next   func() (struct{}, bool)
	stop   func()
	whole  bool // the data ended, and its sum was right
}

// newInflater shows a function what it decodes, up to most bytes; 0 is mostInflated.
func newInflater(most int64, to func([]byte)) *inflater {
	z := &inflater{}
	most = cmp.Or(most, mostInflated)
	z.next, z.stop = iter.Pull(func(yield func(struct{}) bool) {
		in := &pieces{z: z, yield: yield}
		r, err := gzip.NewReader(in)
		if err != nil {
			return
		}
		out, total := make([]byte, 4<<10), int64(0)
		for total <= most && !z.enough {
			n, err := r.Read(out)
			to(out[:n])
			if total += int64(n); err != nil {
				z.whole = err == io.EOF //nolint:errorlint // a reader returns it as it is
				return
			}
		}
	})
	return z
}

func (z *inflater) write(p []byte) {
	z.piece = p
	z.next() // until it needs more
	z.piece = nil
}

// end ends the decoder. It reports whether the data was whole.
func (z *inflater) end() bool {
	z.ended = true
	z.next()
	z.stop()
	return z.whole
}

// pieces is what the decoder reads.
type pieces struct {
	z     *inflater
	yield func(struct{}) bool
}

func (p *pieces) Read(to []byte) (int, error) {
	for len(p.z.piece) == 0 {
		if p.z.ended || !p.yield(struct{}{}) {
			return 0, io.EOF
		}
	}
	n := copy(to, p.z.piece)
	p.z.piece = p.z.piece[n:]
	return n, nil
}

// ReadByte saves the decoder a buffer of its own.
func (p *pieces) ReadByte() (byte, error) {
	var c [1]byte
	_, err := p.Read(c[:])
	return c[0], err
}

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
