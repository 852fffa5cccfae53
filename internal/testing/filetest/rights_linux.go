package filetest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
)

// AsNobody is a task of a child that uses a file as a user without rights, and writes the error.
// [Files.WithoutRights] starts it as "as nobody".
func AsNobody(use func(path string) error) childtest.Task {
	return func(path string, begin func() bool, out io.Writer) error {
		if err := syscall.Setuid(65534); err != nil {
			return err
		}
		begin()
		_, err := fmt.Fprintln(out, strings.ReplaceAll(fmt.Sprint(use(path)), "\n", " "))
		return err
	}
}

// WithoutRights checks what somebody is told who may not write a file, and that it stays the
// same. Fill makes a file, and returns what checks it.
func (f Files) WithoutRights(t *testing.T, fill func(t *testing.T, path string) (c io.Closer, same func(t *testing.T))) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody without rights")
	}
	for _, tt := range []struct {
		name      string
		file, dir fs.FileMode
		live      bool // another process uses the file
		words     []string
	}{
		{"to_the_file", 0o444, 0o777, true, []string{"cannot be written; give this user the right to write the file and its directory"}},
		{"to_the_file_alone", 0o444, 0o777, false, []string{"cannot be written"}},
		{"to_the_directory", 0o666, 0o755, false, []string{"directory"}},
		{"to_read_either", 0o600, 0o700, false, []string{"cannot be opened"}},
		{"to_anything_new", 0, 0o755, false, []string{"cannot be opened", "directory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", f.Kind.Name) // others cannot read t.TempDir
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			path, same := filepath.Join(dir, f.Kind.Name+".db"), func(*testing.T) {}
			if tt.file != 0 {
				var c io.Closer
				if c, same = fill(t, path); !tt.live {
					_ = c.Close()
				}
				for _, suffix := range []string{"", "-wal", "-shm"} {
					if err := os.Chmod(path+suffix, tt.file); err != nil && (suffix == "" || tt.live) {
						t.Fatal(err)
					}
				}
			}
			if err := os.Chmod(dir, tt.dir); err != nil {
				t.Fatal(err)
			}
			c := childtest.Start(t, "as nobody", path)
			c.Begin()
			Says(t, errors.New(strings.Join(c.Rest(), " ")), append(tt.words, path)...)
			same(t)
		})
	}
}
