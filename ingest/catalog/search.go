package catalog

import (
	"context"
	"database/sql/driver"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog/words"
	"modernc.org/sqlite"
)

// Query is a search for videos.
type Query struct {
	// Text is the text that a person typed. Any text is valid. A video matches if its
	// title, its channel's title, its tags or its description contain all words. Words
	// between quotation marks must follow each other. The last word, and any word with a
	// star behind it, matches as a prefix. A text without words matches nothing.
	Text string
	// Region finds only videos that were fetched for it; empty finds all.
	Region string
	// Since finds only videos published since then; zero finds all.
	Since time.Time
	// Limit is the largest number of hits to return: up to 100; zero is 20.
	Limit int
	// Cursor continues after earlier [Results]; empty starts at the beginning.
	Cursor string
}

// Results are the videos that a search found, the best first.
type Results struct {
	Hits []Hit
	// Cursor continues the search; empty if there are no more hits. It names the hits so
	// far, so that no video is shown twice or skipped while others are fetched. It ends
	// after 500 hits.
	Cursor string
	// Cut says that so many videos have the words that a search looks at some only: see
	// [MaxRanked].
	Cut bool
}

// Hit is a video that a search found, with the matches marked.
type Hit struct {
	Video   Video
	Title   Marked
	Channel Marked
	Snippet Marked // the part of the description with most matches
}

// MaxRanked bounds the cost of a search, because common words would rank much of the catalog.
// A search ranks at most this many of the videos that have the words: those added last.
const MaxRanked = 2000

// ErrBadCursor says that a cursor is invalid.
var ErrBadCursor = errors.New("the cursor is damaged: search from the beginning")

// Search finds videos.
func (c *Catalog) Search(ctx context.Context, q Query) (Results, error) {
	a, err := NewAnswer(q)
	if err != nil || a.Limit <= 0 {
		return Results{}, err
	}
	err = c.each(ctx, func(scan Scan) error {
		var v Video
		var id, ranked int64
		if err := ScanVideo(scan, &v, &id, &ranked); err != nil {
			return err
		}
		a.Cut = ranked == MaxRanked
		a.Add(id, v)
		return nil
	}, "search", expression(a.Phrases), MaxRanked, a.Limit+1, q.Region, q.Since, append([]int64{}, a.Shown...))
	if err != nil {
		return Results{}, err
	}
	r := a.Results()
	if len(r.Hits) == 0 { // there is no row that tells
		err = c.each(ctx, func(Scan) error {
			r.Cut = true
			return nil
		}, "search_cut", expression(a.Phrases), MaxRanked-1)
	}
	return r, err
}

// Marked is a text with its matches marked. It is plain text: escape each segment before
// you show it as HTML.
type Marked = words.Marked

// Segment is a part of a [Marked] text.
type Segment = words.Segment

const (
	defaultHits = 20
	maxHits     = 100
	maxDepth    = 500
)

// Answer is the part of a search that every home of a catalog shares. Code that stores a
// catalog asks its index for Phrases without the rows in Shown, for one row more than
// Limit, and adds the rows it finds, the best first.
type Answer struct {
	Phrases []words.Phrase
	Shown   []int64 // rows that the cursor names
	Limit   int     // 0 if nothing can match
	Cut     bool    // see [Results]

	hits []Hit
	more bool
}

// NewAnswer begins the answer to a query. The error is [ErrBadCursor].
func NewAnswer(q Query) (*Answer, error) {
	shown, err := decodeShown(q.Cursor)
	if err != nil {
		return nil, err
	}
	if q.Limit <= 0 {
		q.Limit = defaultHits
	}
	a := &Answer{Phrases: words.Parse(q.Text), Shown: shown, Limit: min(q.Limit, maxHits, maxDepth-len(shown))}
	if len(a.Phrases) == 0 {
		a.Limit = 0
	}
	return a, nil
}

// Add adds a video that was found, with its row.
func (a *Answer) Add(row int64, v Video) {
	if a.more = len(a.hits) == a.Limit; a.more {
		return
	}
	a.hits = append(a.hits, Hit{
		Video: v, Title: words.Mark(v.Title, a.Phrases), Channel: words.Mark(v.ChannelTitle, a.Phrases),
		Snippet: words.Snippet(v.Description, a.Phrases),
	})
	a.Shown = append(a.Shown, row)
}

// Results returns what was found.
func (a *Answer) Results() Results {
	r := Results{Hits: a.hits, Cut: a.Cut}
	if a.more && len(a.Shown) < maxDepth {
		r.Cursor = encodeShown(a.Shown)
	}
	return r
}

// encodeShown encodes rows as a cursor: sorted, each as its distance from the one before.
func encodeShown(rows []int64) string {
	rows = slices.Sorted(slices.Values(rows))
	var b []byte
	last := int64(0)
	for _, row := range rows {
		b = binary.AppendUvarint(b, uint64(row-last))
		last = row
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeShown(cursor string) (rows []int64, err error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, ErrBadCursor
	}
	row := int64(0)
	for len(b) > 0 {
		distance, n := binary.Uvarint(b)
		if n <= 0 || len(rows) == maxDepth || distance > 1<<40 {
			return nil, ErrBadCursor
		}
		row += int64(distance)
		rows, b = append(rows, row), b[n:]
	}
	return rows, nil
}

// The functions that the triggers and the view of schema/0001_catalog.sql call.
func init() {
	for name, f := range map[string]func(string) string{"catalog_words": words.Of, "catalog_tags": words.OfTags} {
		err := sqlite.RegisterDeterministicScalarFunction(name, 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			text, _ := args[0].(string)
			return f(text), nil
		})
		if err != nil {
			panic(err) // the name is taken
		}
	}
}

// expression returns the phrases in the query language of FTS5, or "" if there are none.
// Words consist of letters and digits, so they need no escaping between quotes.
func expression(all []words.Phrase) string {
	var parts []string
	for _, p := range all {
		text := `"` + strings.Join(p.Words, " ") + `"`
		if p.Prefix { // the whole word ranks higher than longer words
			text = "(" + text + " OR " + text + " *)"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " AND ")
}
