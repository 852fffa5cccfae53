package plan_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	godiff "github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/quota"
)

// TestSketchAgreesWithCatalog makes the same random runs in a catalog and a sketch, and
// compares everything that a schedule depends on.
func TestSketchAgreesWithCatalog(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4}
	for soak() && len(seeds) < 100 {
		seeds = append(seeds, rand.Uint64())
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			clock, sketched := quota.NewSimClock(noon), quota.NewSimClock(noon)
			c, err := catalog.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			r := &twins{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), clocks: []*quota.SimClock{clock, sketched}, both: []ingest.Catalog{c, plan.NewSketch(sketched)}}
			for range 200 {
				r.step()
			}
			for _, from := range []string{"the file", "the copy"} {
				r.t.Log("and a copy of " + from)
				var source plan.Source = c
				if from == "the copy" {
					source = r.both[1].(*plan.Sketch)
				}
				if r.both[1], err = plan.ReadSketch(t.Context(), source, []*ingest.Job{{Name: "trending"}, {Name: "stats"}}, sketched); err != nil {
					t.Fatal(err)
				}
				r.lookAhead()
			}
			q := catalog.RunsQuery{Job: "stats", Limit: 1} // there may be none
			there, err := c.Runs(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if last, err := r.both[1].Runs(t.Context(), q); err != nil || len(last) != len(there) {
				t.Errorf("of %d runs of stats the sketch has %d (%v)", len(there), len(last), err)
			}
		})
	}
}

// twins are a catalog and a sketch with the same operations.
type twins struct {
	t      *testing.T
	rnd    *rand.Rand
	clocks []*quota.SimClock
	both   []ingest.Catalog
	job    string
	runs   []catalog.Run // the current run of each
}

func (r *twins) step() {
	r.t.Helper()
	switch n := r.rnd.IntN(20); {
	case n == 0 || r.runs == nil:
		r.begin()
	case n < 11:
		r.save()
	case n < 13:
		o := catalog.Outcome{State: []catalog.State{catalog.Done, catalog.Deferred, catalog.Failed}[r.rnd.IntN(3)], Error: "why", Units: r.rnd.Int64N(3)}
		if o.State != catalog.Done {
			o.ResumeAt = r.now().Add(time.Hour)
		}
		work := r.work()
		r.same("EndWork", func(i int, _ ingest.Catalog) (any, error) {
			return nil, r.runs[i].EndWork(r.t.Context(), work, work, o)
		})
		if r.rnd.IntN(2) == 0 {
			r.same("End", func(i int, _ ingest.Catalog) (any, error) { return nil, r.runs[i].End(r.t.Context(), o) })
			r.runs = nil
		}
	case n == 13:
		work := r.work()
		r.same("Restart", func(i int, _ ingest.Catalog) (any, error) { return r.runs[i].Restart(r.t.Context(), work) })
	case n < 17:
		ahead := time.Duration(r.rnd.Int64N(int64(40 * time.Hour))).Truncate(time.Microsecond) // the precision of the tables
		for _, c := range r.clocks {
			c.Advance(ahead)
		}
	case n == 17:
		l := catalog.Limits{Before: r.now().Add(-240 * time.Hour), StatisticsBefore: r.now().Add(-time.Duration(r.rnd.IntN(400)) * time.Hour)}
		r.same("Expire", func(_ int, c ingest.Catalog) (any, error) {
			e, err := c.Expire(r.t.Context(), l)
			e.Charts, e.Sightings = 0, 0 // a sketch does not count them
			return e, err
		})
	case n == 18:
		before := r.now().Add(-120 * time.Hour)
		r.same("ForgetRuns", func(_ int, c ingest.Catalog) (any, error) { return nil, c.ForgetRuns(r.t.Context(), before) })
	default:
		r.look()
	}
}

func (r *twins) now() time.Time { return r.clocks[0].Now() }

func (r *twins) work() string { return []string{"US", "DE", "FR"}[r.rnd.IntN(3)] }

func (r *twins) begin() {
	job := []string{"trending", "stats"}[r.rnd.IntN(2)]
	r.job = job
	s := catalog.Start{Job: job}
	if r.rnd.IntN(2) == 0 {
		s.Scheduled = r.now().Add(-time.Minute)
	}
	r.runs = nil
	r.same("Begin", func(_ int, c ingest.Catalog) (_ any, err error) {
		s := s // a sketch has no fences
		if s.Fence, err = c.NewFence(r.t.Context(), "default/"+job); err != nil {
			return nil, err
		}
		run, err := c.Begin(r.t.Context(), s)
		r.runs = append(r.runs, run)
		return nil, err
	})
}

