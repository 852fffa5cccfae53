package sqlitefile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// later is numbers with a step more.
var later = &Kind{Name: numbers.Name, Application: numbers.Application, Steps: append(slices.Clone(numbers.Steps), "ALTER TABLE numbers ADD COLUMN note TEXT")}

// TestKeep: before a schema changes, the file is copied as it is, once.
func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers.db")
	f := openNumbers(t, path)
	f.add(t)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if schema, older, err := later.Older(t.Context(), path); schema != 1 || !older || err != nil {
		t.Errorf("it has schema %d, older: %v, %v", schema, older, err)
	}
	var mu sync.Mutex
	var copies []string
	var all sync.WaitGroup
	for range 4 { // at once, as after a restart of all daemons
		all.Go(func() {
			f, err := later.Open(t.Context(), path, time.Minute, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if f.Kept != "" {
				mu.Lock()
				copies = append(copies, f.Kept)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if _, older, err := later.Older(t.Context(), path); older || err != nil {
		t.Errorf("after it is opened, it is older: %v, %v", older, err)
	}
	found, err := Kept(path)
	if err != nil || len(copies) != 1 || !slices.Equal(found, copies) {
		t.Fatalf("%q, want %q, %v", found, copies, err)
	}
	if info, err := os.Stat(found[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy has the mode %s, %v", info.Mode(), err)
	}
	back := openNumbers(t, found[0]) // as an older program does
	row, err := back.Writer.One("SELECT count(*) FROM numbers")
	if err != nil || row.Int(0) != 1 {
		t.Errorf("the copy has %v rows, %v", row, err)
	}
}

// TestTwoCopiesStay: the newest ones by when they were written, whatever their schema.
func TestTwoCopiesStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers.db")
	f := openNumbers(t, path)
	f.add(t)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	const oldest, older, newer, wreck, note = ".schema-9.20200101T000000Z", ".schema-10.20210101T000000Z", ".schema-9.20220101T000000Z", ".schema-0.part", ".schema-1.txt"
	for _, end := range []string{oldest, older, newer, wreck, note} {
		if err := os.WriteFile(path+end, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := later.Open(t.Context(), path, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found, err := Kept(path)
	if want := []string{f.Kept, path + newer}; err != nil || !slices.Equal(found, want) {
		t.Errorf("%q stay, want %q, %v", found, want, err)
	}
	if _, err := os.Stat(path + note); err != nil {
		t.Error(err)
	}
}

// TestOldCopiesGo: when the file is opened, though its schema does not change.
func TestOldCopiesGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers.db")
	openNumbers(t, path).add(t)
	old, young := path+".schema-1.20240101T000000Z", path+".schema-1.20230101T000000Z"
	for name, age := range map[string]time.Duration{old: keptFor + time.Hour, young: keptFor - time.Hour} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		made := written(path).Add(-age)
		if err := os.Chtimes(name, made, made); err != nil {
			t.Fatal(err)
		}
	}
	openNumbers(t, path)
	found, err := Kept(path)
	if want := []string{young}; err != nil || !slices.Equal(found, want) {
		t.Errorf("%q stay, want %q, %v", found, want, err)
	}
}

// TestKeepFails: without room for the copy, or if the step fails, the file stays as it is, and no
// copy is left by each try.
func TestKeepFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numbers.db")
	openNumbers(t, path).add(t)
	unchanged := func() {
		t.Helper()
		if schema, older, err := later.Older(t.Context(), path); schema != 1 || !older || err != nil {
			t.Errorf("it has schema %d, older: %v, %v", schema, older, err)
		}
		if found, err := Kept(path); len(found) > 0 || err != nil {
			t.Errorf("%q are left, %v", found, err)
		}
	}
	free = func(string) (int64, bool) { return 100, true }
	_, err := later.Open(t.Context(), path, time.Minute, nil)
	free = Room
	if !errors.Is(err, ErrNoRoom) || !Ailing(err) {
		t.Errorf("without room: %v", err)
	}
	unchanged()
	broken := *later
	broken.Steps = append(slices.Clone(numbers.Steps), "CREATE TABLE numbers (n)")
	if _, err := broken.Open(t.Context(), path, time.Minute, nil); err == nil {
		t.Error("a wrong step did not fail")
	}
	unchanged()
}
