package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/childtest"
	"github.com/headroom-quota/headroom/quota"
)

func init() { children["as nobody"] = asNobody }

// asNobody uses the ledger as a user with no rights, and writes the errors.
func asNobody(path string, begin func() bool, out io.Writer) error {
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	begin()
	s, err := Open(context.Background(), path, nil)
	if err == nil {
		_, err = reserve(s, "", 1)
		err = errors.Join(err, s.Close())
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
		words     []string
	}{
		{"to_the_file", 0o444, 0o777, true, []string{"cannot be written", "right to write the file and its directory"}},
		{"to_the_file_alone", 0o444, 0o777, false, []string{"cannot be written"}},
		{"to_the_directory", 0o666, 0o755, false, []string{"directory"}},
		{"to_read_either", 0o600, 0o700, false, []string{"cannot be opened"}},
		{"to_anything_new", 0, 0o755, false, []string{"cannot be opened", "directory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "ledger") // t.TempDir is closed to others
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			path := filepath.Join(dir, "ledger.db")
			if tt.file != 0 {
				s := must(t, path, nil)
				if _, err := reserve(s, "a", 5); err != nil {
					t.Fatal(err)
				}
				if !tt.live {
					s.Close()
				}
				if err := os.Chmod(path, tt.file); err != nil {
					t.Fatal(err)
				}
				for _, beside := range []string{"-wal", "-shm"} {
					if err := os.Chmod(path+beside, tt.file); err != nil && tt.live {
						t.Fatal(err)
					}
				}
			}
			if err := os.Chmod(dir, tt.dir); err != nil {
				t.Fatal(err)
			}
			c := childtest.Start(t, "as nobody", path)
			c.Begin()
			says(t, errors.New(c.Line()), append(tt.words, "open "+path)...)
			if tt.file != 0 {
				if used := used(t, must(t, path, nil)); used != 5 {
					t.Errorf("%d units are used, want 5", used)
				}
			}
		})
	}
}

func TestFullDisk(t *testing.T) {
	fill := func(t *testing.T, s *Store) (granted int, err error) {
		for ; granted < 100_000; granted++ {
			v, err := reserve(s, fmt.Sprint("call ", granted), 1)
			if err != nil {
				return granted, err
			}
			if !v.Allowed {
				t.Fatalf("refused: %+v", v)
			}
		}
		return granted, nil
	}
	after := func(t *testing.T, s *Store, granted int) {
		if used := used(t, s); used != int64(granted) {
			t.Errorf("%d units are used, want %d", used, granted)
		}
		if v, err := reserve(s, "one more", 1); err != nil || !v.Allowed {
			t.Errorf("when there was room again: %+v %v", v, err)
		}
		for _, i := range []int{0, granted - 1} {
			if v, err := reserve(s, fmt.Sprint("call ", i), 1); err != nil || !v.Repeat {
				t.Errorf("call %d had been granted: %+v %v", i, v, err)
			}
		}
	}
	t.Run("no_more_pages", func(t *testing.T) {
		s := must(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
		if err := s.file.Writer.Script("PRAGMA max_page_count = 40"); err != nil {
			t.Fatal(err)
		}
		granted, err := fill(t, s)
		says(t, err, "write to "+s.file.Path, "the disk is full")
		if err := s.file.Writer.Script("PRAGMA max_page_count = 4000"); err != nil {
			t.Fatal(err)
		}
		after(t, s, granted)
	})
	t.Run("no_more_room", func(t *testing.T) {
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
			t.Skip("cannot mount a small disk: ", err)
		}
		defer func() {
			if err := syscall.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		}()
		s := must(t, filepath.Join(dir, "ledger.db"), nil)
		granted, err := fill(t, s)
		says(t, err, "write to "+s.file.Path, "the disk is full")
		if granted == 0 {
			t.Error("nothing was granted before")
		}
		if used := used(t, s); used != int64(granted) { // it can be read
			t.Errorf("%d units are used, want %d", used, granted)
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
			t.Fatal(err)
		}
		after(t, s, granted)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestBusyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := must(t, path, &Options{Wait: 50 * time.Millisecond})
	holder := childtest.Start(t, "hold", path)

	_, err := reserve(s, "a", 1)
	says(t, err, "busy for 50ms", "write to "+path, fmt.Sprintf("process %d (", holder.Process.Pid), "may hold it")
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v passes for the caller's deadline", err)
	}
	_, err = Open(context.Background(), path, &Options{Wait: 50 * time.Millisecond})
	says(t, err, "busy for 50ms", "open "+path, fmt.Sprintf("process %d (", holder.Process.Pid))

	s.file.wait = time.Hour
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Record(ctx, quota.Request{Charges: []quota.Charge{units(1, 10)}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller with a deadline: %v, want its own", err)
	}
	if used := used(t, s); used != 0 { // looking waits for nobody
		t.Errorf("%d units are used, want 0", used)
	}

	holder.Begin()
	holder.Rest()
	if v, err := reserve(s, "a", 1); err != nil || v.Repeat {
		t.Errorf("when it was free: %+v %v", v, err)
	}
}
