package pgcatalog

import (
	"context"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/words"
)

// Expired implements [catalog.Home].
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
