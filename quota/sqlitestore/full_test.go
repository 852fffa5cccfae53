package sqlitestore

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// When the disk is full, each of those who share a transaction is told so, and nothing
// of it stands.
func TestFullDiskIsToldToAllWhoShareATransaction(t *testing.T) {
	s := must(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
	if err := s.file.Writer.Script("PRAGMA max_page_count = 40"); err != nil {
		t.Fatal(err)
	}
	const callers, calls = 32, 300
	var mu sync.Mutex
	granted, failed := map[string]bool{}, map[string]bool{}
	var all sync.WaitGroup
	for g := range callers {
		all.Go(func() {
			for n := range calls {
				id := fmt.Sprint("call ", g, " ", n)
				v, err := reserve(s, id, 1)
				mu.Lock()
				if err == nil && v.Allowed {
					granted[id] = true
				} else {
					failed[id] = true
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	if len(granted) == 0 || len(failed) != callers {
		t.Errorf("%d calls granted, %d of %d callers met the full disk", len(granted), len(failed), callers)
	}
	if err := s.file.Writer.Script("PRAGMA max_page_count = 4000"); err != nil {
		t.Fatal(err)
	}
	if used := used(t, s); used != int64(len(granted)) {
		t.Errorf("%d units are used, want the %d that were granted", used, len(granted))
	}
	for id := range failed {
		if v, err := reserve(s, id, 1); err != nil || !v.Allowed || v.Repeat {
			t.Fatalf("%s, which had failed: %+v %v", id, v, err)
		}
	}
}
