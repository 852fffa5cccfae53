// Package dump writes what a catalog holds as text, so that tests can compare two of them.
package dump

import (
	"context"
	"encoding/json"
	"strings"
)

// Catalog is a catalog in any home.
type Catalog interface {
	Values(ctx context.Context, columns int, do func([]any) error, query string, args ...any) error
}

// dumps are the tables of a dump. It leaves out row numbers, fences and the history of
// runs.
var dumps = []struct{ name, columns, times, from string }{
	{
		"channel", "channel_id, title, handle, country, uploads, description, published_at", "fetched_at",
		"headroom_catalog.channels ORDER BY channel_id",
	},
	{
		"video", "video_id, channel_id, channel_title, title, description, tags, category, live, language, thumbnail, duration, published_at, brief", "fetched_at",
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
		"chart", "region, c.category, complete, rank, video_id", "c.fetched_at",
		`headroom_catalog.charts c JOIN headroom_catalog.chart_entries e ON e.chart = c.id
			JOIN headroom_catalog.videos v ON v.id = e.video ORDER BY region, c.category, complete, rank`,
	},
	{
		"cursor", "job, work, pass, page, token, since, high, mark", "saved_at, completed_at, resume_at, blocked_on",
		"headroom_catalog.cursors ORDER BY job, work",
	},
}

// Text returns the contents of a catalog as lines of JSON, in a fixed order. Equal texts mean equal
// contents, also in different homes. With times, it has the times at which data was fetched.
// Without them it does not depend on when the data was fetched, or in which order.
func Text(ctx context.Context, c Catalog, times bool) (string, error) {
	var b strings.Builder
	out := json.NewEncoder(&b)
	for _, d := range dumps {
		columns := d.columns
		if times {
			columns += ", " + d.times
		}
		err := c.Values(ctx, strings.Count(columns, ",")+1, func(row []any) error {
			return out.Encode(append([]any{d.name}, row...))
		}, "SELECT "+columns+" FROM "+d.from)
		if err != nil {
			return "", err
		}
	}
	return b.String(), nil
}
