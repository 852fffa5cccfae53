package plan

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// Sketch is a catalog in memory. It holds only what a schedule depends on: cursors, runs,
// incomplete charts, and the age of videos, statistics and channels. It holds no texts. It
// takes a hundredth of the time of a [catalog.Catalog], so a month of runs can be rehearsed
// in seconds. One goroutine at a time may change it. It has no fences, because no other
// process knows it.
type Sketch struct {
	clock   quota.Clock
	cursors map[Work]catalog.Cursor
	runs    []catalog.RunRecord // by ID, from 1; a forgotten run is empty
	charts  map[chartKey]time.Time
	ages    map[catalog.Kind]*ages
	seen    map[string]bool // on the page that is saved
}

var _ ingest.Catalog = (*Sketch)(nil)

// chartKey names an incomplete chart. Its time is that of its first page.
type chartKey struct{ region, category string }

// NewSketch returns an empty sketch.
func NewSketch(clock quota.Clock) *Sketch {
	return &Sketch{
		clock: clock, seen: map[string]bool{}, cursors: map[Work]catalog.Cursor{}, charts: map[chartKey]time.Time{},
		ages: map[catalog.Kind]*ages{catalog.KindVideos: newAges(), catalog.KindStatistics: newAges(), catalog.KindChannels: newAges()},
	}
}

// Source is a catalog that a sketch is copied from: a [catalog.Catalog] or another sketch.
type Source interface {
	Cursors(ctx context.Context, job string) ([]catalog.Cursor, error)
	Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error)
	Feeds(ctx context.Context) ([]catalog.Feed, error)
	Ages(ctx context.Context, kind catalog.Kind, before time.Time, limit int) ([]catalog.Age, error)
}

var (
	_ Source = (*catalog.Catalog)(nil)
	_ Source = (*Sketch)(nil)
)

// recordedRuns is the number of runs of a job that a sketch copies.
const recordedRuns = 50

// farFuture is later than all data.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// ReadSketch returns a sketch of a catalog with the runs of some jobs. Data with a time in
// the future, from a clock that was ahead, counts as fetched now.
func ReadSketch(ctx context.Context, from Source, jobs []*ingest.Job, clock quota.Clock) (*Sketch, error) {
	s, now := NewSketch(clock), clock.Now()
	cursors, failed := from.Cursors(ctx, "")
	for _, cur := range cursors {
		s.saveCursor(cur)
	}
	for _, j := range jobs {
		runs, err := from.Runs(ctx, catalog.RunsQuery{Job: j.Name, Limit: recordedRuns, Made: true})
		failed = errors.Join(failed, err)
		s.runs = append(s.runs, runs...)
	}
	slices.SortFunc(s.runs, func(a, b catalog.RunRecord) int { return cmp.Compare(a.ID, b.ID) })
	for i := range s.runs {
		s.runs[i].ID = int64(i) + 1
	}
	feeds, err := from.Feeds(ctx)
	failed = errors.Join(failed, err)
	for _, f := range feeds {
		if !f.PendingSince.IsZero() {
			s.charts[chartKey{f.Region, f.Category}] = f.PendingSince
		}
	}
	for kind, ages := range s.ages {
		all, err := from.Ages(ctx, kind, farFuture, -1)
		failed = errors.Join(failed, err)
		for _, a := range all {
			if a.FetchedAt.After(now) {
				a.FetchedAt = now
			}
			ages.byID[a.ID] = ages.order.PushBack(&a)
		}
	}
	return s, failed
}

// NewFence implements [ingest.Catalog].
func (s *Sketch) NewFence(context.Context, string) (catalog.Fence, error) {
	return catalog.Fence{}, nil
}

// Cursors implements [ingest.Catalog].
func (s *Sketch) Cursors(_ context.Context, job string) (all []catalog.Cursor, err error) {
	for _, cur := range s.cursors {
		if job == "" || cur.Job == job {
			all = append(all, cur)
		}
	}
	slices.SortFunc(all, func(a, b catalog.Cursor) int {
		return cmp.Or(a.CompletedAt.Compare(b.CompletedAt), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Work, b.Work))
	})
	return all, nil
}

func (s *Sketch) cursor(job, work string) catalog.Cursor {
	cur := s.cursors[Work{job, work}]
	cur.Job, cur.Work = job, work
	return cur
}

func (s *Sketch) saveCursor(cur catalog.Cursor) { s.cursors[Work{cur.Job, cur.Work}] = cur }

