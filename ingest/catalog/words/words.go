// Package words splits texts into words, for search. It is the same for every home of a
// catalog, so that a search gives the same answers. It also marks what a search found.
package words

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// Search works by words. In scripts with spaces, a word is the text between spaces, in
// lower case and without accents. In scripts without spaces (Chinese, Japanese, Thai and
// others, and also Korean, which joins words), each pair of neighbouring characters is a
// word. The last character of a run is a word, too. So two or more characters match as
// neighbouring pairs, and one character matches the beginning of a pair. Emoji are split
// in the same way.
//
//	Crème brûlée 東京タワー  ->  creme brulee 東京 京タ タワ ワー ー

// Version is the version of the words. A catalog with another version is indexed again.
var Version = fmt.Sprintf("1, unicode %s, norm %s", unicode.Version, norm.Version)

// A word is a word of a text.
type word struct {
	text       string
	start, end int  // offsets in the text
	half       int  // where the first character of a pair ends; else end
	pair       bool // from a script without spaces: two characters, or the last one of a run
}

// split returns the words of a text, which is in NFC.
func split(text string) []word {
	all := make([]word, 0, len(text)/5+1)
	folded := make([]byte, 0, len(text)+len(text)/8)
	ends := make([]int, 0, cap(all)) // of the words in folded
	add := func(w word) { all, ends = append(all, w), append(ends, len(folded)) }
	s := scanner{text: text}
	for s.next() {
		if !s.unspaced {
			folded = append(folded, s.folded...)
			add(word{start: s.start, half: s.end, end: s.end})
			continue
		}
		for i, c := range s.chars {
			w := word{start: c.start, half: c.end, end: c.end, pair: true}
			folded = utf8.AppendRune(folded, c.folded)
			if i+1 < len(s.chars) {
				folded = utf8.AppendRune(folded, s.chars[i+1].folded)
				w.end = s.chars[i+1].end
			}
			add(w)
		}
	}
	whole, from := string(folded), 0
	for i, end := range ends {
		all[i].text, from = whole[from:end], end
	}
	return all
}

// Of returns the words of a text, each with a space behind it, for the index.
func Of(text string) string {
	text = toNFC(text)
	out := make([]byte, 0, len(text)+len(text)/8)
	for _, w := range split(text) {
		out = append(append(out, w.text...), ' ')
	}
	return string(out)
}

