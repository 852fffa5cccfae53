package catalog

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

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
	table("run_work", 2, "run work region pages units new updated unchanged gone statistics state ended_at resume_at error cause='' pool='' refused=0"),
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

// Selected returns the columns as a query names them, if these are there. If none is, an
// earlier version had no such table, and Selected returns "".
func (t Table) Selected(there []string) string {
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
func (c *Catalog) Count(ctx context.Context, t Table) (int64, error) {
	if columns, err := c.selected(ctx, t); err != nil || columns == "" {
		return 0, err
	}
	row, err := c.one(ctx, "SELECT count(*) FROM "+t.Name)
	if err != nil {
		return 0, err
	}
	return row.Int(0), nil
}

// selected returns the columns of a table for a query. It returns "" if the file is of an
// earlier version without that table: a copy does not migrate its source.
func (c *Catalog) selected(ctx context.Context, t Table) (string, error) {
	var there []string
	err := c.each(ctx, func(row sqlitefile.Row) error {
		there = append(there, row.Text(0))
		return nil
	}, "SELECT name FROM pragma_table_info(?1)", t.Name)
	return t.Selected(there), err
}

// Rows returns rows of a table behind the one with a key, in the order of the key. An empty
// key stands before the first. A value is an int64, a string, or nil.
func (c *Catalog) Rows(ctx context.Context, t Table, after []any, limit int) (all [][]any, err error) {
	columns, err := c.selected(ctx, t)
	if err != nil || columns == "" {
		return nil, err
	}
	where, args := "", []driver.Value{}
	if len(after) > 0 {
		where = fmt.Sprintf(" WHERE (%s) > (%s)", strings.Join(t.Columns[:t.Key], ", "), strings.TrimSuffix(strings.Repeat("?, ", t.Key), ", "))
		for _, v := range after {
			args = append(args, v)
		}
	}
	err = c.each(ctx, func(row sqlitefile.Row) error {
		values := make([]any, len(row))
		for i, v := range row {
			values[i] = v
		}
		all = append(all, values)
		return nil
	}, fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s LIMIT ?", columns, t.Name, where, strings.Join(t.Columns[:t.Key], ", ")),
		slices.Concat(args, []driver.Value{limit})...)
	return all, err
}
