package catalog

import (
	"context"
	"encoding/json"
	"io"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// DumpOptions are the options of [Catalog.Dump]; nil is valid.
type DumpOptions struct {
	// Times adds the times at which data was fetched. Without them a dump does not
	// depend on when the data was fetched, or in which order.
	Times bool
}

// dumps are the tables of a dump. It leaves out row numbers, fences and the history of
// runs.
var dumps = []struct{ name, columns, times, from string }{
	{
		"channel", "channel_id, title, handle, country, uploads, description, published_at", "fetched_at",
		"channels ORDER BY channel_id",
	},
	{
		"video", "video_id, channel_id, channel_title, title, description, tags, category, live, language, thumbnail, duration, published_at, brief", "fetched_at",
		"videos ORDER BY video_id",
	},
	{
		"statistics", "video_id, views, likes, comments", "s.fetched_at",
		"statistics s JOIN videos v ON v.id = s.video ORDER BY video_id",
	},
	{
		"sighting", "region, video_id", "seen_at",
		"sightings s JOIN videos v ON v.id = s.video ORDER BY region, video_id",
	},
	{
		"chart", "region, c.category, complete, rank, video_id", "c.fetched_at",
		"charts c JOIN chart_entries e ON e.chart = c.id JOIN videos v ON v.id = e.video ORDER BY region, c.category, complete, rank",
	},
	{
		"cursor", "job, work, pass, page, token, since, high, mark", "saved_at, completed_at, resume_at, blocked_on",
		"cursors ORDER BY job, work",
	},
}

// Dump writes the contents of the catalog as lines of JSON, in a fixed order. Equal dumps
// mean equal contents.
func (c *Catalog) Dump(ctx context.Context, w io.Writer, o *DumpOptions) error {
	e := json.NewEncoder(w)
	return c.view(ctx, func(s *sqlitefile.Session) error {
		for _, d := range dumps {
			columns := d.columns
			if o != nil && o.Times {
				columns += ", " + d.times
			}
			err := s.Rows("SELECT "+columns+" FROM "+d.from, nil, func(row sqlitefile.Row) error {
				line := []any{d.name}
				for _, value := range row {
					line = append(line, value)
				}
				return e.Encode(line)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
