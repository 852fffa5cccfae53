package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
)

// rehearsal is what a catalog and a sketch of one have in common.
type rehearsal interface {
	keeper
	NewFence(ctx context.Context, name string) (Fence, error)
	Begin(ctx context.Context, s Start) (*Run, error)
	Cursors(ctx context.Context, job string) ([]Cursor, error)
	Runs(ctx context.Context, q RunsQuery) ([]RunRecord, error)
	ForgetRuns(ctx context.Context, before time.Time) error
	Aging(ctx context.Context, kind Kind, before time.Time, limit int) ([]string, error)
	Expire(ctx context.Context, l Limits) (Expired, error)
}

// TestSketch puts the same random runs into a catalog and a sketch, and asks both
// for all that a schedule goes by.
func TestSketch(t *testing.T) {
	for i := range scaled(4, 100) {
		seed := uint64(i + 1)
		if scaled(0, 1) == 1 {
			seed = rand.Uint64()
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c, clock := fresh(t)
			sketched := quota.NewSimClock(noon)
			r := &twins{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), clocks: []*quota.SimClock{clock, sketched}, both: []rehearsal{c, NewSketch(sketched)}}
			for range 200 {
				r.step()
			}
			r.t.Log("and a sketch of the file")
			again, err := SketchOf(ctx, c.Path(), sketched)
			if err != nil {
				t.Fatal(err)
			}
			r.both[1] = again
			r.lookAhead()
			r.both[1] = again.Copy(sketched)
			r.lookAhead()
			q := RunsQuery{Job: "stats", Limit: 1} // of which the steps may have left none
			there, err := c.Runs(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			if last, err := r.both[1].Runs(ctx, q); err != nil || len(last) != len(there) {
				t.Errorf("of %d runs of stats the sketch has %d (%v)", len(there), len(last), err)
			}
		})
	}
}

func TestSketchOfNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := SketchOf(ctx, filepath.Join(dir, "catalog.db"), quota.NewSimClock(noon)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a catalog that is not there: %v", err)
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
		t.Errorf("it made %v (%v)", made, err)
	}
}

// TestSketchTouchesNothing: neither the file is changed, nor is anything made beside it,
// not even for a while. What is empty is no catalog, and stays empty.
func TestSketchTouchesNothing(t *testing.T) {
	c, clock := fresh(t)
	path := c.Path()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) // when the folder was last changed
	look := func() error {
		t.Helper()
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Dir(path), at, at); err != nil {
			t.Fatal(err)
		}
		_, failed := SketchOf(ctx, path, clock)
		after, err := os.ReadFile(path)
		if err != nil || string(before) != string(after) {
			t.Errorf("the file is another one (%v)", err)
		}
		if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.ModTime().Equal(at) {
			t.Errorf("something was made beside it (%v)", err)
		}
		return failed
	}
	if err := look(); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := look(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty file: %v", err)
	}
	if err := os.WriteFile(path, []byte("these are the notes of somebody else, and no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := look(); err == nil {
		t.Error("what is no database was read")
	}
}

// twins are a catalog and a sketch to which the same happens.
type twins struct {
	t      *testing.T
	rnd    *rand.Rand
	clocks []*quota.SimClock
	both   []rehearsal
	runs   []*Run // under way, in each
	fences []Fence
}

func (r *twins) step() {
	r.t.Helper()
	switch n := r.rnd.IntN(20); {
	case n == 0 || r.runs == nil:
		r.begin()
	case n < 11:
		r.save()
	case n < 13:
		o := Outcome{State: []State{Done, Deferred, Failed}[r.rnd.IntN(3)], Error: "why", Units: r.rnd.Int64N(3)}
		if o.State != Done {
			o.ResumeAt = r.now().Add(time.Hour)
		}
		work := r.work()
		r.same("EndWork", func(i int, _ rehearsal) (any, error) { return nil, r.runs[i].EndWork(ctx, work, work, o) })
		if r.rnd.IntN(2) == 0 {
			r.same("End", func(i int, _ rehearsal) (any, error) { return nil, r.runs[i].End(ctx, o) })
			r.runs = nil
		}
	case n == 13:
		work := r.work()
		r.same("Restart", func(i int, _ rehearsal) (any, error) { return r.runs[i].Restart(ctx, work) })
	case n < 17:
		ahead := time.Duration(r.rnd.Int64N(int64(40 * time.Hour))).Truncate(time.Microsecond) // as tables have it
		for _, c := range r.clocks {
			c.Advance(ahead)
		}
	case n == 17:
		l := Limits{Before: r.now().Add(-240 * time.Hour), StatisticsBefore: r.now().Add(-time.Duration(r.rnd.IntN(400)) * time.Hour)}
		r.same("Expire", func(_ int, c rehearsal) (any, error) {
			e, err := c.Expire(ctx, l)
			e.Charts, e.Sightings = 0, 0 // which a sketch has not
			return e, err
		})
	case n == 18:
		before := r.now().Add(-120 * time.Hour)
		r.same("ForgetRuns", func(_ int, c rehearsal) (any, error) { return nil, c.ForgetRuns(ctx, before) })
	default:
		r.look()
	}
}

