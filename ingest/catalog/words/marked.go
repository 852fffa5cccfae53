package words

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Marked is a text with its matches marked. It is plain text: escape each segment before
// you show it as HTML.
type Marked []Segment

// Segment is a part of a [Marked] text.
type Segment struct {
	Text  string `json:"text"`
	Match bool   `json:"match,omitempty"`
}

// String returns the text without marks.
func (m Marked) String() string {
	var b strings.Builder
	for _, s := range m {
		b.WriteString(s.Text)
	}
	return b.String()
}

// snippetRunes is the approximate length of a snippet.
const snippetRunes = 160

// A span is a part of a text that matches a phrase.
type span struct{ start, end, phrase int }

// Mark marks the phrases in a text.
func Mark(text string, phrases []Phrase) Marked {
	text = toNFC(text)
	return cut(text, 0, len(text), find(split(text), phrases))
}

// Snippet marks the phrases in the part of a text that contains most of them. A text
// without matches gives its beginning.
func Snippet(text string, phrases []Phrase) Marked {
	text = toNFC(text)
	all := split(text)
	spans := find(all, phrases)
	best, count := 0, 0
	for i := range spans {
		limit := forward(text, spans[i].start, snippetRunes*3/4)
		seen := map[int]bool{}
		for _, s := range spans[i:] {
			if s.end <= limit {
				seen[s.phrase] = true
			}
		}
		if len(seen) > count {
			best, count = i, len(seen)
		}
	}
	start := 0
	if len(spans) > 0 {
		start = backward(text, spans[best].start, snippetRunes/4)
	}
	end := forward(text, start, snippetRunes)
	if start > 0 { // move it to the beginning of a word
		i, _ := slices.BinarySearchFunc(all, start, func(w word, offset int) int { return w.start - offset })
		start = min(all[i].start, spans[best].start)
	}
	if end < len(text) { // move it to the end of a word
		i, _ := slices.BinarySearchFunc(all, end+1, func(w word, offset int) int { return w.end - offset })
		if i > 0 && all[i-1].end > start {
			end = all[i-1].end
		}
	}
	m := cut(text, start, end, spans)
	if start > 0 {
		m = append(Marked{{Text: "…"}}, m...)
	}
	if end < len(text) {
		m = append(m, Segment{Text: "…"})
	}
	return m
}

// find returns the matches of the phrases, in order of their beginning.
func find(all []word, phrases []Phrase) (spans []span) {
	for i := range all {
		for n, p := range phrases {
			if end, ok := p.match(all[i:]); ok {
				spans = append(spans, span{all[i].start, end, n})
			}
		}
	}
	return spans
}

// match reports whether words begin with the phrase, and where the match ends.
func (p Phrase) match(all []word) (end int, ok bool) {
	if len(all) < len(p.Words) {
		return 0, false
	}
	last := len(p.Words) - 1
	for i, w := range p.Words[:last] {
		if all[i].text != w {
			return 0, false
		}
	}
	w := all[last]
	switch {
	case w.text == p.Words[last]:
		return w.end, true
	case p.Prefix && strings.HasPrefix(w.text, p.Words[last]):
		return w.half, true
	}
	return 0, false
}

// cut returns a part of a text with its spans marked.
func cut(text string, start, end int, spans []span) (m Marked) {
	add := func(to int, match bool) {
		if to = min(to, end); to > start {
			m = append(m, Segment{text[start:to], match})
			start = to
		}
	}
	for i := 0; i < len(spans); {
		from, to := spans[i].start, spans[i].end
		for i++; i < len(spans) && spans[i].start <= to; i++ {
			to = max(to, spans[i].end)
		}
		add(from, false)
		add(to, true)
	}
	add(end, false)
	return m
}

// forward returns the offset n characters after an offset.
func forward(text string, offset, n int) int {
	for ; n > 0 && offset < len(text); n-- {
		_, size := utf8.DecodeRuneInString(text[offset:])
		offset += size
	}
	return offset
}

// backward returns the offset n characters before an offset.
func backward(text string, offset, n int) int {
	for ; n > 0 && offset > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(text[:offset])
		offset -= size
	}
	return offset
}
