package filetest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Blank makes new files without rows. It makes the tables of the first one, and copies that for
// the others: SQLite reads the statements for longer than most tests last.
type Blank struct {
	Open func(path string) (io.Closer, error)

	once  sync.Once
	bytes []byte
	err   error
}

// At makes a file at path.
func (b *Blank) At(t testing.TB, path string) {
	t.Helper()
	b.once.Do(func() { b.err = b.read() })
	if b.err != nil {
		t.Fatal(b.err)
	}
	if err := os.WriteFile(path, b.bytes, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (b *Blank) read() error {
	dir, err := os.MkdirTemp("", "blank")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "blank.db")
	c, err := b.Open(path)
	if err == nil {
		err = c.Close() // what is in the log goes into the file
	}
	if err == nil {
		b.bytes, err = os.ReadFile(path)
	}
	return errors.Join(err, os.RemoveAll(dir))
}
