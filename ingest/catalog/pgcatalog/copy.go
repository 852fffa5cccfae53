package pgcatalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Copy copies a catalog into the database that a URL names, and returns the rows of each
// table. It calls progress for every transaction. An interrupted copy continues where it
// stopped. Until it is complete, no run can use the database. Copy counts the rows at the end,
// so no other process may write to the source meanwhile.
func Copy(ctx context.Context, from catalog.Source, url string, progress func(catalog.Copied)) (rows map[string]int64, err error) {
	c, err := connect(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	defer c.pool.Close()
	soon, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	if err := schema.Open(soon, c.pool); err != nil {
		return nil, (*home)(c).Fault("open", err)
	}
	if err := c.beginCopy(ctx, from.Path()); err != nil {
		return nil, (*home)(c).Fault("copy to", err)
	}
	rows, err = c.Fill(ctx, from, c.copyPart, "stop what writes to either, empty the database, and copy again"+dropped, progress)
	if err == nil {
		err = c.endCopy(ctx)
	}
	return rows, err
}

// beginCopy notes that a copy has begun, or goes on.
func (c *Catalog) beginCopy(ctx context.Context, source string) error {
	var from string
	var found []string
	return c.change(ctx, func(b batch) {
		from, found = "", nil
		b.Query(func(scan catalog.Scan) error { return scan(&from) }, "copy_find")
		b.Query(func(scan catalog.Scan) error {
			found = append(found, "")
			return scan(&found[len(found)-1])
		}, holding())
	}, func(tx *tx) error {
		switch {
		case from == source:
		case from != "":
			return fmt.Errorf("a copy from %s into it is not complete: %w, or complete that copy first", from, catalog.ErrHolds)
		case len(found) > 0:
			return fmt.Errorf("it already has %v: %w%s", found, catalog.ErrHolds, emptied(found))
		default:
			tx.Exec("copy_begin", source)
		}
		return nil
	})
}

// holding is a query for the names of the tables that have rows.
func holding() string {
	var all []string
	for _, t := range catalog.Tables {
		all = append(all, fmt.Sprintf("SELECT '%[1]s' WHERE EXISTS (SELECT 1 FROM %[2]s.%[1]s)", t.Name, Schema))
	}
	return strings.Join(all, " UNION ALL ")
}

// emptied says how to empty a database that has only what a server notes.
func emptied(found []string) string {
	for _, table := range found {
		if !slices.Contains([]string{"pool_days", "refusals", "actions"}, table) {
			return ""
		}
	}
	return dropped
}

const dropped = "\nTo empty it: stop all programs that use it, then run: psql URL -c 'DROP SCHEMA " + Schema + " CASCADE'"

// copyPart copies some rows of a table.
func (c *Catalog) copyPart(ctx context.Context, t catalog.Table, rows [][]any) error {
	columns := t.Columns
	var videos []*catalog.Row
	for i := range rows {
		for n, v := range rows[i] {
			rows[i][n] = converted(t.Columns[n], v)
		}
		if t.Name == "videos" {
			v, err := videoOf(t, rows[i])
			if err != nil {
				return err
			}
			rows[i] = append(rows[i], digest(v))
			videos = append(videos, v)
		}
	}
	if t.Name == "videos" {
		columns = append(slices.Clone(columns), "digest")
	}
	return (*home)(c).Fault("copy "+t.Name+" to", c.change(ctx, nothing, func(tx *tx) error {
		_, err := tx.conn.CopyFrom(tx.ctx, pgx.Identifier{schema.Name, t.Name}, columns, pgx.CopyFromRows(rows))
		saveWords(tx, videos)
		return err
	}))
}

// converted returns a value of a file as PostgreSQL holds it.
func converted(column string, value any) any {
	switch v := value.(type) {
	case int64:
		if column == "brief" || column == "complete" {
			return v != 0
		}
	case string:
		return valid(v)
	}
	return value
}

// videoOf returns a row of the table videos as one of a page.
func videoOf(t catalog.Table, values []any) (*catalog.Row, error) {
	text := func(column string) string { return values[slices.Index(t.Columns, column)].(string) }
	number := func(column string) int64 {
		n, _ := values[slices.Index(t.Columns, column)].(int64)
		return n
	}
	v := catalog.Video{
		ID: text("video_id"), ChannelID: text("channel_id"), ChannelTitle: text("channel_title"), Title: text("title"),
		Description: text("description"), Category: text("category"), Live: text("live"), Language: text("language"),
		Thumbnail: text("thumbnail"), Duration: time.Duration(number("duration")) * time.Second,
		PublishedAt: timeOf(number("published_at")), Brief: values[slices.Index(t.Columns, "brief")].(bool),
	}
	if err := v.SetTags(text("tags")); err != nil {
		return nil, err
	}
	return catalog.NewRow(v)
}

func (c *Catalog) endCopy(ctx context.Context) error {
	return (*home)(c).Fault("copy to", c.change(ctx, nothing, func(tx *tx) error {
		tx.Exec("number_on")
		tx.Exec("copy_end")
		return nil
	}))
}

// copied returns an error if a copy into the catalog is not complete.
func (c *Catalog) copied(ctx context.Context) error {
	return c.each(ctx, func(scan catalog.Scan) error {
		var source string
		if err := scan(&source); err != nil {
			return err
		}
		return fmt.Errorf("%w: it is from %s\nTo complete it: ingestor catalog copy --from %[2]s --to URL", ErrUnfinished, source)
	}, "copy_find")
}
