package catalog

import (
	"cmp"
	ordered "container/list"
	"context"
	"fmt"
	"time"
)

// ages are what was fetched, in the order in which it last was.
type ages struct {
	order ordered.List // of *fetched, the oldest first
	at    map[string]*ordered.Element
}

// fetched is a video or a channel, or the statistics of a video.
type fetched struct {
	id    string
	at    time.Time // when it was last fetched
	brief bool      // a video that is known from a search or a playlist only
}

func newAges() *ages { return &ages{at: map[string]*ordered.Element{}} }

// find returns what is known of an id, or nil.
func (a *ages) find(id string) *ordered.Element { return a.at[id] }

// touch says that an id was fetched now.
func (a *ages) touch(id string, now time.Time) *fetched {
	e := a.at[id]
	if e == nil {
		e = a.order.PushBack(&fetched{id: id})
		a.at[id] = e
	}
	return a.renew(e, now)
}

// renew is touch for what was found.
func (a *ages) renew(e *ordered.Element, now time.Time) *fetched {
	a.order.MoveToBack(e)
	one := e.Value.(*fetched)
	one.at = now
	return one
}

func (a *ages) drop(id string) bool {
	e := a.at[id]
	if e == nil {
		return false
	}
	a.order.Remove(e)
	delete(a.at, id)
	return true
}

// before returns ids that were last fetched before a time, at most limit of them if
// that is not negative.
func (a *ages) before(t time.Time, limit int) (ids []string) {
	for e := a.order.Front(); e != nil && len(ids) != limit; e = e.Next() {
		one := e.Value.(*fetched)
		if !one.at.Before(t) {
			break
		}
		ids = append(ids, one.id)
	}
	return ids
}

// first returns the oldest ids, at most limit of them.
func (a *ages) first(limit int) (ids []string) {
	for e := a.order.Front(); e != nil && len(ids) < limit; e = e.Next() {
		ids = append(ids, e.Value.(*fetched).id)
	}
	return ids
}

// each shows all, the oldest first.
func (a *ages) each(show func(one *fetched)) {
	for e := a.order.Front(); e != nil; e = e.Next() {
		show(e.Value.(*fetched))
	}
}

// save is [Run.Save].
func (s *Sketch) save(_ context.Context, r *Run, p *Page) (saved Saved, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(p.check(r.job), s.show(r.fence)); err != nil {
		return saved, fmt.Errorf("save a page of %s %s: %w", r.job, p.At.Work, err)
	}
	saved.Cursor = s.cursor(p.At.Job, p.At.Work)
	if saved.Repeated, err = saved.Cursor.step(&p.At); err != nil || saved.Repeated {
		return saved, err
	}
	now := moment(micros(s.clock.Now()))
	if err := s.saveChart(p, &saved.Cursor, now); err != nil {
		return Saved{}, fmt.Errorf("save a page of %s %s: %w", r.job, p.At.Work, err)
	}
	s.saveRows(p, &saved, now)
	saved.Cursor.advance(p, now)
	s.saveCursor(saved.Cursor)
	w := s.work(r, p.At.Work, p.Region)
	w.Pages++
	w.Units += p.Units
	w.New += saved.New
	w.Unchanged += saved.Unchanged
	w.Gone += saved.Gone
	w.Statistics += saved.Statistics
	w.State, w.EndedAt, w.ResumeAt, w.Error = Running, time.Time{}, time.Time{}, ""
	return saved, nil
}

// saveChart notes of which charts a part is fetched. Others may fetch the same chart,
// and complete it.
func (s *Sketch) saveChart(p *Page, cur *Cursor, now time.Time) error {
	if !p.Chart {
		return nil
	}
	key := chartKey{p.Region, p.Category}
	if _, begun := s.pending[key]; !begun && cur.Begun() {
		return errNoBeginning
	}
	if !cur.Begun() {
		s.pending[key] = now
	}
	if p.Done {
		delete(s.pending, key)
	}
	return nil
}

// saveRows notes what a page holds. A text is never another one: there is none.
func (s *Sketch) saveRows(p *Page, saved *Saved, now time.Time) {
	for _, id := range p.Gone {
		if s.forget(id) {
			saved.Gone++
		}
		if s.channels.drop(id) {
			saved.Gone++
		}
	}
	clear(s.seen)
	for i := range p.Videos {
		if v := &p.Videos[i]; !s.seen[v.ID] {
			s.seen[v.ID] = true
			s.saveVideo(v, saved, now)
		}
	}
	for i := range p.Channels {
		s.channels.touch(p.Channels[i].ID, now)
	}
	for i := range p.Statistics {
		if id := p.Statistics[i].VideoID; s.videos.find(id) != nil {
			s.count(id, saved, now)
		}
	}
}

// count notes that a video has statistics.
func (s *Sketch) count(id string, saved *Saved, now time.Time) {
	if e := s.statistics.find(id); e != nil {
		s.statistics.renew(e, now)
	} else {
		s.statistics.touch(id, now)
		s.uncounted.drop(id)
	}
	saved.Statistics++
}

func (s *Sketch) saveVideo(v *Video, saved *Saved, now time.Time) {
	switch e := s.videos.find(v.ID); {
	case e == nil:
		saved.New++
		s.videos.touch(v.ID, now).brief = v.Brief
	case v.Brief && !e.Value.(*fetched).brief: // more is known of it, and that stays as old as it is
		saved.Unchanged++
	default:
		saved.Unchanged++
		s.videos.renew(e, now).brief = v.Brief
	}
	switch {
	case v.Statistics != nil:
		s.count(v.ID, saved, now)
	case s.statistics.find(v.ID) == nil:
		s.uncounted.touch(v.ID, now)
	}
}

// work is the record of a unit of work in a run.
func (s *Sketch) work(r *Run, work, region string) *WorkRecord {
	run := &s.runs[r.ID-1]
	for i := range run.Work {
		if run.Work[i].Work == work {
			return &run.Work[i]
		}
	}
	run.Work = append(run.Work, WorkRecord{Work: work, Region: region})
	return &run.Work[len(run.Work)-1]
}

// restart is [Run.Restart].
func (s *Sketch) restart(_ context.Context, r *Run, work string) (Cursor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.show(r.fence); err != nil {
		return Cursor{}, fmt.Errorf("restart %s: %w", work, err)
	}
	cur := s.cursor(r.job, work)
	cur.rewind()
	s.saveCursor(cur)
	return cur, nil
}

// endWork is [Run.EndWork].
func (s *Sketch) endWork(_ context.Context, r *Run, work, region string, o Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.show(r.fence); err != nil {
		return fmt.Errorf("end %s: %w", work, err)
	}
	cur := s.cursor(r.job, work)
	cur.end(o)
	s.saveCursor(cur)
	w := s.work(r, work, region)
	w.State, w.EndedAt, w.ResumeAt, w.Error = o.State, s.clock.Now(), o.ResumeAt, o.Error
	w.Units += o.Units
	return nil
}

// end is [Run.End].
func (s *Sketch) end(_ context.Context, r *Run, o Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.show(r.fence); err != nil {
		return fmt.Errorf("end a run: %w", err)
	}
	run := &s.runs[r.ID-1]
	run.State, run.EndedAt, run.ResumeAt, run.Error = o.State, s.clock.Now(), o.ResumeAt, o.Error
	return nil
}
