package pages

import (
	"html/template"
	"slices"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/web/view"
)

// timeline is what runs did.
type timeline struct {
	Wide, Narrow template.HTML
	Latest       []runRow
	Jobs         []jobRow
	Partial      bool // there were more than could be shown
}

// runRow is a run.
type runRow struct {
	ID           int64
	Job          string
	Started      moment
	Took         string
	Level        level
	State        string
	Units, Pages string
	New, Updated string
	Why          string
	GoesOn       *moment
}

// jobRow is a job with its schedule.
type jobRow struct {
	Name, Schedule, Cost string
	Next                 *moment
	Methods              string
}

// latest is how many runs the table has.
const latest = 12

func (s *state) timeline() timeline {
	t := timeline{Wide: s.drawRuns(980), Narrow: s.drawRuns(340), Partial: s.partial}
	for i := range s.runs[:min(len(s.runs), latest)] {
		t.Latest = append(t.Latest, s.runRow(&s.runs[i]))
	}
	for _, j := range s.jobs {
		row := jobRow{Name: j.Name, Schedule: j.Schedule().String()}
		if !j.next.IsZero() {
			at := s.at(j.next)
			row.Next = &at
		}
		row.Cost = count(j.cost.units, "unit")
		switch {
		case j.cost.unknown:
			row.Cost = "nobody knows yet"
		case j.cost.runs == 0:
			row.Cost = "not known yet, at most " + row.Cost
		}
		t.Jobs = append(t.Jobs, row)
	}
	return t
}

func (s *state) runRow(r *catalog.RunRecord) runRow {
	row := runRow{ID: r.ID, Job: r.Job, Started: s.at(r.StartedAt), State: string(r.State), Level: levelOf(r.State), Why: r.Error, Units: view.Number(units(r))}
	if !r.EndedAt.IsZero() {
		row.Took = span(r.EndedAt.Sub(r.StartedAt))
	}
	var pages, added, updated int64
	for _, w := range r.Work {
		pages, added, updated = pages+int64(w.Pages), added+int64(w.New), updated+int64(w.Updated)
		if row.Why == "" && w.State != catalog.Done {
			row.Why = w.Work + ": " + w.Error
		}
	}
	row.Pages, row.New, row.Updated = view.Number(pages), view.Number(added), view.Number(updated)
	if r.ResumeAt.After(s.now) {
		at := s.at(r.ResumeAt)
		row.GoesOn = &at
	}
	return row
}

func levelOf(st catalog.State) level {
	switch st {
	case catalog.Failed:
		return bad
	case catalog.Deferred:
		return warn
	}
	return good
}

// rows are the jobs of the timeline: those of the configuration, and those that ran.
func (s *state) rows() (names []string) {
	for _, j := range s.jobs {
		names = append(names, j.Name)
	}
	for i := range s.runs {
		names = append(names, s.runs[i].Job)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
