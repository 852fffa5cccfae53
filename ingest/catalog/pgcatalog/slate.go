package pgcatalog

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Slate returns a text that processes share, and its version; it is empty, of version 0, before
// anybody wrote it.
func (c *Catalog) Slate(ctx context.Context, name string) (text string, version int64, err error) {
	err = c.each(ctx, func(scan func(...any) error) error { return scan(&text, &version) }, sql("slate_get"), name)
	return text, version, err
}

// SetSlate writes a text that processes share, unless another has written since this version was read.
func (c *Catalog) SetSlate(ctx context.Context, name, text string, version int64) (written bool, err error) {
	err = c.change(ctx, nothing, func(_ *tx, b *pgx.Batch) error {
		b.Queue(sql("slate_set"), name, valid(text), version).Exec(func(tag pgconn.CommandTag) error {
			written = tag.RowsAffected() == 1
			return nil
		})
		return nil
	})
	return written, c.fault("write "+name+" in", err)
}
