package pgcatalog

import (
	"context"
	"encoding/json"
	"io"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// dumps are the tables of a dump, as in package catalog.
var dumps = []struct{ name, columns, times, from string }{
	{
		"channel", "channel_id, title, handle, country, uploads, description, published_at", "fetched_at",
		"headroom_catalog.channels ORDER BY channel_id",
	},
	{
		"video", "video_id, channel_id, channel_title, title, description, tags, category, live, language, thumbnail, duration, published_at, brief::integer", "fetched_at",
		"headroom_catalog.videos ORDER BY video_id",
	},
	{
		"statistics", "video_id, views, likes, comments", "s.fetched_at",
		"headroom_catalog.statistics s JOIN headroom_catalog.videos v ON v.id = s.video ORDER BY video_id",
	},
	{
		"sighting", "region, video_id", "seen_at",
		"headroom_catalog.sightings s JOIN headroom_catalog.videos v ON v.id = s.video ORDER BY region, video_id",
	},
	{
		"chart", "region, c.category, complete::integer, rank, video_id", "c.fetched_at",
		`headroom_catalog.charts c JOIN headroom_catalog.chart_entries e ON e.chart = c.id
			JOIN headroom_catalog.videos v ON v.id = e.video ORDER BY region, c.category, complete, rank`,
	},
	{
		"cursor", "job, work, pass, page, token, since, high, mark", "saved_at, completed_at, resume_at, blocked_on",
		"headroom_catalog.cursors ORDER BY job, work",
	},
}

// Dump writes the contents of the catalog as lines of JSON, in a fixed order. Equal dumps
// mean equal contents, also if the other catalog is in a file.
func (c *Catalog) Dump(ctx context.Context, w io.Writer, o *catalog.DumpOptions) error {
	e := json.NewEncoder(w)
	for _, d := range dumps {
		columns := d.columns
		if o != nil && o.Times {
			columns += ", " + d.times
		}
		rows, err := c.conn().Query(ctx, "SELECT "+columns+" FROM "+d.from)
		if err != nil {
			return c.fault("read", err)
		}
		for rows.Next() && err == nil {
			var values []any
			if values, err = rows.Values(); err == nil {
				err = e.Encode(append([]any{d.name}, values...))
			}
		}
		if rows.Close(); err == nil {
			err = rows.Err()
		}
		if err != nil {
			return c.fault("read", err)
		}
	}
	return nil
}
