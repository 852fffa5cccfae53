package catalogtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// testIncrementalHasNoGap searches a growing list of videos, newest first. Its passes are
// deferred, restarted or finished at random, as the runner does it. No video may be missing
// in the end.
func (h *Harness) testIncrementalHasNoGap(t *testing.T) {
	const perPage = 3
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c, clock := h.fresh(t)
	r := begin(t, c)
	var upstream []catalog.Video
	publish := func() {
		clock.Advance(time.Minute)
		id := fmt.Sprintf("v%04d", len(upstream))
		upstream = append(upstream, catalog.Video{ID: id, Title: id, PublishedAt: clock.Now()})
	}
	// list answers like search.list: videos published after a time, newest first. The
	// token names the last video of the page before.
	list := func(after time.Time, token string) (page []catalog.Video, next string) {
		for _, v := range slices.Backward(upstream) {
			if !v.PublishedAt.After(after) || token != "" && v.ID >= token {
				continue
			}
			if len(page) == perPage {
				return page, page[perPage-1].ID
			}
			page = append(page, v)
		}
		return page, ""
	}
	cur := catalog.Cursor{Job: "trending", Work: "q"}
	for n, pages := 0, scaled(300, 5000); n < pages || cur.Begun(); n++ {
		if n < pages && rng.IntN(8) == 0 { // a pass gets several pages
			for range rng.IntN(25) {
				publish()
			}
		}
		var err error
		if cur, err = c.Cursor(ctx, "trending", "q"); err != nil { // as another process does it
			t.Fatal(err)
		}
		if n < pages && cur.Begun() && rng.IntN(20) == 0 { // the token has expired
			if cur, err = r.Restart(ctx, "q"); err != nil {
				t.Fatal(err)
			}
		}
		p := catalog.Page{Cursor: cur, Since: cur.Since}
		if !cur.Begun() {
			p.Since = cur.Mark
		}
		p.Videos, p.Next = list(p.Since, cur.Token)
		p.Done = p.Next == ""
		for _, v := range p.Videos {
			if v.PublishedAt.After(p.High) {
				p.High = v.PublishedAt
			}
		}
		s, err := r.Save(ctx, &p)
		if err != nil {
			t.Fatal(err)
		}
		if !p.Done && !s.Cursor.Mark.Equal(cur.Mark) {
			t.Fatal("the mark moved before the pass was complete")
		}
		cur = s.Cursor
	}
	missing := 0
	for _, v := range upstream {
		if _, err := c.Video(ctx, v.ID); err != nil && !v.PublishedAt.After(cur.Mark) {
			missing++
		}
	}
	if missing > 0 || cur.Mark.IsZero() {
		t.Errorf("%d of %d videos were never fetched, up to the mark %s", missing, len(upstream), cur.Mark)
	}
}

func (h *Harness) testCursor(t *testing.T) {
	c, clock := h.fresh(t)
	r := begin(t, c)
	if cur, err := c.Cursor(ctx, "trending", "new"); err != nil || cur != (catalog.Cursor{Job: "trending", Work: "new"}) {
		t.Errorf("%+v, %v", cur, err)
	}
	high := noon.Add(-time.Minute)
	s := save(t, r, "q", catalog.Page{Next: "2", Since: noon.Add(-time.Hour), High: high})
	want := catalog.Cursor{Job: "trending", Work: "q", Page: 1, Token: "2", Since: noon.Add(-time.Hour), High: high, SavedAt: noon}
	if s.Cursor != want {
		t.Errorf("got  %+v\nwant %+v", s.Cursor, want)
	}
	clock.Advance(time.Hour)
	if err := r.EndWork(ctx, "q", "", catalog.Outcome{State: catalog.Deferred, ResumeAt: noon.Add(24 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	want.ResumeAt = noon.Add(24 * time.Hour)
	if got, _ := c.Cursor(ctx, "trending", "q"); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	s = save(t, r, "q", catalog.Page{})
	want = catalog.Cursor{Job: "trending", Work: "q", Pass: 1, Mark: high, SavedAt: noon.Add(time.Hour), CompletedAt: noon.Add(time.Hour)}
	if s.Cursor != want {
		t.Errorf("got  %+v\nwant %+v", s.Cursor, want)
	}
	if err := c.Reset(ctx, "trending", "q"); err != nil {
		t.Fatal(err)
	}
	if got, _ := c.Cursor(ctx, "trending", "q"); got != (catalog.Cursor{Job: "trending", Work: "q", Pass: 2}) {
		t.Errorf("after a reset: %+v", got)
	}
}

// testAMarkIsNeverAhead: a video with a time in the future must not hide videos that are
// published until then.
func (h *Harness) testAMarkIsNeverAhead(t *testing.T) {
	c, clock := h.fresh(t)
	r := begin(t, c)
	for range 2 {
		s := save(t, r, "q", catalog.Page{Videos: named("a"), High: noon.AddDate(70, 0, 0)})
		if !s.Cursor.Mark.Equal(clock.Now().Add(-5 * time.Minute)) {
			t.Errorf("at %s the mark is %s", clock.Now(), s.Cursor.Mark)
		}
		clock.Advance(time.Hour)
	}
}

func (h *Harness) testCursorsAreStalestFirst(t *testing.T) {
	c, clock := h.fresh(t)
	r := begin(t, c)
	for _, work := range []string{"US", "GB", "DE"} {
		clock.Advance(time.Hour)
		save(t, r, work, catalog.Page{})
	}
	clock.Advance(time.Hour)
	save(t, r, "US", catalog.Page{})
	save(t, r, "GB", catalog.Page{Next: "2"}) // an incomplete pass does not count
	if err := r.EndWork(ctx, "FR", "FR", catalog.Outcome{State: catalog.Deferred, ResumeAt: noon}); err != nil {
		t.Fatal(err)
	}
	all, err := c.Cursors(ctx, "trending")
	var works []string
	for _, cur := range all {
		works = append(works, cur.Work)
	}
	if diff := cmp.Diff([]string{"FR", "GB", "DE", "US"}, works); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if other, err := c.Cursors(ctx, "search"); err != nil || other != nil {
		t.Errorf("another job has %v, %v", other, err)
	}
}
