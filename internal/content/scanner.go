package content

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
)

// maxNested is how deep JSON may be nested. Deeper JSON is not read, as by encoding/json.
const maxNested = 10_000

// The states of a scanner: what may come next.
const (
	wantValue = iota
	wantItem  // or the end of the array
	wantName  // or the end of the object
	wantNext  // the name behind a comma
	wantColon
	wantComma // or the end of the object or array
	inText
	inScalar
	inDull // in an object or array of which nobody needs anything
)

// maxName is how many bytes of a name are kept. No price book has a longer one.
const maxName = 256

// escaped is how many bytes one byte of a text may take: \u0061.
const escaped = 6

// separator stands before each text of application/json-seq.
const separator = 0x1e

// scanner reads JSON in pieces, and reports the values that it finds. It keeps one text, and a bit for
// each level of nesting.
type scanner struct {
	to     *paths
	state  uint8
	isName bool // the text is a name
	broken bool // it is not JSON
	cut    bool // the text is longer than what is kept
	slash  bool // the text goes on behind a backslash
	raw    bool // the kept text has escapes
	looks  bool // it looks like JSON: an object or an array has begun, or it may be in UTF-16
	depth  int
	dull   int      // the depth from which on nobody needs anything; 0: somebody does
	most   int      // bytes of the text to keep
	told   int      // the same, of a number, if somebody needs it
	values int      // values that are complete, outside of all others
	kinds  []uint64 // a bit per level: it is an object
	text   []byte
}

func (s *scanner) reset() {
	*s = scanner{to: s.to, kinds: s.kinds[:0], text: s.text[:0], looks: s.looks}
}

// between reports whether all values that have begun are complete.
func (s *scanner) between() bool { return !s.broken && s.depth == 0 && s.state == wantValue }

// flush ends a number that nothing follows.
func (s *scanner) flush() {
	if s.state == inScalar && !s.broken {
		s.endScalar(s.text, s.cut)
	}
}

func (s *scanner) write(p []byte) {
	for i := 0; i < len(p) && !s.broken; {
		c := p[i]
		switch s.state {
		case inText:
			i += s.moreText(p[i:])
			continue
		case inScalar:
			n := scalarIn(p[i:])
			s.keep(p[i : i+n])
			if i += n; i < len(p) {
				s.endScalar(s.text, s.cut)
			}
			continue
		case inDull:
			i += s.moreDull(p[i:])
			continue
		}
		if c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == separator && s.depth == 0) {
			i++
			continue
		}
		i += s.mark(p[i:])
	}
}

// mark reads the character with which a piece begins, which is not a part of a text or a
// number, and what of the text or number after it is in the piece as a whole. It returns
// how much that is.
func (s *scanner) mark(p []byte) int {
	c := p[0]
	switch s.state {
	case wantColon:
		s.state, s.broken = wantValue, c != ':'
		return 1
	case wantComma:
		switch {
		case c != ',':
			s.close(c)
		case s.object():
			s.state = wantNext
		default:
			s.state = wantValue
			s.to.item()
		}
		return 1
	case wantName, wantNext:
		switch {
		case c == '"':
			return 1 + s.beginText(true, p[1:])
		case s.state == wantName:
			s.close(c)
		default:
			s.broken = true
		}
		return 1
	case wantItem:
		if c == ']' {
			s.close(c)
			return 1
		}
		s.to.item()
	}
	switch {
	case c == '"':
		return 1 + s.beginText(false, p[1:])
	case c == '{', c == '[':
		s.open(c == '{')
	case scalars[c]:
		return s.beginScalar(p)
	default:
		s.broken = true
		s.looks = s.looks || c == 0 || c >= 0xfe
	}
	return 1
}

func (s *scanner) object() bool { return s.kinds[(s.depth-1)/64]>>((s.depth-1)%64)&1 == 1 }

func (s *scanner) open(object bool) {
	s.looks = true
	if !s.push(object) {
		return
	}
	if s.state = wantItem; object {
		s.state = wantName
	}
	if !s.to.open(object) {
		s.state, s.dull = inDull, s.depth
	}
}

func (s *scanner) push(object bool) bool {
	if s.depth == maxNested {
		s.broken = true
		return false
	}
	word, bit := s.depth/64, uint64(1)<<(s.depth%64)
	if word == len(s.kinds) {
		s.kinds = append(s.kinds, 0)
	}
	if s.kinds[word] &^= bit; object {
		s.kinds[word] |= bit
	}
	s.depth++
	return true
}

// moreDull reads what a piece has of what nobody needs, and returns how much that is. Only
// texts and brackets matter there.
func (s *scanner) moreDull(p []byte) int {
	for i := 0; i < len(p); {
		c := p[i]
		i++
		for c == '"' {
			if n := i + 8; n <= len(p) && quoteIn(p[i:n]) != 0 { // most texts are short
				i += bits.TrailingZeros64(quoteIn(p[i:n])) / 8
			} else {
				i += plainText(p[i:])
			}
			if i+1 < len(p) && p[i] == '\\' {
				i += 2
				continue
			}
			if i == len(p) || p[i] != '"' {
				s.state, s.isName, s.most = inText, false, 0
				return i
			}
			i++
			break
		}
		switch {
		case !marks[c]:
		case c == '{', c == '[':
			if !s.push(c == '{') {
				return len(p)
			}
		default:
			if s.close(c); s.broken || s.dull == 0 {
				return i
			}
		}
	}
	return len(p)
}

