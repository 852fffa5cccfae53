package plan

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

type sketchRun struct {
	*Sketch
	id  int64
	job string
}

// abandoned is the error of a run that never ended.
const abandoned = "its process ended before it did"

// Begin implements [ingest.Catalog].
func (s *Sketch) Begin(_ context.Context, start catalog.Start) (catalog.Run, error) {
	now := s.clock.Now()
	for i := len(s.runs) - 1; i >= 0; i-- {
		if last := &s.runs[i]; last.Job == start.Job { // no other run can still be running
			if last.State == catalog.Running {
				last.State, last.EndedAt, last.Error = catalog.Failed, now, abandoned
			}
			break
		}
	}
	id := int64(len(s.runs)) + 1
	s.runs = append(s.runs, catalog.RunRecord{ID: id, Job: start.Job, Scheduled: start.Scheduled, StartedAt: now, State: catalog.Running})
	return &sketchRun{s, id, start.Job}, nil
}

// Save implements [catalog.Run].
func (r *sketchRun) Save(_ context.Context, p *catalog.Page) (saved catalog.Saved, err error) {
	if err := p.Check(r.job); err != nil {
		return saved, fmt.Errorf("save a page of %s: %w", r.job, err)
	}
	cur := r.cursor(p.Cursor.Job, p.Cursor.Work)
	if saved.Repeated, err = cur.Check(&p.Cursor); err != nil || saved.Repeated {
		saved.Cursor = cur
		return saved, err
	}
	now := r.clock.Now().UTC().Truncate(time.Microsecond)
	if err := r.saveChart(p, now); err != nil {
		return saved, err
	}
	r.saveRows(p, &saved, now)
	cur.Advance(p, now)
	saved.Cursor = cur
	r.saveCursor(cur)
	r.worked(p.Cursor.Work, p.Region)
	return saved, nil
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

// worked records a unit of work of the run. A schedule depends on none of its numbers.
func (r *sketchRun) worked(work, region string) {
	run := &r.runs[r.id-1]
	if !slices.ContainsFunc(run.Work, func(w catalog.WorkRecord) bool { return w.Work == work }) {
		run.Work = append(run.Work, catalog.WorkRecord{Work: work, Region: region})
	}
}

// Restart implements [catalog.Run].
func (r *sketchRun) Restart(_ context.Context, work string) (catalog.Cursor, error) {
	cur := r.cursor(r.job, work)
	cur.Restart()
	r.saveCursor(cur)
	return cur, nil
}

// EndWork implements [catalog.Run].
func (r *sketchRun) EndWork(_ context.Context, work, region string, o catalog.Outcome) error {
	cur := r.cursor(r.job, work)
	cur.End(o)
	r.saveCursor(cur)
	r.worked(work, region)
	return nil
}

// End implements [catalog.Run].
func (r *sketchRun) End(_ context.Context, o catalog.Outcome) error {
	run := &r.runs[r.id-1]
	run.State, run.EndedAt, run.ResumeAt, run.Error = o.State, r.clock.Now(), o.ResumeAt, o.Error
	return nil
}
