package catalog

import (
	"context"
	"fmt"
)

// Fence stops a process from writing after another process has taken over. The holder of
// a lease passes its token with every write. The catalog rejects tokens below the highest
// one of that name, in the transaction that writes the rows. The zero Fence protects
// nothing.
type Fence struct {
	Name  string // such as an account and its job
	Token int64  // grows with each holder
}

// NewFence returns a fence whose token is higher than any other of that name. It is for
// holders of a lock without tokens, such as the operating system's lock on a file.
func (c *Catalog) NewFence(ctx context.Context, name string) (Fence, error) {
	f := Fence{Name: name}
	err := c.change(ctx, func(tx *tx) error {
		last, err := tx.fenceToken(name)
		if err != nil {
			return err
		}
		f.Token = max(last+1, tx.now.UnixMicro())
		_, err = tx.Exec("fence_save", name, f.Token)
		return err
	})
	if err != nil {
		return Fence{}, c.fault("write to", err)
	}
	return f, nil
}

// checkFence compares a fence with the highest token of its name, and saves a higher one.
func (t *tx) checkFence(f Fence) error {
	if f.Name == "" {
		return nil
	}
	last, err := t.fenceToken(f.Name)
	switch {
	case err != nil:
		return err
	case last > f.Token:
		return fmt.Errorf("%s: %w", f.Name, ErrFenced)
	case last < f.Token:
		_, err = t.Exec("fence_save", f.Name, f.Token)
	}
	return err
}

// fenceToken returns the highest token of a name; 0 if it has none.
func (t *tx) fenceToken(name string) (int64, error) {
	row, err := t.One("fence_find", name)
	if row == nil {
		return 0, err
	}
	return row.Int(0), nil
}
