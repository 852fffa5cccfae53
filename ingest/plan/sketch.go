package catalog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Sketch is a catalog in memory that keeps what a schedule goes by, and no text: the
// cursors, the runs, which videos and channels are known and how old they are, and of
// which charts a part is fetched. It does for a run what a [Catalog] does, in a
// hundredth of the time, so that a month of runs can be rehearsed in seconds. It finds
// and shows nothing. It is safe for concurrent use.
type Sketch struct {
	mu      sync.Mutex
	clock   quota.Clock
	fences  map[string]int64
	cursors map[string]map[string]Cursor // by job and work
	runs    []RunRecord                  // by ID, from 1
	pending map[chartKey]time.Time       // charts of which a part is fetched, and when its first page was
	seen    map[string]bool              // of the page that is being saved

	videos, channels *ages
	statistics       *ages // of videos
	uncounted        *ages // videos that have none
}

type chartKey struct{ region, category string }

// NewSketch returns a sketch that knows nothing.
func NewSketch(clock quota.Clock) *Sketch {
	return &Sketch{
		clock:   clock,
		fences:  map[string]int64{},
		cursors: map[string]map[string]Cursor{},
		pending: map[chartKey]time.Time{},
		seen:    map[string]bool{},

		videos: newAges(), channels: newAges(), statistics: newAges(), uncounted: newAges(),
	}
}

// NewFence is [Catalog.NewFence].
func (s *Sketch) NewFence(_ context.Context, name string) (Fence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fences[name] = max(s.fences[name]+1, micros(s.clock.Now()))
	return Fence{Name: name, Token: s.fences[name]}, nil
}

// Begin is [Catalog.Begin].
func (s *Sketch) Begin(_ context.Context, start Start) (*Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.show(start.Fence); err != nil {
		return nil, fmt.Errorf("begin a run of %s: %w", start.Job, err)
	}
	now := s.clock.Now()
	if last := s.last(start.Job); last != nil && last.State == Running {
		last.State, last.EndedAt, last.Error = Failed, now, abandoned
		for i := range last.Work {
			if w := &last.Work[i]; w.State == Running {
				w.State, w.EndedAt, w.Error = Failed, now, abandoned
			}
		}
	}
	id := int64(len(s.runs)) + 1
	s.runs = append(s.runs, RunRecord{ID: id, Job: start.Job, Scheduled: start.Scheduled, StartedAt: now, State: Running})
	return &Run{ID: id, in: s, job: start.Job, fence: start.Fence}, nil
}

// abandoned is what is wrong with a run that never ended.
const abandoned = "its process ended before it did"

// last is the last run of a job: no other can still be under way.
func (s *Sketch) last(job string) *RunRecord {
	for i := len(s.runs) - 1; i >= 0; i-- {
		if s.runs[i].Job == job {
			return &s.runs[i]
		}
	}
	return nil
}

// Cursors is [Catalog.Cursors].
func (s *Sketch) Cursors(_ context.Context, job string) (all []Cursor, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, works := range s.cursors {
		for _, cur := range works {
			if job == "" || name == job {
				all = append(all, cur)
			}
		}
	}
	slices.SortFunc(all, func(a, b Cursor) int {
		return cmp.Or(a.CompletedAt.Compare(b.CompletedAt), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Work, b.Work))
	})
	return all, nil
}

// cursor returns how far a unit of work has got.
func (s *Sketch) cursor(job, work string) Cursor {
	cur := s.cursors[job][work]
	cur.Job, cur.Work = job, work
	return cur
}

func (s *Sketch) saveCursor(cur Cursor) {
	if s.cursors[cur.Job] == nil {
		s.cursors[cur.Job] = map[string]Cursor{}
	}
	s.cursors[cur.Job][cur.Work] = cur
}

// Runs is [Catalog.Runs].
func (s *Sketch) Runs(_ context.Context, q RunsQuery) (all []RunRecord, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := q.Limit
	if limit <= 0 {
		limit = defaultRuns
	}
	for i := len(s.runs) - 1; i >= 0 && len(all) < limit; i-- {
		r := s.runs[i]
		if r.ID == 0 || q.Job != "" && r.Job != q.Job || q.Before != 0 && r.ID >= q.Before {
			continue
		}
		r.Work = slices.Clone(r.Work)
		slices.SortFunc(r.Work, func(a, b WorkRecord) int { return cmp.Compare(a.Work, b.Work) })
		all = append(all, r)
	}
	return all, nil
}

// ForgetRuns is [Catalog.ForgetRuns].
func (s *Sketch) ForgetRuns(_ context.Context, before time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.runs {
		if r := &s.runs[i]; !r.EndedAt.IsZero() && r.EndedAt.Before(before) {
			*r = RunRecord{} // its place stays: the others are found by their number
		}
	}
	return nil
}

// Aging is [Catalog.Aging].
func (s *Sketch) Aging(_ context.Context, kind Kind, before time.Time, limit int) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch kind {
	case KindVideos:
		return s.videos.before(before, limit), nil
	case KindChannels:
		return s.channels.before(before, limit), nil
	case KindStatistics:
		ids := s.uncounted.first(limit)
		return append(ids, s.statistics.before(before, limit-len(ids))...), nil
	}
	return nil, fmt.Errorf("there is no kind %q", kind)
}

// Expire is [Catalog.Expire].
func (s *Sketch) Expire(_ context.Context, l Limits) (e Expired, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.statistics.before(l.StatisticsBefore, -1) {
		s.statistics.drop(id)
		s.uncounted.touch(id, time.Time{})
		e.Statistics++
	}
	for _, id := range s.videos.before(l.Before, -1) {
		s.forget(id)
		e.Videos++
	}
	for _, id := range s.channels.before(l.Before, -1) {
		s.channels.drop(id)
		e.Channels++
	}
	maps.DeleteFunc(s.pending, func(_ chartKey, at time.Time) bool { return at.Before(l.Before) })
	return e, nil
}

// forget forgets a video, with its statistics.
func (s *Sketch) forget(id string) bool {
	s.statistics.drop(id)
	s.uncounted.drop(id)
	return s.videos.drop(id)
}

func (s *Sketch) show(f Fence) error {
	switch last := s.fences[f.Name]; {
	case f.Name == "":
	case last > f.Token:
		return fmt.Errorf("%s: %w", f.Name, ErrFenced)
	default:
		s.fences[f.Name] = f.Token
	}
	return nil
}