// OfTags returns the words of tags, which are stored as a JSON array.
func OfTags(tags string) string {
	if strings.Contains(tags, `\`) { // otherwise brackets, quotes and commas only separate words
		var all []string
		if json.Unmarshal([]byte(tags), &all) == nil {
			tags = strings.Join(all, "\n")
		}
	}
	return Of(tags)
}

// A scanner finds runs: words, and parts in a script without spaces.
type scanner struct {
	text       string
	pos        int
	start, end int
	unspaced   bool
	folded     []byte // of a word
	chars      []char // of a run without spaces
}

type char struct {
	folded     rune
	start, end int
}

func (s *scanner) next() bool {
	s.folded, s.chars = s.folded[:0], s.chars[:0]
	for s.pos < len(s.text) {
		from := s.pos
		r, size := rune(s.text[from]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s.text[from:])
		}
		k := kindOf(r)
		if k == ignored {
			s.pos += size
			continue
		}
		begun := len(s.folded)+len(s.chars) > 0
		if begun && (k == separator || s.unspaced != (k == unspaced)) {
			return true
		}
		s.pos += size
		if k == separator {
			continue
		}
		if !begun {
			s.start, s.unspaced = from, k == unspaced
		}
		s.end = s.pos
		if k == unspaced {
			s.chars = append(s.chars, char{narrow(r), from, s.pos})
		} else {
			s.folded = fold(s.folded, r)
		}
	}
	return len(s.folded)+len(s.chars) > 0
}

// A kind is what a character does to the words around it.
type kind int

const (
	separator kind = iota // separates words
	spaced                // is part of a word
	unspaced              // is part of a run without spaces
	ignored               // is skipped
)

func kindOf(r rune) kind {
	switch {
	case r < utf8.RuneSelf:
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return spaced
		}
		return separator
	case dropped(r):
		return ignored
	case unicode.Is(withoutSpaces, r):
		if letter(r) || unicode.Is(unicode.So, r) {
			return unspaced
		}
		return separator
	case letter(r):
		return spaced
	}
	return separator
}

func letter(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.M) }

// withoutSpaces are the blocks of scripts that put no spaces between words, and those of
// Hangul, emoji and flags.
var withoutSpaces = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x0E00, 0x0EFF, 1}, // Thai, Lao
		{0x1000, 0x109F, 1}, // Myanmar
		{0x1100, 0x11FF, 1}, // Hangul
		{0x1780, 0x17FF, 1}, // Khmer
		{0x2600, 0x27BF, 1}, // emoji
		{0x2E80, 0x9FFF, 1}, // Han, kana, bopomofo
		{0xA960, 0xA97F, 1}, // Hangul
		{0xA9E0, 0xA9FF, 1}, // Myanmar
		{0xAA60, 0xAA7F, 1}, // Myanmar
		{0xAC00, 0xD7FF, 1}, // Hangul
		{0xF900, 0xFAFF, 1}, // Han
		{0xFF66, 0xFFDC, 1}, // narrow kana and Hangul
	},
	R32: []unicode.Range32{
		{0x1AFF0, 0x1B16F, 1}, // kana
		{0x1F1E6, 0x1F1FF, 1}, // flags
		{0x1F300, 0x1FAFF, 1}, // emoji
		{0x20000, 0x3FFFF, 1}, // Han
	},
}

// dropped reports whether a character is left out of words: accents, vowel points,
// joiners, skin colours.
func dropped(r rune) bool {
	switch {
	case r < 0x0300:
		return r == 0x00AD // a soft hyphen
	case r <= 0x036F:
		return true // accents
	case r < 0x0591:
		return false
	case r <= 0x05C7:
		return unicode.Is(unicode.Mn, r) // Hebrew points
	case r < 0x0610:
		return false
	case r <= 0x06ED:
		return unicode.Is(unicode.Mn, r) || r == 0x0640 // Arabic points and tatweel
	case r == 0x200C, r == 0x200D:
		return true // joiners
	case 0xFE00 <= r && r <= 0xFE0F:
		return true // variants of emoji
	}
	return 0x1F3FB <= r && r <= 0x1F3FF
}

// fold appends a character of a word, in lower case and without accents.
func fold(b []byte, r rune) []byte {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return append(b, byte(r))
	}
	r = narrow(unicode.ToLower(r))
	if plain, ok := letters[r]; ok {
		return append(b, plain...)
	}
	var one [utf8.UTFMax]byte
	n := utf8.EncodeRune(one[:], r)
	parts := norm.NFD.Properties(one[:n]).Decomposition()
	if len(parts) == 0 {
		return append(b, one[:n]...)
	}
	for _, part := range string(parts) {
		if !dropped(part) {
			b = utf8.AppendRune(b, unicode.ToLower(part))
		}
	}
	return b
}

// letters are letters that people also type without their mark, though Unicode has no
// decomposition for them.
var letters = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'ł': "l", 'đ': "d", 'ð': "d", 'þ': "th", 'ı': "i", 'ς': "σ",
}

// narrow returns the usual form of characters that East Asian fonts have in two widths.
func narrow(r rune) rune {
	if 0xFF00 <= r && r <= 0xFFEF {
		if f := width.LookupRune(r).Folded(); f != 0 {
			return unicode.ToLower(f)
		}
	}
	return r
}

// toNFC returns a text in NFC, so that texts that look the same are equal.
func toNFC(text string) string { return norm.NFC.String(text) }
