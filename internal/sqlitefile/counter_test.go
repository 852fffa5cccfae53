package sqlitefile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var numbers = &Kind{Name: "file of numbers", Application: 7, Steps: []string{"PRAGMA application_id = 7; CREATE TABLE numbers (n INTEGER) STRICT"}}

func openNumbers(t *testing.T, path string) *File {
	t.Helper()
	f, err := numbers.Open(t.Context(), path, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func (f *File) add(t *testing.T) {
	t.Helper()
	if err := f.Begin(context.Background(), time.Minute); err != nil {
		t.Fatal(err)
	}
	_, err := f.Writer.Exec("INSERT INTO numbers (n) VALUES (1)")
	if err := f.End(err); err != nil {
		t.Fatal(err)
	}
}

func version(t *testing.T, f *File) int64 {
	t.Helper()
	n, err := f.Version(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// scaled returns the reduced count, or the full count in a soak test.
func scaled(reduced, full int) int {
	if os.Getenv("HEADROOM_SOAK") == "1" {
		return full
	}
	return reduced
}

// TestVersion: it changes with each commit, of this File and of another, and with no read.
func TestVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers.db")
	f := openNumbers(t, path)
	other := openNumbers(t, path)
	seen := version(t, f)
	for range scaled(5, 100) {
		for _, writer := range []*File{f, other} {
			writer.add(t)
			was := seen
			if seen = version(t, f); seen == was {
				t.Fatalf("it is %d still", seen)
			}
			if err := f.Probe(t.Context(), func(s *Session) error { _, err := s.One("SELECT sum(n) FROM numbers"); return err }); err != nil {
				t.Fatal(err)
			}
			if now := version(t, f); now != seen {
				t.Fatalf("reading made %d of %d", now, seen)
			}
		}
		if _, err := other.Writer.One("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
		seen = version(t, f)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Version(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("of a closed file it is %v", err)
	}
}

// TestVersionOfMany: callers share what is read, but none is given what was read before it
// came.
func TestVersionOfMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers.db")
	f := openNumbers(t, path)
	other := openNumbers(t, path)
	var mu sync.Mutex
	old := map[int64]bool{} // versions before the last commit
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				mu.Lock()
				before := len(old)
				mu.Unlock()
				n, err := f.Version(context.Background())
				mu.Lock()
				if err != nil || old[n] && len(old) == before {
					t.Errorf("%d is of before a commit, %v", n, err)
				}
				mu.Unlock()
			}
		})
	}
	for range scaled(40, 2000) {
		was := version(t, f)
		mu.Lock() // nobody asks meanwhile that did not begin before
		other.add(t)
		old[was] = true
		mu.Unlock()
	}
	close(done)
	all.Wait()
}

// TestVersionOfAnotherFile: that the file was replaced is noticed.
func TestVersionOfAnotherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers.db")
	f := openNumbers(t, path)
	version(t, f)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	f.counter.looked.Store(false)
	for range 2 {
		_, err := f.Version(t.Context())
		if _, moved := errors.AsType[*MovedError](err); !moved {
			t.Errorf("the file was moved: %v", err)
		}
	}
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	version(t, f)
}
