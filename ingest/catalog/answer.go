package catalog

import (
	"encoding/base64"
	"encoding/binary"
	"slices"

	"github.com/headroom-quota/headroom/ingest/catalog/words"
)

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
