package pgcatalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest"
	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest/dump"
	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// children are the tasks of a child process.
var children = map[string]childtest.Task{"copy": copyChild}

func TestMain(m *testing.M) { childtest.Main(m, children) }

// copyChild copies a file to a database, and prints a line for each transaction.
func copyChild(paths string, begin func() bool, out io.Writer) error {
	file, url, _ := strings.Cut(paths, "|")
	c, err := catalog.Open(ctx, file, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	begin()
	_, err = Copy(ctx, c, url, func(p catalog.Copied) { fmt.Fprintln(out, p.Table, p.Rows) })
	return err
}

// filled returns a catalog in a file with everything that a catalog can hold.
func filled(t *testing.T, clock *quota.SimClock) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Open(ctx, filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	w := writer{rand.New(rand.NewPCG(1, 2))}
	videos := w.videos(1700)
	fill(t, c, videos)
	videos[0].Title = "nul \x00 byte"
	fence, err := c.NewFence(ctx, "default/charts")
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Begin(ctx, catalog.Start{Job: "charts", Fence: fence, Scheduled: clock.Now()})
	if err != nil {
		t.Fatal(err)
	}
	views := int64(7)
	for n, region := range []string{"DE", "FR", "JP"} {
		clock.Advance(time.Minute)
		page := catalog.Page{
			Cursor: catalog.Cursor{Job: "charts", Work: region}, Region: region, Chart: true, Units: 1, Done: n > 0,
			Videos: videos[n*40 : n*40+50], Channels: []catalog.Channel{{ID: "UC" + region, Title: "Küche"}},
			Statistics: []catalog.Statistics{{VideoID: "v01000", Views: &views}}, High: clock.Now(),
		}
		if n == 0 {
			page.Next = "2"
		}
		if _, err := r.Save(ctx, &page); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.ChargeTo(ctx, "sqlite:ledger.db", false); err != nil {
		t.Fatal(err)
	}
	if err := r.EndWork(ctx, "DE", "DE", catalog.Outcome{State: catalog.Deferred, ResumeAt: clock.Now(), Error: "quota"}); err != nil {
		t.Fatal(err)
	}
	if err := r.End(ctx, catalog.Outcome{State: catalog.Deferred, ResumeAt: clock.Now()}); err != nil {
		t.Fatal(err)
	}
	return c
}

func dumped(t *testing.T, c catalogtest.Catalog) string {
	t.Helper()
	text, err := dump.Text(ctx, c, true)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// replaced returns a dump as that of a database, which holds no NUL bytes.
func replaced(dump string) string { return strings.ReplaceAll(dump, `\u0000`, "\uFFFD") }

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// TestCopyIsResumed kills the copy again and again. Until it is complete, the database is no
// catalog. Then it is the same one, and as old.
func TestCopyIsResumed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	clock := quota.NewSimClock(noon)
	file := filled(t, clock)
	url := pgtest.Shared(t)
	var lines []string
	kills := 0
	for complete := false; !complete; {
		child := childtest.Start(t, "copy", file.Path()+"|"+url)
		child.Begin()
		for range 1 + rng.IntN(2) {
			line := child.Line()
			if complete = line == ""; complete {
				break
			}
			lines = append(lines, line)
		}
		if complete {
			child.Rest()
			break
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for line := child.Line(); line != ""; line = child.Line() {
			lines = append(lines, line)
		}
		kills++
		if half, err := Open(ctx, url, nil); err == nil {
			// The kill may have come after the end. Copying onto an existing catalog is refused.
			_ = half.Close()
			break
		} else if !Refused(err) || !strings.Contains(err.Error(), "a copy into it is not complete: it is from "+file.Path()+"\nTo complete it: ingestor catalog copy --from "+file.Path()) {
			t.Fatal(err)
		}
	}
	if kills < 3 {
		t.Errorf("it was killed %d times only", kills)
	}
	told := map[string]bool{} // a row is copied once
	for _, line := range lines {
		if told[line] {
			t.Errorf("%q was copied twice", line)
		}
		told[line] = true
	}
	ours, err := Open(ctx, url, &Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if diff := cmp.Diff(replaced(dumped(t, file)), dumped(t, ours)); diff != "" {
		t.Errorf("(-file +ours):\n%s", diff)
	}
	same(t, "runs", func(c catalogtest.Catalog) (any, error) { return c.Runs(ctx, catalog.RunsQuery{}) }, file, ours)
	same(t, "spent", func(c catalogtest.Catalog) (any, error) { return c.Spent(ctx, time.Time{}) }, file, ours)
	same(t, "cursors", func(c catalogtest.Catalog) (any, error) { return c.Cursors(ctx, "") }, file, ours)
	same(t, "feeds", func(c catalogtest.Catalog) (any, error) { return c.Feeds(ctx) }, file, ours)
	same(t, "a chart", func(c catalogtest.Catalog) (any, error) { return c.Chart(ctx, "FR", "") }, file, ours)
	for _, kind := range []catalog.Kind{catalog.KindVideos, catalog.KindStatistics, catalog.KindChannels} {
		for _, limit := range []int{-1, 7} {
			same(t, string(kind), func(c catalogtest.Catalog) (any, error) { return c.Ages(ctx, kind, clock.Now(), limit) }, file, ours)
		}
	}
	same(t, "the ledger", func(c catalogtest.Catalog) (any, error) { return c.ChargeTo(ctx, "sqlite:ledger.db", false) }, file, ours)
	same(t, "a search", func(c catalogtest.Catalog) (any, error) { return found(t, c, catalog.Query{Text: "東京"}), nil }, file, ours)
	if problems, err := ours.Check(ctx); err != nil || problems != nil {
		t.Error(problems, err)
	}
	// It goes on: numbers do not collide, and an old fence stays old.
	fill(t, ours, []catalog.Video{{ID: "one more"}})
	if _, err := ours.Video(ctx, "one more"); err != nil {
		t.Error(err)
	}
	fill(t, file, []catalog.Video{{ID: "one more"}})
	if _, err := ours.Begin(ctx, catalog.Start{Job: "charts", Fence: catalog.Fence{Name: "default/charts", Token: 1}}); !errors.Is(err, catalog.ErrFenced) {
		t.Errorf("%v, want %v", err, catalog.ErrFenced)
	}
	// Data that was old before the copy is deleted in time.
	clock.Advance(30*24*time.Hour + time.Minute)
	before := clock.Now().Add(-30 * 24 * time.Hour)
	limits := catalog.Limits{Before: before, StatisticsBefore: before}
	same(t, "expiry", func(c catalogtest.Catalog) (any, error) { return c.Expire(ctx, limits) }, file, ours)
	if _, err := Copy(ctx, file, url, func(catalog.Copied) {}); !errors.Is(err, catalog.ErrHolds) {
		t.Errorf("a second copy: %v, want %v", err, catalog.ErrHolds)
	}
}

// same compares what both homes answer.
func same(t *testing.T, what string, ask func(catalogtest.Catalog) (any, error), file, ours catalogtest.Catalog) {
	t.Helper()
	want, err := ask(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ask(ours)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%s: %v (-file +ours):\n%s", what, err, diff)
	}
}

// TestCopyCountsRows: a source that loses or gets rows meanwhile is noticed.
func TestCopyCountsRows(t *testing.T) {
	clock := quota.NewSimClock(noon)
	file := filled(t, clock)
	url := pgtest.Shared(t)
	changed := false
	_, err := Copy(ctx, file, url, func(p catalog.Copied) {
		if p.Table == "statistics" && !changed {
			changed = true
			fill(t, file, []catalog.Video{{ID: "one more"}})
		}
	})
	if !changed || err == nil || !strings.Contains(err.Error(), "rows there, and") {
		t.Errorf("%v, %v", changed, err)
	}
}

func TestCopyNeedsAnEmptyDatabase(t *testing.T) {
	clock := quota.NewSimClock(noon)
	file := filled(t, clock)
	url := pgtest.Shared(t)
	ours, err := Open(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if _, err := ours.NewFence(ctx, "default/charts"); err != nil {
		t.Fatal(err)
	}
	before := dumped(t, ours)
	if _, err := Copy(ctx, file, url, func(catalog.Copied) {}); !errors.Is(err, catalog.ErrHolds) {
		t.Errorf("%v, want %v", err, catalog.ErrHolds)
	}
	if diff := cmp.Diff(before, dumped(t, ours)); diff != "" {
		t.Errorf("it wrote all the same:\n%s", diff)
	}
}

// TestCopyAfterAServer: a server that used the empty database noted something in it. The copy
// says so before it begins, and how to go on.
func TestCopyAfterAServer(t *testing.T) {
	file, url := filled(t, quota.NewSimClock(noon)), pgtest.Shared(t)
	for table, use := range map[string]func(*Catalog) error{
		"pool_days": func(c *Catalog) error {
			return c.SaveDays(ctx, []catalog.PoolDay{{Pool: "youtube/units", Day: time.Now().Format("2006-01-02"), Units: 1}})
		},
		"refusals": func(c *Catalog) error {
			return c.AddRefusals(ctx, []catalog.Refusal{{Pool: "youtube/units", Hour: time.Now(), Caller: "anna", Calls: 1}})
		},
		"actions": func(c *Catalog) error { return c.Note(ctx, &catalog.Action{Who: "anna", What: "block"}) },
	} {
		ours, err := Open(ctx, url, nil)
		if err == nil {
			err = use(ours)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = Copy(ctx, file, url, func(catalog.Copied) {})
		if !errors.Is(err, catalog.ErrHolds) || !strings.Contains(err.Error(), "it already has ["+table+"]") || !strings.Contains(err.Error(), "DROP SCHEMA headroom_catalog CASCADE") {
			t.Errorf("%s: %v", table, err)
		}
		if _, err := ours.Runs(ctx, catalog.RunsQuery{}); err != nil {
			t.Errorf("%s: the database cannot be used: %v", table, err)
		}
		if _, err := ours.Pool().Exec(ctx, "DROP SCHEMA headroom_catalog CASCADE"); err != nil {
			t.Fatal(err)
		}
		_ = ours.Close()
	}
	if _, err := Copy(ctx, file, url, func(catalog.Copied) {}); err != nil {
		t.Error(err)
	}
}

// TestCopyBackIsResumed breaks the copy to a file off again and again. Until it is complete,
// there is no such file. Then it holds the same catalog, and as old.
func TestCopyBackIsResumed(t *testing.T) {
	clock := quota.NewSimClock(noon)
	file, url := filled(t, clock), pgtest.Shared(t)
	if _, err := Copy(ctx, file, url, func(catalog.Copied) {}); err != nil {
		t.Fatal(err)
	}
	ours, err := Open(ctx, url, &Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	path := filepath.Join(t.TempDir(), "back.db")
	told := map[catalog.Copied]bool{} // a row is copied once
	breaks := 0
	for {
		some, stop := context.WithCancel(ctx)
		_, err := catalog.Copy(some, ours, path, func(p catalog.Copied) {
			p.Left = 0
			if told[p] {
				t.Errorf("%+v was copied twice", p)
			}
			if told[p] = true; len(told)%2 == 0 {
				stop()
			}
		})
		stop()
		if err == nil {
			break
		}
		if _, there := os.Stat(path); !errors.Is(err, context.Canceled) || !errors.Is(there, fs.ErrNotExist) {
			t.Fatal(err, there)
		}
		breaks++
	}
	if breaks < 5 {
		t.Errorf("it was broken off %d times only", breaks)
	}
	back, err := catalog.Open(ctx, path, &catalog.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	if diff := cmp.Diff(dumped(t, ours), dumped(t, back)); diff != "" {
		t.Errorf("(-ours +back):\n%s", diff)
	}
	same(t, "runs", func(c catalogtest.Catalog) (any, error) { return c.Runs(ctx, catalog.RunsQuery{}) }, ours, back)
	same(t, "spent", func(c catalogtest.Catalog) (any, error) { return c.Spent(ctx, time.Time{}) }, ours, back)
	same(t, "the ledger", func(c catalogtest.Catalog) (any, error) { return c.ChargeTo(ctx, "sqlite:ledger.db", false) }, ours, back)
	same(t, "a search", func(c catalogtest.Catalog) (any, error) { return found(t, c, catalog.Query{Text: "東京"}), nil }, ours, back)
	if problems, err := back.Check(ctx); err != nil || problems != nil {
		t.Error(problems, err)
	}
	if _, err := back.Begin(ctx, catalog.Start{Job: "charts", Fence: catalog.Fence{Name: "default/charts", Token: 1}}); !errors.Is(err, catalog.ErrFenced) {
		t.Errorf("%v, want %v", err, catalog.ErrFenced)
	}
	fill(t, back, []catalog.Video{{ID: "one more"}}) // numbers do not collide
	if _, err := catalog.Copy(ctx, ours, path, func(catalog.Copied) {}); !errors.Is(err, catalog.ErrHolds) {
		t.Errorf("a second copy: %v, want %v", err, catalog.ErrHolds)
	}

	// A row that appears meanwhile is noticed.
	grows := filepath.Join(t.TempDir(), "grows.db")
	_, err = catalog.Copy(ctx, ours, grows, func(p catalog.Copied) {
		if p.Table == "sightings" {
			fill(t, ours, []catalog.Video{{ID: "late"}})
		}
	})
	if err == nil || !strings.Contains(err.Error(), "stop what writes to the source") {
		t.Errorf("a source that changed: %v", err)
	}
}
