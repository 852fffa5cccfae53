package pgcatalog

import (
	"context"
	"fmt"
	"strings"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

var _ catalog.Source = (*Catalog)(nil)

// Count returns the number of rows of a table.
func (c *Catalog) Count(ctx context.Context, t catalog.Table) (n int64, err error) {
	if columns, err := c.selected(ctx, t); err != nil || columns == "" {
		return 0, err
	}
	err = c.each(ctx, func(scan func(...any) error) error { return scan(&n) }, "SELECT count(*) FROM headroom_catalog."+t.Name)
	return n, err
}

// selected returns the columns of a table for a query. It returns "" if the schema is of an
// earlier version without that table.
func (c *Catalog) selected(ctx context.Context, t catalog.Table) (string, error) {
	var there []string
	err := c.each(ctx, func(scan func(...any) error) error {
		there = append(there, "")
		return scan(&there[len(there)-1])
	}, "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1::text) AND attnum > 0 AND NOT attisdropped", "headroom_catalog."+t.Name)
	return t.Selected(there), err
}

// Rows returns rows of a table behind the one with a key, as a file holds them: see
// [catalog.Catalog.Rows].
func (c *Catalog) Rows(ctx context.Context, t catalog.Table, after []any, limit int) (all [][]any, err error) {
	columns, err := c.selected(ctx, t)
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
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	rows, err := c.conn().Query(ctx, fmt.Sprintf("SELECT %s FROM headroom_catalog.%s%s ORDER BY %s LIMIT %d", columns, t.Name, where, key, limit), after...)
	if err != nil {
		return nil, c.fault("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return nil, c.fault("read", err)
		}
		for i, v := range values {
			switch v := v.(type) {
			case int32:
				values[i] = int64(v)
			case int16:
				values[i] = int64(v)
			case bool:
				values[i] = int64(0)
				if v {
					values[i] = int64(1)
				}
			}
		}
		all = append(all, values)
	}
	return all, c.fault("read", rows.Err())
}
