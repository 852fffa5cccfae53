package catalog

import (
	"context"
	"errors"
	"time"
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
