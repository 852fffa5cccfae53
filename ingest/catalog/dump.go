package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
)

// DumpOptions are what [Catalog.Dump] can be told; nil is legal.
type DumpOptions struct {
	// Times has the times of fetching too. Without them only what is
	// held counts, whenever and in whatever order it was fetched.
	Times bool
}

// dumps are what is dumped: all but row numbers, fences and the history of runs. The
// times are those of fetching.
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

// Dump writes what the catalog holds as lines of JSON, in an order that depends on
// nothing else: who has the same dump holds the same.
func (c *Catalog) Dump(ctx context.Context, w io.Writer, o *DumpOptions) (err error) {
	var tx *sql.Tx // one state of the file for all tables
	err = c.retry(ctx, func() (err error) {
		tx, err = c.read.BeginTx(ctx, nil)
		return err
	})
	if err != nil {
		return c.fault("read", err)
	}
	defer func() {
		if gone := tx.Rollback(); !errors.Is(gone, sql.ErrTxDone) {
			err = errors.Join(err, gone)
		}
	}()
	e := json.NewEncoder(w)
	for _, d := range dumps {
		columns := d.columns
		if o != nil && o.Times {
			columns += ", " + d.times
		}
		if err := dump(ctx, tx, e, d.name, "SELECT "+columns+" FROM "+d.from); err != nil {
			return c.fault("dump", err)
		}
	}
	return nil
}

func dump(ctx context.Context, tx *sql.Tx, e *json.Encoder, name, query string) (err error) {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	line := make([]any, len(columns)+1)
	dest := make([]any, len(columns))
	line[0] = name
	for i := range dest {
		dest[i] = &line[i+1]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if err := e.Encode(line); err != nil {
			return err
		}
	}
	return rows.Err()
}
