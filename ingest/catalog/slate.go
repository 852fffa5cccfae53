package catalog

import "context"

// Slate returns a text that processes share, and its version; it is empty, of version 0, before
// anybody wrote it.
func (e *Engine) Slate(ctx context.Context, name string) (text string, version int64, err error) {
	err = e.each(ctx, func(scan Scan) error { return scan(&text, &version) }, "slate_get", name)
	return text, version, err
}

// SetSlate writes a text that processes share, unless another has written since this version was read.
func (e *Engine) SetSlate(ctx context.Context, name, text string, version int64) (written bool, err error) {
	n := 0
	err = e.write(ctx, "write "+name+" in", func(tx Tx) { tx.Count(&n, "slate_set", name, text, version) })
	return n == 1, err
}
