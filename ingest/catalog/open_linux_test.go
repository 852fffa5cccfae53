package catalog

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

	"github.com/headroom-quota/headroom/internal/childtest"
)

func init() { children["as nobody"] = asNobody }

// asNobody opens the catalog as a user without permissions, and prints the error.
func asNobody(path string, begin func() bool, out io.Writer) error {
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	begin()
	c, err := Open(ctx, path, nil)
	if err == nil {
		err = c.Close()
	}
	_, err = fmt.Fprintln(out, strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
	return err
}

func TestWithoutTheRightToWrite(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody without rights")
	}
	for _, tt := range []struct {
		name      string
		file, dir fs.FileMode
		live      bool // another process uses the file
		word      string
	}{
		{"to_the_file", 0o444, 0o777, true, "cannot be written; give this user the right to write the file and its directory"},
		{"to_the_file_alone", 0o444, 0o777, false, "cannot be written"},
		{"to_the_directory", 0o666, 0o755, false, "directory"},
		{"to_read_either", 0o600, 0o700, false, "cannot be opened"},
		{"to_anything_new", 0, 0o755, false, "cannot be opened"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "catalog") // others cannot read t.TempDir
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			path := filepath.Join(dir, "catalog.db")
			before := ""
			if tt.file != 0 {
				c := must(t, path, nil)
				save(t, begin(t, c), "DE", Page{Videos: named("a")})
				before = dumped(t, c, nil)
				if !tt.live {
					c.Close()
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
			says(t, errors.New(strings.Join(c.Rest(), " ")), tt.word, path)
			if tt.file != 0 {
				if after := dumped(t, must(t, path, nil), nil); after != before {
					t.Errorf("before:\n%s\nafter:\n%s", before, after)
				}
			}
		})
	}
}