func (r *twins) now() time.Time { return r.clocks[0].Now() }

func (r *twins) work() string { return []string{"US", "DE", "FR"}[r.rnd.IntN(3)] }

func (r *twins) begin() {
	job := []string{"trending", "stats"}[r.rnd.IntN(2)]
	s := Start{Job: job}
	if r.rnd.IntN(2) == 0 {
		s.Scheduled = r.now().Add(-time.Minute)
	}
	if r.rnd.IntN(3) > 0 || r.fences == nil { // else one that may have been overtaken
		r.fences = nil
		r.same("NewFence", func(_ int, c rehearsal) (any, error) {
			f, err := c.NewFence(ctx, "default/"+job)
			r.fences = append(r.fences, f)
			return f, err
		})
	}
	r.runs = nil
	s.Fence = r.fences[0]
	r.same("Begin", func(_ int, c rehearsal) (any, error) {
		run, err := c.Begin(ctx, s)
		r.runs = append(r.runs, run)
		return run.ID, err
	})
}

// save saves a page at the cursor, or once more, or out of step.
func (r *twins) save() {
	p := Page{Region: "US", Units: 1, Done: r.rnd.IntN(2) == 0, Chart: r.rnd.IntN(3) == 0}
	if !p.Done {
		p.Next = "next"
	}
	for range r.rnd.IntN(6) {
		v := Video{ID: fmt.Sprint("v", r.rnd.IntN(40)), Brief: r.rnd.IntN(3) == 0}
		if r.rnd.IntN(2) == 0 {
			v.Statistics = &Statistics{}
		}
		p.Videos = append(p.Videos, v)
		if v.Brief {
			p.High = r.now()
		}
	}
	for range r.rnd.IntN(3) {
		p.Channels = append(p.Channels, Channel{ID: fmt.Sprint("c", r.rnd.IntN(9))})
		p.Statistics = append(p.Statistics, Statistics{VideoID: fmt.Sprint("v", r.rnd.IntN(40))})
		p.Gone = append(p.Gone, fmt.Sprint("v", r.rnd.IntN(40)), fmt.Sprint("c", r.rnd.IntN(9)))
	}
	p.Gone = slices.Compact(slices.Sorted(slices.Values(p.Gone)))
	work, step := r.work(), r.rnd.IntN(8)
	r.same("Save", func(i int, c rehearsal) (any, error) {
		page, job := p, r.runs[i].job
		page.At = Cursor{Job: job, Work: work}
		all, err := c.Cursors(ctx, job)
		for _, cur := range all {
			if cur.Work == work {
				page.At = cur
			}
		}
		switch step {
		case 0:
			page.At.Page--
		case 1:
			page.At.Page++
		}
		if err != nil {
			return nil, err
		}
		s, err := r.runs[i].Save(ctx, &page)
		s.Unchanged, s.Updated = s.Unchanged+s.Updated, 0 // a sketch has no texts to compare
		return s, err
	})
	r.look()
}

// look compares all that is kept.
func (r *twins) look() {
	r.lookAhead()
	for _, q := range []RunsQuery{{}, {Job: "stats", Limit: 2}, {Before: 5, Limit: 3}} {
		r.same("Runs", func(_ int, c rehearsal) (any, error) {
			all, err := c.Runs(ctx, q)
			for i := range all {
				for j := range all[i].Work {
					w := &all[i].Work[j]
					w.Unchanged, w.Updated = w.Unchanged+w.Updated, 0
				}
			}
			return all, err
		})
	}
}

// lookAhead compares what decides what is fetched next.
func (r *twins) lookAhead() {
	for _, job := range []string{"", "trending"} {
		r.same("Cursors", func(_ int, c rehearsal) (any, error) { return c.Cursors(ctx, job) })
	}
	for _, kind := range []Kind{KindVideos, KindStatistics, KindChannels, "others"} {
		before := r.now().Add(-time.Duration(r.rnd.IntN(100)) * time.Hour)
		r.same("Aging "+string(kind), func(_ int, c rehearsal) (any, error) {
			all, err := c.Aging(ctx, kind, before, 1000)
			slices.Sort(all) // of those that are equally old any may come first
			some, failed := c.Aging(ctx, kind, before, 3)
			return []any{all, len(some)}, errors.Join(err, failed)
		})
	}
}

// same does the same to both, and compares what they say.
func (r *twins) same(what string, do func(i int, c rehearsal) (any, error)) {
	r.t.Helper()
	want, failed := do(0, r.both[0])
	got, err := do(1, r.both[1])
	if (failed == nil) != (err == nil) || errors.Is(failed, ErrFenced) != errors.Is(err, ErrFenced) || errors.Is(failed, ErrOutOfStep) != errors.Is(err, ErrOutOfStep) {
		r.t.Fatalf("%s: the sketch says %v, the catalog %v", what, err, failed)
	}
	if diff := cmp.Diff(want, got); diff != "" && err == nil {
		r.t.Fatalf("%s: (-catalog +sketch)\n%s", what, diff)
	}
}
