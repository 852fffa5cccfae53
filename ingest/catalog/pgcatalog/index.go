package pgcatalog

import (
	"context"
	"fmt"
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

// Check compares the index of words with the videos and returns a description of what it
// finds, or nil. The server checks its own files: see amcheck and data checksums in its manual.
func (c *Catalog) Check(ctx context.Context) (problems []string, err error) {
	wrong := 0
	for last, more := int64(0), true; more && err == nil; {
		var rows []*catalog.Row
		err = c.each(ctx, func(scan catalog.Scan) error {
			r, err := scanTexts(scan, &last)
			rows = append(rows, r)
			return err
		}, "texts", last)
		if more = len(rows) > 0; more && err == nil {
			err = c.each(ctx, func(scan catalog.Scan) error {
				n := 0
				err := scan(&n)
				wrong += n
				return err
			}, "words_differ", arrays(wordColumns(rows))...)
		}
	}
	if wrong > 0 {
		problems = append(problems, fmt.Sprintf("the index of words does not match %d videos: rebuild it", wrong))
	}
	return problems, err
}

// Rebuild makes the index of words again.
func (c *Catalog) Rebuild(ctx context.Context) error {
	return (*home)(c).Fault("rebuild the index of", c.index(ctx, "texts"))
}

func (h *home) Expired(ctx context.Context, _ catalog.Limits, deleted int) error {
	c := (*Catalog)(h)
	if err := c.index(ctx, "stale_words", words.Version); err != nil || deleted == 0 || c.tx != nil {
		return err
	}
	return c.vacuum(ctx)
}

// vacuum removes deleted rows from the tables. Only their owner may.
func (c *Catalog) vacuum(ctx context.Context) error {
	for _, table := range []string{"videos", "video_words", "statistics", "sightings", "channels", "charts", "chart_entries"} {
		if _, err := c.pool.Exec(ctx, "VACUUM headroom_catalog."+table); err != nil {
			return err
		}
	}
	return nil
}

// index makes the words of the videos that a query returns, a few at once. The last argument of
// the query is the row to begin after.
func (c *Catalog) index(ctx context.Context, query string, args ...any) (err error) {
	for last, more := int64(0), true; more && err == nil; {
		var rows []*catalog.Row
		var next int64
		err = c.change(ctx, func(b batch) {
			rows, next = nil, last
			b.Query(func(scan catalog.Scan) error {
				r, err := scanTexts(scan, &next)
				rows = append(rows, r)
				return err
			}, query, append(args[:len(args):len(args)], last)...)
		}, func(tx *tx) error {
			saveWords(tx, rows)
			return nil
		})
		last, more = next, len(rows) > 0
	}
	return err
}

// scanTexts reads the row and the texts of a video, for its words.
func scanTexts(scan catalog.Scan, id *int64) (*catalog.Row, error) {
	r := &catalog.Row{}
	return r, scan(id, &r.Video.ID, &r.Video.Title, &r.Video.ChannelTitle, &r.Tags, &r.Video.Description, &r.Digest)
}
