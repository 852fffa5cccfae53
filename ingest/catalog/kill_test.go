package catalog

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
)

func init() {
	children["fetch"] = fetch
	children["fetch own"] = fetchOwn
}

// The upstream of these tests has charts of some pages for each region. Later pages repeat
// videos of earlier ones, with other statistics.
const (
	chartPages   = 6
	videosOnPage = 25
)

var fetchRegions = []string{"DE", "FR", "US"}

func upstreamPage(region string, cur Cursor) Page {
	p := Page{Cursor: cur, Region: region, Chart: true, Units: 1, Next: fmt.Sprint(cur.Page + 1), High: noon.Add(time.Duration(cur.Page) * time.Minute)}
	if cur.Page == chartPages-1 {
		p.Next, p.Done = "", true
	}
	for i := range videosOnPage {
		n := int(cur.Page)*(videosOnPage-5) + i
		v := Video{
			ID: fmt.Sprint("v", n), Title: fmt.Sprint("Title ", n, " 東京"), ChannelID: fmt.Sprint("UC", n%10), PublishedAt: noon,
			Description: strings.Repeat(fmt.Sprintf("what there is to say about %d in %s ", n%50, "Tokyo"), 20),
			Statistics:  &Statistics{Views: count(int64(n)), Comments: count(int64(i))},
		}
		if n%7 == 0 {
			v.Statistics = nil
		}
		p.Videos = append(p.Videos, v)
	}
	p.Channels = []Channel{{ID: fmt.Sprint("UC", cur.Page), Title: "Channel of " + region}}
	return p
}

// fetch fetches a page of each region in turn, from where the region stopped. It prints
// each page before and after it saves it.
func fetch(path string, begin func() bool, out io.Writer) error {
	c, err := Open(ctx, path, &Options{Clock: quota.NewSimClock(noon)})
	if err != nil {
		return err
	}
	defer c.Close()
	begin()
	fence, err := c.NewFence(ctx, "trending")
	if err != nil {
		return err
	}
	r, err := c.Begin(ctx, Start{Job: "trending", Fence: fence})
	if err != nil {
		return err
	}
	for over := 0; over < len(fetchRegions); {
		over = 0
		for _, region := range fetchRegions {
			cur, err := c.Cursor(ctx, "trending", region)
			if err != nil {
				return err
			}
			if cur.Pass > 0 {
				over++
				continue
			}
			p := upstreamPage(region, cur)
			if _, err := r.Save(ctx, &p); err != nil {
				return err
			}
			fmt.Fprintln(out, "saved", region, cur.Page)
		}
	}
	fmt.Fprintln(out, "done")
	return r.End(ctx, Outcome{State: Done})
}

// TestKilled kills a process at random moments and starts the next one, until the work is
// done. No page may be lost or half saved.
func TestKilled(t *testing.T) {
	undisturbed := filepath.Join(t.TempDir(), "catalog.db")
	whole := childtest.Start(t, "fetch", undisturbed)
	began := time.Now()
	whole.Begin()
	lines := whole.Rest()
	took := time.Since(began)
	if got := len(lines); got != len(fetchRegions)*chartPages+1 {
		t.Fatalf("%d lines: %q", got, lines)
	}
	want := dumped(t, must(t, undisturbed, nil), true)

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	kills := scaled(12, 200)
	path := filepath.Join(t.TempDir(), "catalog.db")
	for n := 0; n < kills; {
		saved := map[string]bool{}
		for finished := false; !finished; n++ {
			c := childtest.Start(t, "fetch", path)
			c.Begin()
			for range rng.IntN(8) {
				if line := c.Line(); line != "" {
					note(t, saved, line)
				}
			}
			time.Sleep(time.Duration(rng.Int64N(int64(took) / 20))) // in the middle of a page
			for _, line := range c.Kill() {
				note(t, saved, line)
			}
			finished = saved["done"]
			checkKilled(t, path, saved)
		}
		if diff := cmp.Diff(want, dumped(t, must(t, path, nil), true)); diff != "" {
			t.Fatalf("after being killed (-undisturbed +this):\n%s", diff)
		}
		path = filepath.Join(t.TempDir(), "catalog.db")
	}
}

