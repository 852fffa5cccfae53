package catalog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestTakenAway: pages saved to a file that was replaced or deleted would be lost.
func TestTakenAway(t *testing.T) {
	for _, tt := range []struct {
		name string
		take func(path string) error
		word string
	}{
		{"deleted", os.Remove, "was deleted"},
		{"the_wal_deleted", func(path string) error { return os.Remove(path + "-wal") }, "-wal was deleted"},
		{"replaced", func(path string) error {
			other, err := Open(ctx, path+".new", nil)
			if err != nil {
				return err
			}
			return errors.Join(other.Close(), os.Rename(path+".new", path))
		}, "was replaced"},
		{"moved_away_and_begun_anew", func(path string) error {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Rename(path+suffix, path+".old"+suffix); err != nil {
					return err
				}
			}
			other, err := Open(ctx, path, nil)
			if err == nil {
				t.Cleanup(func() { other.Close() })
			}
			return err
		}, "was replaced"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := must(t, filepath.Join(t.TempDir(), "catalog.db"), nil)
			r := begin(t, c)
			save(t, r, "DE", Page{Next: "2", Videos: named("a")})
			if err := tt.take(c.Path()); err != nil {
				t.Fatal(err)
			}
			_, save := r.Save(ctx, &Page{Cursor: Cursor{Job: "trending", Work: "DE", Page: 1}, Done: true, Videos: named("b")})
			_, begin := c.Begin(ctx, Start{Job: "trending"})
			_, cursor := c.Cursor(ctx, "trending", "DE")
			_, runs := c.Runs(ctx, RunsQuery{})
			_, search := c.Search(ctx, Query{Text: "video"})
			for op, err := range map[string]error{"save": save, "begin": begin, "cursor": cursor, "runs": runs, "search": search} {
				says(t, err, c.Path(), tt.word, "start again")
				if t.Failed() {
					t.Fatal(op)
				}
			}
		})
	}
}
