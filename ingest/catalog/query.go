package catalog

import (
	"strings"
	"unicode/utf8"
)

// A phrase is words that follow each other.
type phrase struct {
	words []string
	open  bool // the last word may go on
}

// A query is cut off where nobody reads on, so that what it costs is not in a
// stranger's hand. What is left of it is looked for, so a long title is found by its
// beginning.
const (
	maxQueryBytes = 1000
	maxPhrases    = 16
	maxWords      = 64
)

// parse makes phrases of what somebody typed, whatever it is. What stands between
// spaces is a phrase (k-pop is two words that follow each other), and so is what
// stands between quotation marks. The last word may be unfinished, as may any with
// a star behind it.
func parse(text string) (all []phrase) {
	text = normal(strings.ToValidUTF8(text[:min(len(text), maxQueryBytes)], " "))
	words := 0 // so far
	for quoted := false; ; quoted = !quoted {
		at := strings.IndexAny(text, `"“”„`)
		part := text
		if at >= 0 {
			part = text[:at]
		}
		pieces := []string{part}
		if !quoted {
			pieces = strings.Fields(part)
		}
		for i, piece := range pieces {
			last := at < 0 && i == len(pieces)-1
			p := newPhrase(piece, last || strings.HasSuffix(piece, "*")).first(maxWords - words)
			words += len(p.words)
			if len(p.words) > 0 {
				all = append(all, p)
			}
			if words == maxWords || len(all) == maxPhrases {
				return all
			}
		}
		if at < 0 {
			return all
		}
		_, mark := utf8.DecodeRuneInString(text[at:])
		text = text[at+mark:]
	}
}

func newPhrase(text string, open bool) phrase {
	all := split(text)
	if n := len(all); n > 0 && all[n-1].pair {
		// The last character of a run is a word where the run ends there. In what
		// is looked for it may go on, so only the pairs count, or the beginning
		// of one.
		open = n < 2 || all[n-2].end != all[n-1].end
		if !open {
			all = all[:n-1]
		}
	} else if n > 0 && utf8.RuneCountInString(all[n-1].text) < 2 {
		open = false // a letter begins half the language
	}
	p := phrase{open: open}
	for _, w := range all {
		p.words = append(p.words, w.text)
	}
	return p
}

// first is the beginning of a phrase that has more than so many words.
func (p phrase) first(most int) phrase {
	if len(p.words) <= most {
		return p
	}
	return phrase{words: p.words[:most]}
}

// expression returns the phrases in the language of FTS5, or "" if there are none.
// Words are letters and digits, so nothing in them ends the quotation.
func expression(all []phrase) string {
	var parts []string
	for _, p := range all {
		text := `"` + strings.Join(p.words, " ") + `"`
		if p.open { // the word itself counts for more than what begins with it
			text = "(" + text + " OR " + text + " *)"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " AND ")
}
