package journal_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
)

func TestBirths(t *testing.T) {
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	at := func(hour int) time.Time { return time.Date(2026, 11, 20, hour, 0, 0, 0, time.UTC) }
	for _, row := range []struct {
		what       string
		said, want quota.Birth
	}{
		{"a page", quota.Birth{Born: at(1), Until: at(10)}, quota.Birth{Born: at(1), Until: at(10)}},
		{"kept longer", quota.Birth{Born: at(1), Until: at(12)}, quota.Birth{Born: at(1), Until: at(12)}},
		{"a slow process says how long it was kept before", quota.Birth{Born: at(1), Until: at(10)}, quota.Birth{Born: at(1), Until: at(12)}},
		{"another page, which is kept shorter", quota.Birth{Born: at(2), Until: at(11)}, quota.Birth{Born: at(2), Until: at(11)}},
	} {
		if err := j.Remember(t.Context(), "page", row.said); err != nil {
			t.Fatal(err)
		}
		if got, err := j.Recall(t.Context(), "page"); err != nil || got != row.want {
			t.Errorf("%s: got %v, %v; want %v", row.what, got, err, row.want)
		}
	}
}
