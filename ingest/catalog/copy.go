package catalog

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Source is a catalog to copy from.
type Source interface {
	Path() string
	Count(ctx context.Context, t Table) (int64, error)
	Rows(ctx context.Context, t Table, after []any, limit int) ([][]any, error)
}

// Copied is how far the copy of a table has come.
type Copied struct {
	Table string
	Rows  int64 // that the table has there
	Left  int   // transactions, with this one
}

// CopyRows is the number of rows that one transaction copies.
const CopyRows = 500

// ErrHolds says that a copy would overwrite another catalog.
var ErrHolds = errors.New("copy into an empty database, or into a new file")

// Copy copies a catalog into a new file, and returns the rows of each table. It calls progress
// for every transaction. Until the copy is complete, the file has another name. An
// interrupted copy continues where it stopped. Copy counts the rows at the end, so no other
// process may write to the source meanwhile.
func Copy(ctx context.Context, from Source, path string, progress func(Copied)) (rows map[string]int64, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%s exists: %w", path, ErrHolds)
		}
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(from.Path())) // it never fails
	partial := fmt.Sprintf("%s.copy-%x", path, h.Sum64())
	c, err := Open(ctx, partial, nil)
	if err != nil {
		return nil, err
	}
	rows, err = c.Fill(ctx, from, func(ctx context.Context, t Table, rows [][]any) error {
		insert := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", t.Name, strings.Join(t.Columns, ", "), strings.TrimSuffix(strings.Repeat("?, ", len(t.Columns)), ", "))
		return c.write(ctx, "copy "+t.Name+" to", func(tx Tx) { tx.Bulk(insert, nil, rows) })
	}, "stop what writes to the source, delete "+partial+", and copy again", progress)
	if err == nil {
		err = c.Rebuild(ctx)
	}
	if err = errors.Join(err, c.Close()); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(partial + "-wal"); err == nil { // else its last pages stay behind
		return nil, fmt.Errorf("another program has %s open; close it, and copy again", partial)
	}
	return rows, os.Rename(partial, path)
}

// Fill copies the rest of each table, and returns how many rows it has then. Put stores rows.
// The remedy is what to do if the source has changed meanwhile.
func (e *Engine) Fill(ctx context.Context, from Source, put func(context.Context, Table, [][]any) error, remedy string, progress func(Copied)) (map[string]int64, error) {
	for _, t := range Tables {
		if err := e.fillTable(ctx, from, t, put, progress); err != nil {
			return nil, err
		}
	}
	all := map[string]int64{}
	for _, t := range Tables {
		want, err := from.Count(ctx, t)
		if err != nil {
			return nil, err
		}
		have, err := e.Count(ctx, t)
		if err != nil {
			return nil, err
		}
		if have != want {
			return nil, fmt.Errorf("%s has %d rows there, and %d in the source: %s", t.Name, have, want, remedy)
		}
		all[t.Name] = have
	}
	return all, nil
}

// fillTable copies the rows of a table behind the last one that is there. Both have them in the
// order of the key.
func (e *Engine) fillTable(ctx context.Context, from Source, t Table, put func(context.Context, Table, [][]any) error, progress func(Copied)) error {
	of, err := from.Count(ctx, t)
	if err != nil {
		return err
	}
	done, err := e.Count(ctx, t)
	if err != nil {
		return err
	}
	var after []any
	key := t.Columns[:t.Key]
	err = e.Values(ctx, t.Key, func(row []any) error {
		after = row
		return nil
	}, fmt.Sprintf("SELECT %s FROM headroom_catalog.%s ORDER BY %s DESC LIMIT 1", strings.Join(key, ", "), t.Name, strings.Join(key, " DESC, ")))
	for err == nil {
		var rows [][]any
		if rows, err = from.Rows(ctx, t, after, CopyRows); err != nil || len(rows) == 0 {
			break
		}
		after = slices.Clone(rows[len(rows)-1][:t.Key])
		if err = put(ctx, t, rows); err == nil {
			left := int(max(of-done, 1)+CopyRows-1) / CopyRows
			done += int64(len(rows))
			progress(Copied{t.Name, done, left})
		}
	}
	return err
}

// Table is a table of a catalog, for copying it to another home. Its key begins its columns.
type Table struct {
	Name    string
	Columns []string
	Key     int               // number of columns
	Later   map[string]string // columns that earlier versions lack, and their value there, in SQL
}

