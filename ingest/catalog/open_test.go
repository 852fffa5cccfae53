package catalog

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/internal/testing/filetest"

	"github.com/google/go-cmp/cmp"
)

// kept is how the catalog keeps its files.
var kept = filetest.Files{Kind: files, Open: func(path string) (io.Closer, error) { return Open(ctx, path, nil) }}

func TestOpenRefuses(t *testing.T) { kept.Refuses(t, "name a file") }

// TestTakenAway: pages saved to a file that was replaced or deleted would be lost.
func TestTakenAway(t *testing.T) {
	kept.TakenAway(t, func(t *testing.T, path string) func() map[string]error {
		c := must(t, path, nil)
		r := begin(t, c)
		save(t, r, "DE", Page{Next: "2", Videos: named("a")})
		return func() map[string]error {
			_, save := r.Save(ctx, &Page{Cursor: Cursor{Job: "trending", Work: "DE", Page: 1}, Done: true, Videos: named("b")})
			_, begin := c.Begin(ctx, Start{Job: "trending"})
			_, cursor := c.Cursor(ctx, "trending", "DE")
			_, runs := c.Runs(ctx, RunsQuery{})
			_, search := c.Search(ctx, Query{Text: "video"})
			all := map[string]error{"save": save, "begin": begin, "cursor": cursor, "runs": runs, "search": search}
			for _, err := range all {
				filetest.Says(t, err, "start again")
			}
			return all
		}
	})
}