// save saves the next page, an earlier page, or a later page.
func (r *twins) save() {
	p := catalog.Page{Region: "US", Units: 1, Done: r.rnd.IntN(2) == 0, Chart: r.rnd.IntN(3) == 0}
	if !p.Done {
		p.Next = "next"
	}
	for range r.rnd.IntN(6) {
		v := catalog.Video{ID: fmt.Sprint("v", r.rnd.IntN(40)), Brief: r.rnd.IntN(3) == 0}
		if r.rnd.IntN(2) == 0 {
			v.Statistics = &catalog.Statistics{}
		}
		p.Videos = append(p.Videos, v)
		if v.Brief {
			p.High = r.now()
		}
	}
	for range r.rnd.IntN(3) {
		p.Channels = append(p.Channels, catalog.Channel{ID: fmt.Sprint("c", r.rnd.IntN(9))})
		p.Statistics = append(p.Statistics, catalog.Statistics{VideoID: fmt.Sprint("v", r.rnd.IntN(40))})
		p.Gone = append(p.Gone, fmt.Sprint("v", r.rnd.IntN(40)), fmt.Sprint("c", r.rnd.IntN(9)))
	}
	p.Gone = slices.Compact(slices.Sorted(slices.Values(p.Gone)))
	work, step := r.work(), r.rnd.IntN(8)
	r.same("Save", func(i int, c ingest.Catalog) (any, error) {
		page, job := p, r.job
		page.Cursor = catalog.Cursor{Job: job, Work: work}
		all, err := c.Cursors(r.t.Context(), job)
		for _, cur := range all {
			if cur.Work == work {
				page.Cursor = cur
			}
		}
		switch step {
		case 0:
			page.Cursor.Page--
		case 1:
			page.Cursor.Page++
		}
		if err != nil {
			return nil, err
		}
		s, err := r.runs[i].Save(r.t.Context(), &page)
		s.Unchanged, s.Updated = s.Unchanged+s.Updated, 0 // a sketch has no texts to compare
		return s, err
	})
	r.look()
}

// look compares all contents.
func (r *twins) look() {
	r.lookAhead()
	for _, q := range []catalog.RunsQuery{{}, {Job: "stats", Limit: 2}, {Before: 5, Limit: 3}} {
		r.same("Runs", func(_ int, c ingest.Catalog) (any, error) {
			all, err := c.Runs(r.t.Context(), q)
			for i := range all { // a schedule depends on no number of the work, and on no order
				var works []catalog.WorkRecord
				for _, w := range all[i].Work {
					works = append(works, catalog.WorkRecord{Work: w.Work, Region: w.Region})
				}
				slices.SortFunc(works, func(a, b catalog.WorkRecord) int { return cmp.Compare(a.Work, b.Work) })
				all[i].Work = works
			}
			return all, err
		})
	}
}

// lookAhead compares the contents that decide what is fetched next.
func (r *twins) lookAhead() {
	for _, job := range []string{"", "trending"} {
		r.same("Cursors", func(_ int, c ingest.Catalog) (any, error) { return c.Cursors(r.t.Context(), job) })
	}
	for _, kind := range []catalog.Kind{catalog.KindVideos, catalog.KindStatistics, catalog.KindChannels, "others"} {
		before := r.now().Add(-time.Duration(r.rnd.IntN(100)) * time.Hour)
		r.same("Ages "+string(kind), func(_ int, c ingest.Catalog) (any, error) {
			all, err := c.Ages(r.t.Context(), kind, before, 1000)
			slices.SortFunc(all, func(a, b catalog.Age) int { return cmp.Compare(a.ID, b.ID) }) // equal ages have no order
			some, failed := c.Ages(r.t.Context(), kind, before, 3)
			return []any{all, len(some)}, errors.Join(err, failed)
		})
	}
}

// same calls do for both, and compares the results.
func (r *twins) same(what string, do func(i int, c ingest.Catalog) (any, error)) {
	r.t.Helper()
	want, failed := do(0, r.both[0])
	got, err := do(1, r.both[1])
	if (failed == nil) != (err == nil) || errors.Is(failed, catalog.ErrOutOfStep) != errors.Is(err, catalog.ErrOutOfStep) {
		r.t.Fatalf("%s: the sketch says %v, the catalog %v", what, err, failed)
	}
	if diff := godiff.Diff(want, got); diff != "" && err == nil {
		r.t.Fatalf("%s: (-catalog +sketch)\n%s", what, diff)
	}
}
