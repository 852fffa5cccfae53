package content

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
	"iter"
	"net/url"
	"strings"

	"github.com/headroom-quota/headroom/quota/book"
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

// events splits server-sent events. It gives the data of each to a scanner, and ends each.
type events struct {
	to      *Reading
	matched int  // bytes of the line that are those of field; -1: the line is something else
	space   bool // a space may follow the field
	newline bool // the last character was \r
	data    bool // the event has data
	said    int  // characters of the event that are those of lastEvent; -1: it is another one
	done    bool // an event said that it is the last
}

const (
	field = "data:"
	// lastEvent is the data of the event with which many upstreams end a stream.
	lastEvent = "[DONE]"
)

func (e *events) write(p []byte) {
	for len(p) > 0 {
		if e.newline && p[0] == '\n' { // of \r\n
			e.newline, p = false, p[1:]
			continue
		}
		e.newline = false
		n, whole := bytes.IndexByte(p, '\n'), true
		if n < 0 {
			n, whole = len(p), false
		}
		if i := bytes.IndexByte(p[:n], '\r'); i >= 0 {
			n, whole = i, true
		}
		if e.line(p[:n]); !whole {
			return
		}
		if e.newline = p[n] == '\r'; e.matched == 0 { // an empty line
			e.end()
		}
		e.matched = 0
		p = p[n+1:]
	}
}

func (e *events) line(p []byte) {
	for ; len(p) > 0 && e.matched >= 0 && e.matched < len(field); p = p[1:] {
		if p[0] != field[e.matched] {
			e.matched = -1
			return
		}
		if e.matched++; e.matched == len(field) {
			e.startData()
		}
	}
	if len(p) == 0 || e.matched < 0 {
		return
	}
	if e.space && p[0] == ' ' {
		p = p[1:]
	}
	e.space = false
	e.say(p)
	e.to.json.write(p)
}

func (e *events) startData() {
	e.space = true
	if e.data { // one more line of the same event
		e.to.json.write([]byte{'\n'})
		e.said = 0
	}
	e.data = true
}

func (e *events) say(p []byte) {
	for _, c := range p {
		if e.said < 0 || e.said == len(lastEvent) || c != lastEvent[e.said] {
			e.said = -1
			return
		}
		e.said++
	}
}

func (e *events) end() {
	if e.data {
		e.done = e.done || e.said == len(lastEvent)
		e.to.endPart()
	}
	e.data, e.said = false, 0
}

// longForm is the longest form that is read.
const longForm = 1 << 20

// form is the body of a request that is a form, as browsers and some SDKs send it.
type form struct {
	text   []byte
	long   bool
	values url.Values // once it has ended
}

func (f *form) write(p []byte) {
	if f.long = f.long || len(f.text)+len(p) > longForm; !f.long {
		f.text = append(f.text, p...)
	}
}

// end reads the values of a form that is complete. Of one that is no form, there are none.
func (f *form) end() {
	if values, err := url.ParseQuery(string(f.text)); err == nil && !f.long {
		f.values = values
	}
	f.text = nil
}

func (f *form) value(s *book.Source) (string, bool) {
	if f == nil || len(f.values[s.Body]) == 0 || s.Body == "" {
		return "", false
	}
	return f.values[s.Body][0], true
}
