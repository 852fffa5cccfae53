package pages

import (
	"html/template"
	"slices"

	"github.com/headroom-quota/headroom/internal/web/view"
)

// timeline is the data of the section on runs.
type timeline struct {
	Wide, Narrow template.HTML
	Latest       *table
	Jobs         []jobRow
	Partial      bool // whether the oldest runs are left out
}

// jobRow is a row of the table of jobs.
type jobRow struct {
	Name, Schedule, Cost string
	Next                 *moment
	Methods              string
}

// latest is the number of runs in the table.
const latest = 12

func (s *state) timeline() timeline {
	t := timeline{Wide: s.drawRuns(980), Narrow: s.drawRuns(340), Partial: s.partial}
	if len(s.runs) > 0 {
		t.Latest = s.table("The latest runs", false, view.RunTable(s.runs[:min(len(s.runs), latest)]))
	}
	for _, j := range s.jobs {
		row := jobRow{Name: j.Name, Schedule: j.Schedule().String()}
		if !j.next.IsZero() {
			at := s.moment(j.next)
			row.Next = &at
		}
		row.Cost = count(j.cost.units, "unit")
		switch {
		case j.cost.unknown:
			row.Cost = "not known yet"
		case j.cost.runs == 0:
			row.Cost = "not known yet, at most " + row.Cost
		}
		t.Jobs = append(t.Jobs, row)
	}
	return t
}

// jobNames names the jobs of the timeline: the configured ones and those that ran.
func (s *state) jobNames() (names []string) {
	for _, j := range s.jobs {
		names = append(names, j.Name)
	}
	for i := range s.runs {
		names = append(names, s.runs[i].Job)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