func TestReopenedItIsTheSame(t *testing.T) {
	c := library(t)
	before := dumped(t, c, true)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = must(t, c.Path(), nil)
	if diff := cmp.Diff(before, dumped(t, c, true)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	healthy(t, c)
}

func TestMigrate(t *testing.T) {
	c := library(t)
	before := dumped(t, c, true)
	migrate := func(steps []string) error {
		other := *files
		other.Steps = steps
		f, err := other.Open(ctx, c.Path(), time.Second, reindex)
		if err == nil {
			err = f.Close()
		}
		return err
	}
	next := append(slices.Clone(files.Steps), "ALTER TABLE videos ADD COLUMN dimension TEXT NOT NULL DEFAULT '2d'")
	broken := append(slices.Clone(next), "CREATE TABLE good (n); CREATE TABLE videos (n)")
	filetest.Says(t, migrate(broken), "already exists")
	if err := migrate(files.Steps); err != nil {
		t.Errorf("a step that failed has left something: %v", err)
	}
	for range 2 { // the second time there is nothing to do
		if err := migrate(next); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, dumped(t, c, true)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	healthy(t, c)
	_, err := Open(ctx, c.Path(), nil)
	filetest.Says(t, err, "made by a newer headroom: schema 8, this one knows 7")
}

// TestMigrateFromTheFirstSchema: the first schema did not record which pool blocks work.
// Deferred work keeps its time.
func TestMigrateFromTheFirstSchema(t *testing.T) {
	c := library(t)
	r, err := c.Begin(ctx, Start{Job: "trending"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.EndWork(ctx, "US", "US", Outcome{State: Deferred, ResumeAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	before := dumped(t, c, true)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	kept.Spoil(t, c.Path(), "DROP TABLE actions", "DROP TABLE slates", "DROP TABLE refusals", "DROP TABLE pool_days", "ALTER TABLE run_work DROP COLUMN cause", "ALTER TABLE run_work DROP COLUMN pool",
		"ALTER TABLE run_work DROP COLUMN refused", "ALTER TABLE run_work DROP COLUMN charges", "DROP TABLE ledger", "ALTER TABLE cursors DROP COLUMN blocked_on", "PRAGMA user_version = 1")
	c = must(t, c.Path(), nil)
	if diff := cmp.Diff(before, dumped(t, c, true)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	if cur, err := c.Cursor(ctx, "trending", "US"); err != nil || cur.ResumeAt.IsZero() || cur.BlockedOn != "" {
		t.Errorf("%+v, %v", cur, err)
	}
	healthy(t, c)
}

func TestOtherWords(t *testing.T) {
	c := library(t)
	c.Close()
	kept.Spoil(t, c.Path(), "UPDATE about SET words = '0, unicode 5.2'",
		"INSERT INTO search (search, rowid, title, description, channel, tags) VALUES ('delete', 1, 'creme brulee a l ancienne', '', 'chez zoe', '')")
	c = must(t, c.Path(), nil)
	if r, err := c.Search(ctx, Query{Text: "creme"}); err != nil || len(r.Hits) != 1 {
		t.Errorf("%d hits, %v", len(r.Hits), err)
	}
	healthy(t, c)

	// Another version of the program opens the file while this one runs.
	kept.Spoil(t, c.Path(), "UPDATE about SET words = '9, unicode 99'")
	_, err := c.Begin(ctx, Start{Job: "trending"})
	filetest.Says(t, err, "another version of the program", "start this one again")
}

func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	other := must(t, path, nil)
	c := must(t, path, &Options{Wait: 20 * time.Millisecond})
	err := other.file.Write(ctx, other.wait, func(*sqlitefile.Session) error {
		_, err := c.Begin(ctx, Start{Job: "trending"})
		filetest.Says(t, err, "busy for 20ms", path)
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		c.wait = time.Hour
		if _, err := c.Begin(short, Start{Job: "trending"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want %v", err, context.DeadlineExceeded)
		}
		if _, err := c.Search(ctx, Query{Text: "cat"}); err != nil {
			t.Errorf("to read while another writes: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	begin(t, c)
}

func TestCancelledNothingIsWritten(t *testing.T) {
	c := fresh(t)
	r := begin(t, c)
	done, cancel := context.WithCancel(ctx)
	cancel()
	_, err := r.Save(done, &Page{Cursor: Cursor{Job: "trending", Work: "DE"}, Done: true, Videos: named("a")})
	if err != context.Canceled { //nolint:errorlint // it is returned unchanged
		t.Errorf("save: %v, want %v as it is", err, context.Canceled)
	}
	if got := dumped(t, c, false); got != "" {
		t.Errorf("it left:\n%s", got)
	}
	if _, err := Open(done, filepath.Join(t.TempDir(), "new.db"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v, want %v", err, context.Canceled)
	}
}

func TestDoctor(t *testing.T) {
	for _, tt := range []struct {
		name, harm, word string
		cured            bool // by a new index
	}{
		{"the_index_lacks_a_video", "INSERT INTO search (search) VALUES ('delete-all')", "index", true},
		{"the_index_has_one_too_many", "INSERT INTO search (rowid, title) VALUES (99, 'x')", "index", true},
		{"a_row_belongs_to_none", "PRAGMA foreign_keys = OFF; INSERT INTO statistics VALUES (99, 1, 1, 1, 1)", "1 rows of statistics belong to no row of videos", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := library(t)
			kept.Spoil(t, c.Path(), tt.harm)
			problems, err := c.Check(ctx)
			if err != nil || !strings.Contains(strings.Join(problems, "\n"), tt.word) {
				t.Fatalf("found %q, %v, want it to say %q", problems, err, tt.word)
			}
			if err := c.Rebuild(ctx); err != nil {
				t.Fatal(err)
			}
			if problems, err = c.Check(ctx); err != nil || (problems == nil) != tt.cured {
				t.Errorf("with a new index: %q, %v", problems, err)
			}
		})
	}
}

// TestDoctorFindsDamagedPages overwrites pages of the file, as a failing disk does.
func TestDoctorFindsDamagedPages(t *testing.T) {
	for _, tree := range []string{"videos", "sightings_of_video", "cursors", "search_idx", "search_docsize", "search_data"} {
		t.Run(tree, func(t *testing.T) {
			c := library(t)
			var page, size int64
			err := c.each(ctx, func(scan Scan) error { return scan(&page, &size) },
				"SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE name = ?", tree)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			f, err := os.OpenFile(c.Path(), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteAt(slices.Repeat([]byte{0xa5}, int(size)), (page-1)*size)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			c = must(t, c.Path(), nil)
			problems, err := c.Check(ctx)
			if err != nil || len(problems) == 0 {
				t.Errorf("found %q, %v", problems, err)
			}
			for _, p := range problems {
				if strings.Contains(p, "\n") {
					t.Errorf("%q has more than a line", p)
				}
			}
		})
	}
}

// TestAPlainSQLiteCannotHarmTheIndex: a video changed without this program would not match
// the index.
func TestAPlainSQLiteCannotHarmTheIndex(t *testing.T) {
	shell := lookShell(t)
	c := library(t)
	if out, err := shell(c.Path(), "SELECT title FROM videos WHERE video_id = 'ja'"); err != nil || strings.TrimSpace(out) != "東京タワーの夜景を歩く" {
		t.Errorf("to read: %q, %v", out, err)
	}
	if out, err := shell(c.Path(), "DELETE FROM videos"); err == nil {
		t.Errorf("it deleted the videos: %q", out)
	}
	healthy(t, c)
}

// TestOpeningCanBeBrokenOffAtAnyMoment: Open returns an error and leaves a sound file.
func TestOpeningCanBeBrokenOffAtAnyMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	for patience := time.Duration(0); ; patience += 100 * time.Microsecond {
		within, cancel := context.WithTimeout(t.Context(), patience)
		c, err := Open(within, path, nil)
		cancel()
		if err == nil {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			return
		}
	}
}

// TestKeptIsData: the copy from before a change of the schema goes when its oldest data has to. One
// that is not finished goes when it is as old. A file of somebody else stays.
func TestKeptIsData(t *testing.T) {
	c := library(t)
	copied, wreck, note := c.Path()+".schema-4.20261101T000000Z", c.Path()+".schema-3.part", c.Path()+".schema-4.txt"
	if err := errors.Join(sqlitefile.Snapshot(ctx, c.Path(), copied), os.WriteFile(wreck, []byte("a wreck"), 0o600), os.WriteFile(note, []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		before time.Time
		kept   int
	}{{time.Unix(0, 0), 2}, {time.Now().Add(time.Hour), 0}} {
		if _, err := c.Expire(ctx, Limits{Before: want.before, StatisticsBefore: want.before}); err != nil {
			t.Fatal(err)
		}
		if left, err := sqlitefile.Kept(c.Path()); err != nil || len(left) != want.kept {
			t.Errorf("after data of before %s has gone, %q are left, %v", want.before, left, err)
		}
	}
	if _, err := os.Stat(note); err != nil {
		t.Error(err)
	}
}
