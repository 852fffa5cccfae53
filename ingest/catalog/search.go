package catalog

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
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
	text, args, err := searchStatement(q, a)
	if err != nil {
		return Results{}, err
	}
	err = c.each(ctx, func(row sqlitefile.Row) error {
		var v Video
		var id, ranked int64
		if err := scanVideo(row, &v, &id, &ranked); err != nil {
			return err
		}
		a.Cut = ranked == MaxRanked
		a.Add(id, v)
		return nil
	}, text, args...)
	if err != nil {
		return Results{}, err
	}
	r := a.Results()
	if len(r.Hits) == 0 { // there is no row that tells
		row, err := c.one(ctx, "SELECT 1 FROM search WHERE search MATCH ?1 LIMIT 1 OFFSET ?2", expression(a.Phrases), MaxRanked-1)
		r.Cut = row != nil
		return r, err
	}
	return r, nil
}

// bm25 weighs title, description, channel and tags.
const bm25 = "bm25(search, 10, 1, 4, 3)"

// searchStatement returns the SQL of a query. It finds the best rows first and then reads
// their columns. It asks for one row more than the limit.
func searchStatement(q Query, a *Answer) (string, []driver.Value, error) {
	text := "WITH ranked AS MATERIALIZED (SELECT rowid AS id, " + bm25 + ` AS score FROM search WHERE search MATCH ?1 ORDER BY rowid DESC LIMIT ?3),
		hit AS (SELECT id, score FROM ranked WHERE true`
	args := []driver.Value{expression(a.Phrases), a.Limit + 1, MaxRanked}
	where := func(condition string, arg any) {
		args = append(args, arg)
		text += fmt.Sprintf(" AND "+condition, len(args))
	}
	if q.Region != "" {
		where("EXISTS (SELECT 1 FROM sightings WHERE region = ?%d AND video = ranked.id)", q.Region)
	}
	if !q.Since.IsZero() {
		where("(SELECT published_at FROM videos WHERE videos.id = ranked.id) >= ?%d", q.Since)
	}
	if len(a.Shown) > 0 {
		list, err := json.Marshal(a.Shown)
		if err != nil {
			return "", nil, err
		}
		where("id NOT IN (SELECT value FROM json_each(?%d))", string(list))
	}
	return text + " ORDER BY score, id LIMIT ?2) SELECT hit.id, (SELECT count(*) FROM ranked), " + videoColumns + ` FROM hit
		JOIN videos v ON v.id = hit.id LEFT JOIN statistics s ON s.video = v.id ORDER BY hit.score, hit.id`, args, nil
}