// Tables are all tables of a catalog. No row refers to a row of a later table. Another home
// makes its own index of words.
var Tables = []Table{
	table("fences", 1, "name token"),
	table("ledger", 1, "one address since"),
	table("cursors", 2, "job work pass page token since high mark saved_at completed_at resume_at blocked_on=''"),
	table("runs", 1, "id job scheduled_at started_at ended_at state resume_at error"),
	table("run_work", 2, "run work region pages units new updated unchanged gone statistics state ended_at resume_at error cause='' pool='' refused=0 charges=''"),
	table("pool_days", 2, "pool day units calls refused blocked"),
	table("refusals", 4, "pool hour cause caller calls"),
	table("actions", 1, "id at who what target detail"),
	table("channels", 1, "channel_id fetched_at published_at title handle country uploads description"),
	table("videos", 1, "id video_id channel_id published_at fetched_at brief duration category live language thumbnail title channel_title tags description"),
	table("sightings", 2, "region video seen_at"),
	table("statistics", 1, "video fetched_at views likes comments"),
	table("charts", 1, "id region category complete fetched_at"),
	table("chart_entries", 2, "chart rank video"),
}

func table(name string, key int, columns string) Table {
	t := Table{Name: name, Key: key, Later: map[string]string{}}
	for _, column := range strings.Fields(columns) {
		column, value, later := strings.Cut(column, "=")
		if later {
			t.Later[column] = value
		}
		t.Columns = append(t.Columns, column)
	}
	return t
}

// selected returns the columns as a query names them, if these are there. If none is, an
// earlier version had no such table, and selected returns "".
func (t Table) selected(there []string) string {
	if len(there) == 0 {
		return ""
	}
	columns := slices.Clone(t.Columns)
	for i, column := range columns {
		if value, later := t.Later[column]; later && !slices.Contains(there, column) {
			columns[i] = value
		}
	}
	return strings.Join(columns, ", ")
}

// Count returns the number of rows of a table.
func (e *Engine) Count(ctx context.Context, t Table) (n int64, err error) {
	if columns, err := e.selected(ctx, t); err != nil || columns == "" {
		return 0, err
	}
	err = e.each(ctx, func(scan Scan) error { return scan(&n) }, "SELECT count(*) FROM headroom_catalog."+t.Name)
	return n, err
}

// selected returns the columns of a table for a query. It returns "" if the tables are of an
// earlier version without that table: a copy does not migrate its source.
func (e *Engine) selected(ctx context.Context, t Table) (string, error) {
	there, err := list(ctx, e, func(name *string) []any { return []any{name} }, "columns_find", t.Name)
	return t.selected(there), err
}

// Rows returns rows of a table behind the one with a key, in the order of the key. An empty
// key stands before the first. A value is an int64, a string, or nil.
func (e *Engine) Rows(ctx context.Context, t Table, after []any, limit int) ([][]any, error) {
	columns, err := e.selected(ctx, t)
	if err != nil || columns == "" {
		return nil, err
	}
	where, key := "", strings.Join(t.Columns[:t.Key], ", ")
	if len(after) > 0 {
		var places []string
		for i, v := range after {
			as := "text"
			if _, is := v.(int64); is {
				as = "bigint"
			}
			places = append(places, fmt.Sprintf("$%d::%s", i+1, as))
		}
		where = fmt.Sprintf(" WHERE (%s) > (%s)", key, strings.Join(places, ", "))
	}
	query := fmt.Sprintf("SELECT %s FROM headroom_catalog.%s%s ORDER BY %s LIMIT %d", columns, t.Name, where, key, limit)
	var all [][]any
	err = e.Values(ctx, len(t.Columns), func(row []any) error {
		all = append(all, row)
		return nil
	}, query, after...)
	return all, err
}

// Values calls do for every row of a query, with its columns. A value is an int64, a string, or
// nil. It is for copies of a catalog.
func (e *Engine) Values(ctx context.Context, columns int, do func([]any) error, query string, args ...any) error {
	return e.each(ctx, func(scan Scan) error {
		row, dest := make([]any, columns), make([]any, columns)
		for i := range row {
			dest[i] = &row[i]
		}
		if err := scan(dest...); err != nil {
			return err
		}
		for i, v := range row {
			switch v := v.(type) {
			case int32:
				row[i] = int64(v)
			case bool:
				row[i] = int64(0)
				if v {
					row[i] = int64(1)
				}
			}
		}
		return do(row)
	}, query, args...)
}
