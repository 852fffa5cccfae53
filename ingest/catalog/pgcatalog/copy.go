package pgcatalog

import (
	"context"
	"encoding/json"
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
		return nil, c.fault("open", err)
	}
	at, key, err := c.beginCopy(ctx, from.Path())
	if err != nil {
		return nil, c.fault("copy to", err)
	}
	for i, t := range catalog.Tables {
		if i < at {
			continue
		}
		count, err := from.Count(ctx, t)
		if err != nil {
			return nil, err
		}
		var after []any
		if i == at {
			after = key
		}
		if err := c.copyTable(ctx, from, t, after, count, progress); err != nil {
			return nil, c.fault("copy "+t.Name+" to", err)
		}
	}
	rows, err = c.endCopy(ctx, from)
	return rows, c.fault("copy to", err)
}

// beginCopy returns the table at which a copy continues, and the key of its last row there.
func (c *Catalog) beginCopy(ctx context.Context, source string) (at int, key []any, err error) {
	var from, table, last string
	var found []string
	err = c.change(ctx, func(b *pgx.Batch) {
		from, found = "", nil
		b.Queue(sql("copy_find")).Query(func(rows pgx.Rows) error {
			return eachRow(rows, func(scan func(...any) error) error { return scan(&from, &table, &last) })
		})
		b.Queue(held()).Query(func(rows pgx.Rows) error {
			return eachRow(rows, func(scan func(...any) error) error {
				found = append(found, "")
				return scan(&found[len(found)-1])
			})
		})
	}, func(_ *tx, b *pgx.Batch) error {
		switch {
		case from == source:
		case from != "":
			return fmt.Errorf("a copy from %s into it is not complete: %w, or complete that copy first", from, catalog.ErrHolds)
		case len(found) > 0:
			return fmt.Errorf("it already has %v: %w%s", found, catalog.ErrHolds, emptied(found))
		default:
			b.Queue(sql("copy_begin"), source)
		}
		return nil
	})
	if err != nil || table == "" {
		return 0, nil, err
	}
	at = slices.IndexFunc(catalog.Tables, func(t catalog.Table) bool { return t.Name == table })
	if at < 0 {
		return 0, nil, fmt.Errorf("a copy by another version stopped at a table %s", table)
	}
	key, err = decodeKey(last)
	return at, key, err
}

// held is a query for the names of the tables that have rows.
func held() string {
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

// decodeKey reads a key: whole numbers and texts.
func decodeKey(text string) (key []any, err error) {
	var parts []json.RawMessage
	if err := json.Unmarshal([]byte(text), &parts); err != nil {
		return nil, err
	}
	for _, part := range parts {
		var n int64
		var s string
		if json.Unmarshal(part, &n) == nil {
			key = append(key, n)
		} else if err := json.Unmarshal(part, &s); err == nil {
			key = append(key, s)
		} else {
			return nil, err
		}
	}
	return key, nil
}

func (c *Catalog) copyTable(ctx context.Context, from catalog.Source, t catalog.Table, after []any, of int64, progress func(catalog.Copied)) error {
	var done int64
	err := c.each(ctx, func(scan func(...any) error) error { return scan(&done) }, "SELECT count(*) FROM headroom_catalog."+t.Name)
	if err != nil {
		return err
	}
	for {
		rows, err := from.Rows(ctx, t, after, catalog.CopyRows)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		after = slices.Clone(rows[len(rows)-1][:t.Key])
		if err := c.copyPart(ctx, t, rows, after); err != nil {
			return err
		}
		left := int(max(of-done, 1)+catalog.CopyRows-1) / catalog.CopyRows
		done += int64(len(rows))
		progress(catalog.Copied{Table: t.Name, Rows: done, Left: left})
	}
}

// copyPart copies some rows of a table, and notes the last one.
func (c *Catalog) copyPart(ctx context.Context, t catalog.Table, rows [][]any, last []any) error {
	key, err := json.Marshal(last)
	if err != nil {
		return err
	}
	columns := t.Columns
	var videos []row
	for i := range rows {
		for n, v := range rows[i] {
			rows[i][n] = converted(t.Columns[n], v)
		}
		if t.Name == "videos" {
			v, err := videoOf(t, rows[i])
			if err != nil {
				return err
			}
			rows[i] = append(rows[i], v.digest)
			videos = append(videos, v)
		}
	}
	if t.Name == "videos" {
		columns = append(slices.Clone(columns), "digest")
	}
	return c.change(ctx, nothing, func(tx *tx, b *pgx.Batch) error {
		if _, err := tx.CopyFrom(tx.ctx, pgx.Identifier{schema.Name, t.Name}, columns, pgx.CopyFromRows(rows)); err != nil {
			return err
		}
		if len(videos) > 0 {
			saveWords(b, videos)
		}
		b.Queue(sql("copy_save"), t.Name, string(key))
		return nil
	})
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
func videoOf(t catalog.Table, values []any) (row, error) {
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
		return row{}, err
	}
	r, err := rowOf(v)
	return r, err
}

// endCopy makes the catalog ready for use, if it has as many rows as the source.
func (c *Catalog) endCopy(ctx context.Context, from catalog.Source) (map[string]int64, error) {
	rows := map[string]int64{}
	for _, t := range catalog.Tables {
		want, err := from.Count(ctx, t)
		if err != nil {
			return nil, err
		}
		var have int64
		err = c.each(ctx, func(scan func(...any) error) error { return scan(&have) }, "SELECT count(*) FROM headroom_catalog."+t.Name)
		if err != nil {
			return nil, err
		}
		if have != want {
			return nil, fmt.Errorf("%s has %d rows there, and %d in the source: stop what writes to either, empty the database, and copy again%s", t.Name, have, want, dropped)
		}
		rows[t.Name] = have
	}
	return rows, c.change(ctx, nothing, func(_ *tx, b *pgx.Batch) error {
		b.Queue(sql("number_on"))
		b.Queue(sql("copy_end"))
		return nil
	})
}

// copied returns an error if a copy into the catalog is not complete.
func (c *Catalog) copied(ctx context.Context) error {
	return c.each(ctx, func(scan func(...any) error) error {
		var source, table, key string
		if err := scan(&source, &table, &key); err != nil {
			return err
		}
		return fmt.Errorf("%w: it is from %s\nTo complete it: ingestor catalog copy --from %[2]s --to URL", ErrUnfinished, source)
	}, sql("copy_find"))
}
