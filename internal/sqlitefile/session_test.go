package sqlitefile

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// A caller that goes away between two statements leaves nothing behind, and the session
// can be used again.
func TestSessionRollsBackWhenItsContextEnds(t *testing.T) {
	k := &Kind{Name: "ledger", Application: 7, Statements: map[string]string{"sum": "SELECT sum(n), count(absent) FROM a"}}
	s, err := k.Connect(t.Context(), filepath.Join(t.TempDir(), "a.db"), Write)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Script("CREATE TABLE a (n INTEGER, absent INTEGER) STRICT; INSERT INTO a (n) VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	s.Within(gone)
	if _, err := s.Exec("INSERT INTO a (n) VALUES (?1)", 2); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = s.Exec("INSERT INTO a (n) VALUES (?1)", 3)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if again := s.End(err); !errors.Is(again, err) {
		t.Errorf("End returned %v, want %v", again, err)
	}
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	row, err := s.One("sum")
	if err != nil || row.Int(0) != 1 || row.Int(1) != 0 {
		t.Errorf("the file holds %v, %v; want what was committed", row, err)
	}
	if err := s.End(err); err != nil {
		t.Error(err)
	}
}

// Each of two callers that close a file needs all of its readers.
func TestFileIsClosedByTwoAtOnce(t *testing.T) {
	for range 50 {
		f := &File{kind: &Kind{}, readers: make(chan *Session, Readers), spare: make(chan *Session), turn: make(chan struct{}, 1), counter: newCounter()}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		for range Readers {
			runtime.Gosched()
			f.readers <- nil
		}
		both.Wait()
	}
}
