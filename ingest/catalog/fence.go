package catalog

import (
	"context"
	"fmt"
)

// Fence keeps a process from writing after another has taken over. The holder of a
// lease shows its token with all it writes; the catalog refuses any that is below
// the highest it has seen under that name, in the very transaction of the rows. The
// zero Fence guards nothing.
type Fence struct {
	Name  string // such as an account and its job
	Token int64  // higher with each holder
}

// NewFence returns a fence with a token above all that were shown under the name,
// for who holds a lock that has no token of its own, such as the operating system's
// on a file.
func (c *Catalog) NewFence(ctx context.Context, name string) (Fence, error) {
	f := Fence{Name: name}
	err := c.change(ctx, func(tx *tx) error {
		var last int64
		if _, err := tx.one("fence_find", []any{name}, &last); err != nil {
			return err
		}
		f.Token = max(last+1, tx.now)
		_, err := tx.exec("fence_save", name, f.Token)
		return err
	})
	if err != nil {
		return Fence{}, c.fault("write to", err)
	}
	return f, nil
}

// show checks a fence, and remembers its token.
func (t *tx) show(f Fence) error {
	if f.Name == "" {
		return nil
	}
	var last int64
	_, err := t.one("fence_find", []any{f.Name}, &last)
	switch {
	case err != nil:
		return err
	case last > f.Token:
		return fmt.Errorf("%s: %w", f.Name, ErrFenced)
	case last < f.Token:
		_, err = t.exec("fence_save", f.Name, f.Token)
	}
	return err
}
