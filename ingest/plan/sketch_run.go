package plan

import (
	"context"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

type sketchRun struct {
	s     *Sketch
	id    int64
	job   string
	fence catalog.Fence
}

// abandoned is the error of a run that never ended.
const abandoned = "its process ended before it did"

// Begin implements [ingest.Catalog].
func (s *Sketch) Begin(_ context.Context, start catalog.Start) (catalog.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkFence(start.Fence); err != nil {
		return nil, fmt.Errorf("begin a run of %s: %w", start.Job, err)
	}
	now := s.clock.Now()
	if last := s.lastRun(start.Job); last != nil && last.State == catalog.Running {
		last.State, last.EndedAt, last.Error = catalog.Failed, now, abandoned
		for i := range last.Work {
			if w := &last.Work[i]; w.State == catalog.Running {
				w.State, w.EndedAt, w.Error, w.Cause = catalog.Failed, now, abandoned, "ended"
			}
		}
	}
	id := int64(len(s.runs)) + 1
	s.runs = append(s.runs, catalog.RunRecord{ID: id, Job: start.Job, Scheduled: start.Scheduled, StartedAt: now, State: catalog.Running})
	return &sketchRun{s, id, start.Job, start.Fence}, nil
}

// lastRun returns the last run of a job, or nil. No other run can still be running.
func (s *Sketch) lastRun(job string) *catalog.RunRecord {
	for i := len(s.runs) - 1; i >= 0; i-- {
		if s.runs[i].Job == job {
			return &s.runs[i]
		}
	}
	return nil
}

// change calls do behind the run's fence.
func (r *sketchRun) change(doing string, do func() error) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	err := r.s.checkFence(r.fence)
	if err == nil {
		err = do()
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", doing, r.job, err)
	}
	return nil
}

func (r *sketchRun) Save(_ context.Context, p *catalog.Page) (saved catalog.Saved, err error) {
	err = r.change("save a page", func() error {
		if err := p.Check(r.job); err != nil {
			return err
		}
		cur := r.s.cursor(p.Cursor.Job, p.Cursor.Work)
		if saved.Repeated, err = cur.Check(&p.Cursor); err != nil || saved.Repeated {
			saved.Cursor = cur
			return err
		}
		now := r.s.clock.Now().UTC().Truncate(time.Microsecond)
		if err := r.s.saveChart(p, now); err != nil {
			return err
		}
		r.s.saveRows(p, &saved, now)
		cur.Advance(p, now)
		saved.Cursor = cur
		r.s.saveCursor(cur)
		w := r.work(p.Cursor.Work, p.Region)
		w.Pages++
		w.Units += p.Units
		w.Charges.Add(p.Charges)
		w.New += saved.New
		w.Unchanged += saved.Unchanged
		w.Gone += saved.Gone
		w.Statistics += saved.Statistics
		w.State, w.EndedAt, w.ResumeAt, w.Error = catalog.Running, time.Time{}, time.Time{}, ""
		return nil
	})
	return saved, err
}

// saveChart records which charts are incomplete. Two units of work may share a chart.
func (s *Sketch) saveChart(p *catalog.Page, now time.Time) error {
	if !p.Chart {
		return nil
	}
	key := chartKey{p.Region, p.Category}
	if !p.Cursor.Begun() {
		s.charts[key] = now
	} else if _, begun := s.charts[key]; !begun {
		return catalog.ErrNoBeginning
	}
	if p.Done {
		delete(s.charts, key)
	}
	return nil
}

// saveRows records the ages of a page. A known video counts as unchanged: a sketch has no
// texts.
func (s *Sketch) saveRows(p *catalog.Page, saved *catalog.Saved, now time.Time) {
	videos, statistics, channels := s.ages[catalog.KindVideos], s.ages[catalog.KindStatistics], s.ages[catalog.KindChannels]
	for _, id := range p.Gone {
		if s.removeVideo(id) {
			saved.Gone++
		}
		if channels.remove(id) {
			saved.Gone++
		}
	}
	clear(s.seen)
	for i := range p.Videos {
		v := &p.Videos[i]
		if s.seen[v.ID] {
			continue
		}
		s.seen[v.ID] = true
		known := videos.find(v.ID)
		if known == nil {
			saved.New++
		} else {
			saved.Unchanged++
		}
		if known == nil || known.Brief || !v.Brief { // else the full video stays, as old as it is
			videos.touch(v.ID, now).Brief = v.Brief
		}
		switch {
		case v.Statistics != nil:
			statistics.touch(v.ID, now)
			saved.Statistics++
		case statistics.find(v.ID) == nil:
			statistics.touch(v.ID, time.Time{})
		}
	}
	for i := range p.Channels {
		channels.touch(p.Channels[i].ID, now)
	}
	for i := range p.Statistics {
		if id := p.Statistics[i].VideoID; videos.find(id) != nil {
			statistics.touch(id, now)
			saved.Statistics++
		}
	}
}

// work returns the record of a unit of work. It adds a missing record.
func (r *sketchRun) work(work, region string) *catalog.WorkRecord {
	run := &r.s.runs[r.id-1]
	for i := range run.Work {
		if run.Work[i].Work == work {
			return &run.Work[i]
		}
	}
	run.Work = append(run.Work, catalog.WorkRecord{Work: work, Region: region})
	return &run.Work[len(run.Work)-1]
}

func (r *sketchRun) Restart(_ context.Context, work string) (cur catalog.Cursor, err error) {
	err = r.change("restart "+work, func() error {
		cur = r.s.cursor(r.job, work)
		cur.Restart()
		r.s.saveCursor(cur)
		return nil
	})
	return cur, err
}

func (r *sketchRun) EndWork(_ context.Context, work, region string, o catalog.Outcome) error {
	return r.change("end "+work, func() error {
		cur := r.s.cursor(r.job, work)
		cur.End(o)
		r.s.saveCursor(cur)
		w := r.work(work, region)
		w.State, w.EndedAt, w.ResumeAt, w.Error = o.State, r.s.clock.Now(), o.ResumeAt, o.Error
		w.Units += o.Units
		w.Charges.Add(o.Charges)
		return nil
	})
}

func (r *sketchRun) End(_ context.Context, o catalog.Outcome) error {
	return r.change("end a run", func() error {
		run := &r.s.runs[r.id-1]
		run.State, run.EndedAt, run.ResumeAt, run.Error = o.State, r.s.clock.Now(), o.ResumeAt, o.Error
		return nil
	})
}
