package content

import (
	"bytes"
	"encoding/json"
)

// maxNested is how deep JSON may be nested. Deeper JSON is not read, as by encoding/json.
const maxNested = 10_000

// listener is told what a scanner finds.
type listener interface {
	// item says that the next value is an item of an array.
	item()
	// name says that the next value is the member of that name.
	name(text []byte)
	// open begins an object or an array. The scanner does not tell what is in it if the
	// result is false, only its end.
	open(object bool) bool
	// end ends an object or array.
	end()
	// most is how many bytes of the next value are to be kept; 0 is that nobody needs it.
	most() int
	// value is a text, or a number, true, false or null. It is valid until the next call.
	value(text []byte, isText, cut bool)
}

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
	inDull // in an object or array that nobody listens to
)

// maxName is how many bytes of a name are kept. No price book has a longer one.
const maxName = 256

// separator stands before each text of application/json-seq.
const separator = 0x1e

// scanner reads JSON in pieces, and tells a listener what it finds. It keeps one text, and
// a bit for each level of nesting.
type scanner struct {
	to     listener
	state  uint8
	isName bool // the text is a name
	broken bool // it is not JSON
	cut    bool // the text is longer than what is kept
	slash  bool // the text goes on behind a backslash
	raw    bool // the kept text has escapes
	depth  int
	dull   int      // the depth from which on nobody listens; 0: somebody does
	most   int      // bytes of the text to keep
	told   int      // the same, of a number, if the listener needs it
	values int      // values that are complete, outside of all others
	kinds  []uint64 // a bit per level: it is an object
	text   []byte
}

// reset begins a new text of JSON.
func (s *scanner) reset() {
	*s = scanner{to: s.to, kinds: s.kinds[:0], text: s.text[:0]}
}

// between reports whether all values that have begun are complete.
func (s *scanner) between() bool { return !s.broken && s.depth == 0 && s.state == wantValue }

// flush ends a number that nothing follows.
func (s *scanner) flush() {
	if s.state == inScalar && !s.broken {
		s.endScalar()
	}
}

// write reads the next piece.
func (s *scanner) write(p []byte) {
	for i := 0; i < len(p) && !s.broken; {
		switch c := p[i]; s.state {
		case inText:
			i += s.moreText(p[i:])
			continue
		case inScalar:
			if isScalar(c) {
				i += s.moreScalar(p[i:])
				continue
			}
			s.endScalar()
			continue // c comes after it
		case inDull:
			i += s.moreDull(p[i:])
			continue
		default:
			if c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == separator && s.depth == 0 {
				break
			}
			s.mark(c)
			switch {
			case s.state == inScalar && !s.broken:
				continue // c is a part of it
			case s.state == inText:
				i += s.wholeText(p[i+1:])
			}
		}
		i++
	}
}

// mark reads a character that is not a part of a text or a number.
func (s *scanner) mark(c byte) {
	switch s.state {
	case wantColon:
		if s.state = wantValue; c != ':' {
			s.broken = true
		}
		return
	case wantComma:
		switch {
		case c == ',' && s.object():
			s.state = wantNext
		case c == ',':
			s.state = wantValue
		default:
			s.close(c)
			return
		}
		if s.state == wantValue {
			s.to.item()
		}
		return
	case wantName, wantNext:
		switch {
		case c == '"':
			s.beginText(true)
		case s.state == wantName:
			s.close(c)
		default:
			s.broken = true
		}
		return
	case wantItem:
		if c == ']' {
			s.close(c)
			return
		}
		s.to.item()
	}
	switch {
	case c == '"':
		s.beginText(false)
	case c == '{', c == '[':
		s.open(c == '{')
	case isScalar(c):
		s.state, s.cut, s.text = inScalar, false, s.text[:0]
		s.told = s.to.most()
		s.most = max(s.told, len("false ")) // also to see whether it is one
	default:
		s.broken = true
	}
}

func (s *scanner) object() bool { return s.kinds[(s.depth-1)/64]>>((s.depth-1)%64)&1 == 1 }

func (s *scanner) open(object bool) {
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

// push goes a level deeper.
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

// moreDull reads what a piece has of what nobody listens to, and returns how much that is.
// Only texts and brackets matter there.
func (s *scanner) moreDull(p []byte) int {
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '"':
			n := plainText(p[i+1:])
			if i += n + 1; i < len(p) && p[i] == '"' {
				continue
			}
			s.state, s.isName, s.most = inText, false, 0
			return i
		case '{', '[':
			if !s.push(c == '{') {
				return len(p)
			}
		case '}', ']':
			if s.close(c); s.broken || s.dull == 0 {
				return i + 1
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

// after comes after a value.
func (s *scanner) after() {
	if s.state = wantComma; s.depth == 0 {
		s.state = wantValue
		s.values++
	}
}

func (s *scanner) beginText(isName bool) {
	s.state, s.isName, s.cut, s.raw, s.text = inText, isName, false, false, s.text[:0]
	if s.most = maxName; !isName {
		s.most = s.to.most()
	}
}

// plainText returns how much of a piece comes before a quote and before a backslash. Most
// texts are short.
func plainText(p []byte) int {
	const short = 32
	for i, c := range p[:min(len(p), short)] {
		if c == '"' || c == '\\' {
			return i
		}
	}
	if len(p) <= short {
		return len(p)
	}
	n := bytes.IndexByte(p[short:], '"')
	if n < 0 {
		n = len(p) - short
	}
	if i := bytes.IndexByte(p[short:short+n], '\\'); i >= 0 {
		n = i
	}
	return short + n
}

// wholeText reads a text that begins in a piece, if it also ends there and has no escapes.
// It returns how much that is.
func (s *scanner) wholeText(p []byte) int {
	n := plainText(p)
	if n == len(p) || p[n] != '"' {
		return 0
	}
	s.tell(p[:min(n, s.most)], n > s.most)
	return n + 1
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
	if room := s.most - len(s.text); len(p) > room {
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

func (s *scanner) moreScalar(p []byte) int {
	n := 1
	for n < len(p) && isScalar(p[n]) {
		n++
	}
	s.keep(p[:n])
	return n
}

func (s *scanner) endScalar() {
	switch c := s.text[0]; {
	case c >= '0' && c <= '9', c == '-':
	case string(s.text) != "true" && string(s.text) != "false" && string(s.text) != "null":
		s.broken = true
		return
	}
	if s.told > 0 {
		s.to.value(s.text[:min(s.told, len(s.text))], false, s.cut || len(s.text) > s.told)
	}
	s.after()
}

// isScalar reports whether a character can be in a number, or in true, false or null.
func isScalar(c byte) bool { return scalars[c] }

var scalars = func() (all [256]bool) {
	for _, c := range "0123456789abcdefghijklmnopqrstuvwxyz-+.E" {
		all[c] = true
	}
	return all
}()