func (s *scanner) close(c byte) {
	if s.broken = c != '}' && c != ']' || (c == '}') != s.object(); s.broken {
		return
	}
	if s.depth--; s.dull > 0 && s.depth >= s.dull {
		return
	}
	s.dull = 0
	s.to.end()
	s.after()
}

func (s *scanner) after() {
	if s.state = wantComma; s.depth == 0 {
		s.state = wantValue
		s.values++
	}
}

// beginText reads what a piece has of a text, after its quote, if that is all of it and has
// no escapes, and the colon behind a name. It returns how much that is.
func (s *scanner) beginText(isName bool, p []byte) int {
	if s.isName, s.most = isName, maxName; !isName {
		s.most = s.to.most()
	}
	if n := plainText(p); n < len(p) && p[n] == '"' {
		s.tell(p[:min(n, s.most)], n > s.most)
		if n++; isName && n < len(p) && p[n] == ':' { // nearly always
			s.state = wantValue
			n++
		}
		return n
	}
	s.state, s.cut, s.raw, s.text = inText, false, false, s.text[:0]
	return 0
}

// moreText reads what a piece has of a text, and returns how much that is.
func (s *scanner) moreText(p []byte) int {
	if s.slash { // what follows a backslash is data
		s.slash = false
		s.keep(p[:1])
		return 1
	}
	n := plainText(p)
	switch {
	case n == len(p):
		s.keep(p)
		return n
	case p[n] == '\\':
		s.keep(p[:n+1])
		s.slash, s.raw = true, true
	default:
		s.keep(p[:n])
		s.endText()
	}
	return n + 1
}

func (s *scanner) keep(p []byte) {
	if s.most == 0 {
		return
	}
	if room := escaped*s.most - len(s.text); len(p) > room {
		s.cut, p = true, p[:room]
	}
	s.text = append(s.text, p...)
}

func (s *scanner) endText() {
	if s.dull > 0 {
		s.state = inDull
		return
	}
	if s.raw && s.most > 0 {
		s.unescape()
	}
	s.tell(s.text, s.cut)
}

// tell tells the listener of a name or of a text.
func (s *scanner) tell(text []byte, cut bool) {
	if s.isName {
		if s.state = wantColon; !s.broken {
			s.to.name(text)
		}
		return
	}
	if s.most > 0 && !s.broken {
		s.to.value(text, true, cut)
	}
	s.after()
}

// unescape replaces the escapes in a text. A text that was cut may end within an escape.
func (s *scanner) unescape() {
	quoted := append(append([]byte{'"'}, s.text...), '"')
	var text string
	for tail := 0; ; tail++ {
		if json.Unmarshal(quoted, &text) == nil {
			break
		}
		if !s.cut || tail == 12 || len(quoted) < 3 { // two escapes of six bytes
			s.broken = !s.cut
			return
		}
		quoted = append(quoted[:len(quoted)-2], '"')
	}
	s.text = append(s.text[:0], text...)
}

// beginScalar reads what a piece has of a number, or of true, false or null. It returns how
// much that is.
func (s *scanner) beginScalar(p []byte) int {
	s.told = s.to.most()
	n := scalarIn(p)
	if n < len(p) {
		s.endScalar(p[:n], false)
		return n
	}
	s.state, s.cut, s.text = inScalar, false, s.text[:0]
	s.most = max(s.told, len("false ")) // also to see whether it is one
	s.keep(p)
	return n
}

func (s *scanner) endScalar(text []byte, cut bool) {
	switch c := text[0]; {
	case c >= '0' && c <= '9', c == '-':
	case string(text) != "true" && string(text) != "false" && string(text) != "null":
		s.broken = true
		return
	}
	if s.told > 0 {
		s.to.value(text[:min(s.told, len(text))], false, cut || len(text) > s.told)
	}
	s.after()
}

// plainText returns how much of a piece comes before a quote or a backslash. Most texts are
// short, so the first bytes are looked at eight at a time.
func plainText(p []byte) int {
	const short = 32
	n := 0
	for ; n+8 <= len(p) && n < short; n += 8 {
		if found := quoteIn(p[n : n+8]); found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	if n == short {
		end := bytes.IndexByte(p[n:], '"')
		if end < 0 {
			end = len(p) - n
		}
		if i := bytes.IndexByte(p[n:n+end], '\\'); i >= 0 {
			end = i
		}
		return n + end
	}
	for n < len(p) && p[n] != '"' && p[n] != '\\' {
		n++
	}
	return n
}

// quoteIn sets the high bit of the first of eight bytes that is a quote or a backslash. It
// may set those of bytes after it, too.
func quoteIn(p []byte) uint64 {
	const each, high = 0x0101010101010101, 0x8080808080808080
	eight := binary.LittleEndian.Uint64(p)
	a, b := eight^'"'*each, eight^'\\'*each
	return ((a-each)&^a | (b-each)&^b) & high
}

// scalarIn returns how much of a piece can be in a number, or in true, false or null.
func scalarIn(p []byte) int {
	n := 0
	for n < len(p) && scalars[p[n]] {
		n++
	}
	return n
}

// marks are the characters that matter in what nobody needs, and scalars those of numbers,
// true, false and null.
var (
	marks   = setOf("{}[]")
	scalars = setOf("0123456789abcdefghijklmnopqrstuvwxyz-+.E")
)

func setOf(text string) (all [256]bool) {
	for _, c := range []byte(text) {
		all[c] = true
	}
	return all
}
