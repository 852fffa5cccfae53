package sqlitestore_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/headroom-quota/headroom/internal/testing/filetest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, harness(false)) }

// A store with a journal keeps the same promises, and reports no false loss.
func TestStoreWithAJournal(t *testing.T) {
	h := harness(true)
	h.Size = nil // the file is as large as without one
	if os.Getenv("HEADROOM_SOAK") != "1" {
		h.Operations = 1000 // TestStore makes more on the same store
	}
	storetest.Run(t, h)
}

var (
	blank = filetest.Blank{Open: func(path string) (io.Closer, error) {
		return sqlitestore.Open(context.Background(), path, nil)
	}}
	blankJournal = filetest.Blank{Open: func(path string) (io.Closer, error) {
		return journal.Open(context.Background(), path, "sqlite:"+path)
	}}
)

// harness describes stores in files of their own to the suite, with a journal or
// without one.
func harness(journaled bool) storetest.Harness {
	clock := storetest.NewClock()
	var mu sync.Mutex
	paths := make(map[quota.Store]string)
	open := func(t testing.TB, path string) quota.Store {
		o := &sqlitestore.Options{Clock: clock, Families: true}
		if journaled {
			j, err := journal.Open(context.Background(), filepath.Join(filepath.Dir(path), "journal.db"), "sqlite:"+path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { j.Close() })
			o.Births = j
		}
		s, err := sqlitestore.Open(context.Background(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		mu.Lock()
		defer mu.Unlock()
		paths[s] = path
		return s
	}
	pathOf := func(s quota.Store) string {
		mu.Lock()
		defer mu.Unlock()
		return paths[s]
	}
	return storetest.Harness{
		Open: func(t testing.TB) quota.Store {
			// not t.TempDir: a timeline of the model is over before its test is
			dir, err := os.MkdirTemp("", "ledger")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			path := filepath.Join(dir, "ledger.db")
			blank.At(t, path)
			if journaled {
				blankJournal.At(t, filepath.Join(dir, "journal.db"))
			}
			return open(t, path)
		},
		SetClock: clock.Move,
		Share:    func(t testing.TB, s quota.Store) quota.Store { return open(t, pathOf(s)) },
		Reopen: func(t testing.TB, s quota.Store) quota.Store {
			if err := s.(*sqlitestore.Store).Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, pathOf(s))
		},
		Size: func(t testing.TB, s quota.Store) int64 {
			return sqlitestore.PageBytes(t, s.(*sqlitestore.Store))
		},
		Families: true,
	}
}
