package pgcatalog

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Cursor returns the position of a unit of work. For unknown work it returns the start
// of the first pass.
func (c *Catalog) Cursor(ctx context.Context, job, work string) (catalog.Cursor, error) {
	cur := catalog.Cursor{Job: job, Work: work}
	err := c.each(ctx, func(scan func(...any) error) error { return scan(columnsOf(&cur)...) }, sql("cursor_find"), job, work)
	return cur, err
}

// Cursors returns the cursors of a job, or of all jobs if job is empty. The cursor whose
// last complete pass is oldest comes first.
func (c *Catalog) Cursors(ctx context.Context, job string) (all []catalog.Cursor, err error) {
	err = c.each(ctx, func(scan func(...any) error) error {
		var cur catalog.Cursor
		err := scan(columnsOf(&cur)...)
		all = append(all, cur)
		return err
	}, sql("cursors_find"), job)
	return all, err
}

// Reset forgets the position of a unit of work. Fetched data stays.
func (c *Catalog) Reset(ctx context.Context, job, work string) error {
	return c.fault("reset "+job+" "+work+" in", c.change(ctx, nothing, func(_ *tx, b *pgx.Batch) error {
		b.Queue(sql("cursor_reset"), job, work)
		return nil
	}))
}

// columnsOf returns where the columns of a cursor are read to.
func columnsOf(cur *catalog.Cursor) []any {
	return []any{
		&cur.Job, &cur.Work, &cur.Pass, &cur.Page, &cur.Token, &cur.Since, &cur.High, &cur.Mark,
		&cur.SavedAt, &cur.CompletedAt, &cur.ResumeAt, &cur.BlockedOn,
	}
}

// locked is a cursor that no one else moves until the transaction ends.
type locked struct {
	catalog.Cursor
	there bool
}

// read queues the reading of a cursor.
func (l *locked) read(b *pgx.Batch, job, work string) {
	*l = locked{Cursor: catalog.Cursor{Job: job, Work: work}}
	b.Queue(sql("cursor_lock"), job, work).Query(func(rows pgx.Rows) error {
		return eachRow(rows, func(scan func(...any) error) error {
			l.there = true
			return scan(columnsOf(&l.Cursor)...)
		})
	})
}

// save queues the writing of the cursor.
func (l *locked) save(b *pgx.Batch) {
	statement := "cursor_add"
	if l.there {
		statement = "cursor_save"
	}
	b.Queue(sql(statement), l.Job, l.Work, l.Pass, l.Page, valid(l.Token), micros(l.Since), micros(l.High), micros(l.Mark),
		micros(l.SavedAt), micros(l.CompletedAt), micros(l.ResumeAt), l.BlockedOn)
}
