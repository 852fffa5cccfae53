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
func (e *Engine) NewFence(ctx context.Context, name string) (Fence, error) {
	f := Fence{Name: name}
	err := e.write(ctx, "write to", func(tx Tx) {
		tx.Query(func(scan Scan) error { return scan(&f.Token) }, "fence_take", name, tx.Now.UnixMicro())
	})
	if err != nil {
		return Fence{}, err
	}
	return f, nil
}

// check compares the fence with the highest token of its name, and saves a higher one. That
// takes a round trip of its own, once for a token: nothing may be committed if another process
// with a higher token was faster.
func (f Fence) check(tx Tx, last int64) error {
	var err error
	if last < f.Token && f.Name != "" {
		err = tx.Ask(func(scan Scan) error { return scan(&last) }, "fence_save", f.Name, f.Token)
	}
	if err == nil && last > f.Token {
		err = fmt.Errorf("%s: %w", f.Name, ErrFenced)
	}
	return err
}
