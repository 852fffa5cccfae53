package pgcatalog

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/words"
)

// The index holds the project's own words, so that a search finds what it finds in a file. A
// word carries its positions for phrases, and the letter of its text: A the title, B the
// channel's title, C the tags, D the description.
//
// PostgreSQL keeps 256 positions of a word, below 16,384, and words below 2 kB. A video with
// more keeps its words without positions and also as text, and a phrase is looked for there.

const (
	maxPosition  = 16383
	maxPositions = 256     // of one word
	maxWordBytes = 1500    // longer than any word of a query
	maxBytes     = 500_000 // of all words of a video; more are not found
	betweenTexts = 2       // positions left out between two texts, so that no phrase spans them
)

// overlong is a word of every video without positions. Other words have no capital letters.
const overlong = "OVERLONG"

// saveWords saves the words of videos.
func saveWords(b catalog.Batch, rows []*catalog.Row) {
	b.Bulk("words_save", []any{words.Version}, wordColumns(rows))
}

// wordColumns returns a row for each video: its id, digest, words, and words as text.
func wordColumns(rows []*catalog.Row) (all [][]any) {
	for _, r := range rows {
		vector, text := index(r)
		all = append(all, []any{r.Video.ID, digest(r), vector, text})
	}
	return all
}

// index returns the words of a video as a tsvector. It returns them as text, too, if they are
// too many.
func index(r *catalog.Row) (vector string, text *string) {
	var b, plain strings.Builder
	counts := map[string]int{}
	position, fits := 0, true
	for i, part := range []string{words.Of(r.Video.Title), words.Of(r.Video.ChannelTitle), words.OfTags(r.Tags), words.Of(r.Video.Description)} {
		plain.WriteString("\n ")
		for w := range strings.FieldsSeq(part) {
			position++
			w = cutWord(w)
			if counts[w]++; counts[w] > maxPositions || position > maxPosition {
				fits = false
			}
			if plain.Len() > maxBytes {
				break
			}
			b.WriteString("'" + w + "':" + strconv.Itoa(position) + "ABCD"[i:i+1] + " ")
			plain.WriteString(w + " ")
		}
		position += betweenTexts
	}
	if fits {
		return b.String(), nil
	}
	b.Reset()
	for w := range counts {
		b.WriteString("'" + w + "' ")
	}
	b.WriteString(overlong)
	all := plain.String()
	return b.String(), &all
}

// cutWord returns the beginning of a word that is too long for PostgreSQL.
func cutWord(w string) string {
	if len(w) <= maxWordBytes {
		return w
	}
	end := maxWordBytes
	for !utf8.RuneStart(w[end]) {
		end--
	}
	return w[:end]
}
