package catalog

import (
	"context"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// Slate returns a text that processes share, and its version; it is empty, of version 0, before
// anybody wrote it.
func (c *Catalog) Slate(ctx context.Context, name string) (text string, version int64, err error) {
	err = c.each(ctx, func(row sqlitefile.Row) error { return row.Scan(&text, &version) }, "SELECT text, version FROM slates WHERE name = ?", name)
	return text, version, err
}

// SetSlate writes a text that processes share, unless another has written since this version was read.
func (c *Catalog) SetSlate(ctx context.Context, name, text string, version int64) (written bool, err error) {
	err = c.change(ctx, func(tx *tx) error {
		n, err := tx.Exec("slate_set", name, validText(text), version)
		written = n == 1
		return err
	})
	return written, c.fault("write "+name+" in", err)
}
