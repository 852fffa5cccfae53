package youtubesim

import (
	"hash/crc32"
	"strconv"
	"time"
	"unicode/utf8"
)

// writer writes JSON directly into a buffer, without the fields that the request does not
// select. A page of 50 videos is 100 kB, and writing it is most of the cost of an answer.
type writer struct {
	buf  []byte
	mask []*mask // the innermost last
}

// comma separates the members of an object or array.
func (w *writer) comma() {
	if n := len(w.buf); n > 0 && w.buf[n-1] != '{' && w.buf[n-1] != '[' {
		w.buf = append(w.buf, ',')
	}
}

// selects reports whether a name is selected here.
func (w *writer) selects(name string) bool {
	ok, _ := w.mask[len(w.mask)-1].sub(name)
	return ok
}

// key writes a name, if it is selected.
func (w *writer) key(name string) bool {
	if !w.selects(name) {
		return false
	}
	w.name(name)
	return true
}

func (w *writer) name(name string) {
	w.comma()
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, '"', ':')
}

// begin opens the object or array of a name, if it is selected. The caller must end it.
func (w *writer) begin(name string, open byte) bool {
	ok, m := w.mask[len(w.mask)-1].sub(name)
	if !ok {
		return false
	}
	w.name(name)
	w.mask = append(w.mask, m)
	w.buf = append(w.buf, open)
	return true
}

// end closes the object or array that begin opened.
func (w *writer) end(closing byte) {
	w.mask = w.mask[:len(w.mask)-1]
	w.buf = append(w.buf, closing)
}

func (w *writer) str(name, value string) {
	if w.key(name) {
		w.text(value)
	}
}

// texts writes an array of strings, or nothing if it is empty.
func (w *writer) texts(name string, values []string) {
	if len(values) == 0 || !w.key(name) {
		return
	}
	w.buf = append(w.buf, '[')
	for _, v := range values {
		w.comma()
		w.text(v)
	}
	w.buf = append(w.buf, ']')
}

func (w *writer) number(name string, value int) {
	if w.key(name) {
		w.buf = strconv.AppendInt(w.buf, int64(value), 10)
	}
}

// count writes a 64-bit number as the upstream does: as a string.
func (w *writer) count(name string, value uint64) {
	if w.key(name) {
		w.buf = append(w.buf, '"')
		w.buf = strconv.AppendUint(w.buf, value, 10)
		w.buf = append(w.buf, '"')
	}
}

func (w *writer) boolean(name string, value bool) {
	if w.key(name) {
		w.buf = strconv.AppendBool(w.buf, value)
	}
}

// time writes seconds since 1970 as RFC 3339.
func (w *writer) time(name string, seconds int64) {
	if w.key(name) {
		w.buf = append(w.buf, '"')
		w.buf = appendTime(w.buf, seconds)
		w.buf = append(w.buf, '"')
	}
}

func appendTime(b []byte, seconds int64) []byte {
	return time.Unix(seconds, 0).UTC().AppendFormat(b, time.RFC3339)
}

// text writes a string. Like the upstream it escapes HTML markup.
func (w *writer) text(s string) {
	w.buf = append(w.buf, '"')
	w.inner(s)
	w.buf = append(w.buf, '"')
}

const hex = "0123456789abcdef"

// inner writes the characters of a string.
func (w *writer) inner(s string) {
	b, from := w.buf, 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf || c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	w.buf = append(b, s[from:]...)
}

// etag leaves room for the tag of the current object, and returns its offset, or -1 if it is
// not selected. seal fills it in when the object is complete.
func (w *writer) etag() int {
	if !w.key("etag") {
		return -1
	}
	w.buf = append(w.buf, '"')
	at := len(w.buf)
	w.buf = append(w.buf, "0123456789abcdef\""...)
	return at
}

func (w *writer) seal(at int) {
	if at >= 0 {
		tag := tagOf(w.buf[at+16:])
		copy(w.buf[at:], tag[:])
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// tagOf returns the etag of a text. Two hardware checksums are enough to tell versions of a
// page apart, and are fast.
func tagOf(b []byte) (tag [16]byte) {
	x := uint64(crc32.ChecksumIEEE(b))<<32 | uint64(crc32.Checksum(b, castagnoli))
	for i := range tag {
		tag[i] = hex[x>>(60-4*i)&15]
	}
	return tag
}