// note remembers what a process printed, and checks that it printed it once.
func note(t *testing.T, saved map[string]bool, line string) {
	t.Helper()
	if strings.HasPrefix(line, "failed") {
		t.Fatal(line)
	}
	if saved[line] && line != "done" {
		t.Errorf("%s: twice", line)
	}
	saved[line] = true
}

// checkKilled checks that each page is saved completely or not at all.
func checkKilled(t *testing.T, path string, saved map[string]bool) {
	t.Helper()
	c := must(t, path, nil)
	defer c.Close()
	healthy(t, c)
	feeds, err := c.Feeds(ctx)
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]int{}
	for _, f := range feeds {
		entries[f.Region] = f.Entries + f.Pending
	}
	held := dumped(t, c, false)
	for _, region := range fetchRegions {
		cur, err := c.Cursor(ctx, "trending", region)
		if err != nil {
			t.Fatal(err)
		}
		pages := int(cur.Page) + int(cur.Pass)*chartPages
		want := 0
		if pages > 0 {
			want = pages*(videosOnPage-5) + 5
		}
		if entries[region] != want {
			t.Errorf("%s has %d entries after %d pages, want %d", region, entries[region], pages, want)
		}
		if seen := strings.Count(held, `["sighting","`+region+`",`); seen != want {
			t.Errorf("%s has %d videos after %d pages, want %d", region, seen, pages, want)
		}
		for page := range chartPages {
			if saved[fmt.Sprint("saved ", region, " ", page)] && page >= pages {
				t.Errorf("%s: page %d was saved, and is lost", region, page)
			}
		}
	}
}

// fetchOwn saves the pages of the unit of work HEADROOM_TEST_WORK. Other processes save the
// same videos.
func fetchOwn(path string, begin func() bool, out io.Writer) error {
	begin()
	c, err := Open(ctx, path, &Options{Wait: time.Minute})
	if err != nil {
		return err
	}
	defer c.Close()
	work := os.Getenv("HEADROOM_TEST_WORK")
	r, err := c.Begin(ctx, Start{Job: work})
	if err != nil {
		return err
	}
	cur := Cursor{Job: work, Work: work}
	for cur.Pass < 3 {
		p := upstreamPage(work, cur)
		s, err := r.Save(ctx, &p)
		if err != nil {
			return err
		}
		cur = s.Cursor
		fmt.Fprintln(out, "saved")
		if _, err := c.Search(ctx, Query{Text: "東京 tokyo", Region: work}); err != nil {
			return err
		}
	}
	return r.End(ctx, Outcome{State: Done})
}

func TestProcessesAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	var all []*childtest.Child
	for i := range scaled(3, 8) { // they also race to create the file
		all = append(all, childtest.Start(t, "fetch own", path, fmt.Sprint("HEADROOM_TEST_WORK=W", i)))
	}
	for _, c := range all {
		c.Begin()
	}
	for _, c := range all {
		if lines := c.Rest(); len(lines) != 3*chartPages {
			t.Errorf("%d pages were saved, want %d: %q", len(lines), 3*chartPages, lines)
		}
	}
	c := must(t, path, nil)
	healthy(t, c)
	feeds, err := c.Feeds(ctx)
	if err != nil || len(feeds) != len(all) {
		t.Fatal(feeds, err)
	}
	for _, f := range feeds {
		if want := chartPages*(videosOnPage-5) + 5; f.Entries != want || f.Pending != 0 {
			t.Errorf("%+v, want %d entries", f, want)
		}
	}
	for _, r := range recorded(t, c) {
		if r.State != Done || r.Work[0].Pages != 3*chartPages {
			t.Errorf("%+v", r)
		}
	}
}
