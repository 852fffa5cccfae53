package words

import (
	"strings"
	"unicode/utf8"
)

// Phrase is a sequence of words that a search asks for.
type Phrase struct {
	Words  []string
	Prefix bool // the last word matches as a prefix
}

// These limits bound the cost of a query. Only the beginning of a longer query counts, so
// a long title is found by its beginning.
const (
	maxQueryBytes = 1000
	maxPhrases    = 16
	maxWords      = 64
)

// Parse splits any text into phrases. A piece between spaces is a phrase: k-pop is two
// words in sequence. A piece between quotation marks is one phrase, too. The last word, and
// any word with a star behind it, matches as a prefix.
func Parse(text string) (all []Phrase) {
	text = toNFC(strings.ToValidUTF8(text[:min(len(text), maxQueryBytes)], " "))
	words := 0 // so far
	for quoted := false; ; quoted = !quoted {
		quote := strings.IndexAny(text, `"“”„`)
		part := text
		if quote >= 0 {
			part = text[:quote]
		}
		pieces := []string{part}
		if !quoted {
			pieces = strings.Fields(part)
		}
		for i, piece := range pieces {
			last := quote < 0 && i == len(pieces)-1
			p := newPhrase(piece, last || strings.HasSuffix(piece, "*")).first(maxWords - words)
			words += len(p.Words)
			if len(p.Words) > 0 {
				all = append(all, p)
			}
			if words == maxWords || len(all) == maxPhrases {
				return all
			}
		}
		if quote < 0 {
			return all
		}
		_, size := utf8.DecodeRuneInString(text[quote:])
		text = text[quote+size:]
	}
}

func newPhrase(text string, prefix bool) Phrase {
	all := split(text)
	if n := len(all); n > 0 && all[n-1].pair {
		// In the index the last character of a run is a word. The typed run may be
		// longer in a text, so only its pairs count. A single character matches the
		// beginning of a pair.
		prefix = n < 2 || all[n-2].end != all[n-1].end
		if !prefix {
			all = all[:n-1]
		}
	} else if n > 0 && utf8.RuneCountInString(all[n-1].text) < 2 {
		prefix = false // a letter would match half the language
	}
	p := Phrase{Prefix: prefix}
	for _, w := range all {
		p.Words = append(p.Words, w.text)
	}
	return p
}

// first cuts a phrase after a number of words.
func (p Phrase) first(limit int) Phrase {
	if len(p.Words) <= limit {
		return p
	}
	return Phrase{Words: p.Words[:limit]}
}
