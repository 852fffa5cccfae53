package catalog

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest/dump"
	"github.com/headroom-quota/headroom/quota"
)

var (
	ctx  = context.Background()
	noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

// scaled returns the reduced count, or the full count in a soak test.
func scaled(reduced, full int) int {
	if os.Getenv("HEADROOM_SOAK") == "1" {
		return full
	}
	return reduced
}

// fresh opens a new catalog. Its clock stands at noon.
func fresh(t testing.TB) *Catalog {
	t.Helper()
	return must(t, filepath.Join(t.TempDir(), "catalog.db"), &Options{Clock: quota.NewSimClock(noon)})
}

// must opens a catalog.
func must(t testing.TB, path string, o *Options) *Catalog {
	t.Helper()
	c, err := Open(ctx, path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// begin begins a run of the job trending.
func begin(t testing.TB, c *Catalog) Run {
	t.Helper()
	r, err := c.Begin(ctx, Start{Job: "trending"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// save saves the next page of its work.
func save(t testing.TB, r Run, work string, p Page) Saved {
	t.Helper()
	var err error
	if p.Cursor, err = r.(*run).e.Cursor(ctx, r.(*run).job, work); err != nil {
		t.Fatal(err)
	}
	if p.Next == "" {
		p.Done = true
	}
	s, err := r.Save(ctx, &p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// dumped returns the contents of a catalog.
func dumped(t testing.TB, c *Catalog, times bool) string {
	t.Helper()
	text, err := dump.Text(ctx, c, times)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// healthy checks a catalog for damage.
func healthy(t testing.TB, c *Catalog) {
	t.Helper()
	problems, err := c.Check(ctx)
	if err != nil || problems != nil {
		t.Errorf("the catalog is damaged: %q, %v", problems, err)
	}
}

// named returns videos with these ids.
func named(ids ...string) (all []Video) {
	for _, id := range ids {
		all = append(all, Video{ID: id, Title: "Video " + id, ChannelTitle: "Channel", PublishedAt: noon})
	}
	return all
}

func count(n int64) *int64 { return &n }

// library returns a catalog of some videos.
func library(t testing.TB) *Catalog {
	t.Helper()
	c := fresh(t)
	save(t, begin(t, c), "all", Page{Videos: []Video{
		{ID: "fr", Title: "Crème brûlée à l'ancienne", ChannelTitle: "Chez Zoé"},
		{ID: "ja", Title: "東京タワーの夜景を歩く", Description: "日本の首都、東京を散歩。ﾃﾚﾋﾞ", ChannelTitle: "散歩ちゃんねる"},
		{ID: "en", Title: "K-Pop World Tour: live from New York!", Tags: []string{"C++", "rock'n'roll", "go lang"}, Description: "The iPhone15 in 4K. #shorts"},
	}})
	return c
}

// recorded returns the history of runs.
func recorded(t testing.TB, c *Catalog) []RunRecord {
	t.Helper()
	all, err := c.Runs(ctx, RunsQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestChartIsOfOneMoment: while a chart is replaced, a reader sees the old one or the new one.
func TestChartIsOfOneMoment(t *testing.T) {
	c := fresh(t)
	r := begin(t, c)
	save(t, r, "US", Page{Region: "US", Chart: true, Videos: named("a", "b")})
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if chart, err := c.Chart(ctx, "US", ""); err != nil || len(chart.Entries) != 2 {
					t.Errorf("the chart is %+v, %v", chart, err)
					return
				}
			}
		})
	}
	for range scaled(60, 3000) {
		save(t, r, "US", Page{Region: "US", Chart: true, Videos: named("a", "b")})
	}
	close(done)
	readers.Wait()
}
