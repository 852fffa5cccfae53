package catalog

import (
	"cmp"
	ordered "container/list"
	"context"
	"fmt"
	"time"
)

// ages are ids in the order in which they were last fetched.
type ages struct {
	order ordered.List // of age, the oldest first
	at    map[string]*ordered.Element
}

type age struct {
	id string
	at time.Time
}

func newAges() *ages { return &ages{at: map[string]*ordered.Element{}} }

// touch says that an id was fetched now.
func (a *ages) touch(id string, now time.Time) {
	if e := a.at[id]; e != nil {
		e.Value.(*age).at = now
		a.order.MoveToBack(e)
		return
	}
	a.at[id] = a.order.PushBack(&age{id, now})
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
		one := e.Value.(*age)
		if !one.at.Before(t) {
			break
		}
		ids = append(ids, one.id)
	}
	return ids
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

// saveRows notes what a page holds. A text is never another one: there is none.
func (s *Sketch) saveRows(p *Page, saved *Saved, now time.Time) {
	for _, id := range p.Gone {
		if s.forget(KindVideos, id) {
			saved.Gone++
		}
		if s.forget(KindChannels, id) {
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
		s.known[KindChannels].touch(p.Channels[i].ID, now)
	}
	for i := range p.Statistics {
		if id := p.Statistics[i].VideoID; s.known[KindVideos].at[id] != nil {
			s.known[KindStatistics].touch(id, now)
			saved.Statistics++
		}
	}
}

func (s *Sketch) saveVideo(v *Video, saved *Saved, now time.Time) {
	known := s.known[KindVideos].at[v.ID] != nil
	if !known {
		saved.New++
	} else {
		saved.Unchanged++
	}
	if full := known && !s.brief[v.ID]; !v.Brief || !full { // else more is known of it, and that stays as old as it is
		s.known[KindVideos].touch(v.ID, now)
		if v.Brief {
			s.brief[v.ID] = true
		} else {
			delete(s.brief, v.ID)
		}
	}
	if v.Statistics != nil {
		s.known[KindStatistics].touch(v.ID, now)
		saved.Statistics++
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
	if cur.ResumeAt = (time.Time{}); o.State != Done {
		cur.ResumeAt = o.ResumeAt
	}
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