// Runs implements [ingest.Catalog].
func (s *Sketch) Runs(_ context.Context, q catalog.RunsQuery) (all []catalog.RunRecord, err error) {
	limit := q.Limit
	if limit <= 0 {
		limit = catalog.DefaultRuns
	}
	for i := len(s.runs) - 1; i >= 0 && len(all) < limit; i-- {
		r := s.runs[i]
		if r.ID == 0 || q.Job != "" && r.Job != q.Job || q.Before != 0 && r.ID >= q.Before || q.Made && r.State == catalog.Skipped ||
			!q.Due.IsZero() && (r.Scheduled.IsZero() || r.Scheduled.After(q.Due) || r.Unlocked()) {
			continue
		}
		if q.Bare {
			r.Work = nil
		}
		all = append(all, r)
	}
	return all, nil
}

// ForgetRuns implements [ingest.Catalog].
func (s *Sketch) ForgetRuns(_ context.Context, before time.Time) error {
	for i := range s.runs {
		if r := &s.runs[i]; !r.EndedAt.IsZero() && r.EndedAt.Before(before) {
			*r = catalog.RunRecord{}
		}
	}
	return nil
}

// Feeds implements [Source]. It returns incomplete charts only.
func (s *Sketch) Feeds(context.Context) (all []catalog.Feed, err error) {
	for key, since := range s.charts {
		all = append(all, catalog.Feed{Region: key.region, Category: key.category, PendingSince: since})
	}
	return all, nil
}

// Ages implements [ingest.Catalog].
func (s *Sketch) Ages(_ context.Context, kind catalog.Kind, before time.Time, limit int) ([]catalog.Age, error) {
	if s.ages[kind] == nil {
		return nil, fmt.Errorf("there is no kind %q", kind)
	}
	return s.ages[kind].older(before, limit), nil
}

// Expire implements [ingest.Catalog].
func (s *Sketch) Expire(_ context.Context, l catalog.Limits) (e catalog.Expired, err error) {
	statistics := s.ages[catalog.KindStatistics]
	for _, a := range statistics.older(l.StatisticsBefore, -1) {
		if !a.FetchedAt.IsZero() {
			statistics.touch(a.ID, time.Time{})
			e.Statistics++
		}
	}
	for _, a := range s.ages[catalog.KindVideos].older(l.Before, -1) {
		s.removeVideo(a.ID)
		e.Videos++
	}
	for _, a := range s.ages[catalog.KindChannels].older(l.Before, -1) {
		s.ages[catalog.KindChannels].remove(a.ID)
		e.Channels++
	}
	maps.DeleteFunc(s.charts, func(_ chartKey, since time.Time) bool { return since.Before(l.Before) })
	return e, nil
}

func (s *Sketch) removeVideo(id string) bool {
	s.ages[catalog.KindStatistics].remove(id)
	return s.ages[catalog.KindVideos].remove(id)
}

// ages are the ages of one kind of data, the oldest first.
type ages struct {
	order list.List // of *catalog.Age
	byID  map[string]*list.Element
}

func newAges() *ages { return &ages{byID: map[string]*list.Element{}} }

func (a *ages) find(id string) *catalog.Age {
	if e := a.byID[id]; e != nil {
		return e.Value.(*catalog.Age)
	}
	return nil
}

// touch sets the age of an id: to the zero time or to now, which is later than all.
func (a *ages) touch(id string, at time.Time) *catalog.Age {
	e := a.byID[id]
	if e == nil {
		e = a.order.PushBack(&catalog.Age{ID: id})
		a.byID[id] = e
	}
	if a.order.MoveToBack(e); at.IsZero() {
		a.order.MoveToFront(e)
	}
	age := e.Value.(*catalog.Age)
	age.FetchedAt = at
	return age
}

func (a *ages) remove(id string) bool {
	e := a.byID[id]
	if e != nil {
		a.order.Remove(e)
		delete(a.byID, id)
	}
	return e != nil
}

// older returns ages before a time. A limit below 0 is no limit.
func (a *ages) older(before time.Time, limit int) (all []catalog.Age) {
	for e := a.order.Front(); e != nil && len(all) != limit; e = e.Next() {
		age := e.Value.(*catalog.Age)
		if !age.FetchedAt.Before(before) {
			break
		}
		all = append(all, *age)
	}
	return all
}
