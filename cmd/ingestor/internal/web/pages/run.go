package pages

import (
	"html/template"
	"net/http"
	"slices"
	"strconv"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// runsPage is the data of the template runs.html.
type runsPage struct {
	Page
	Runs   timeline
	Unread bool
}

// Runs serves the runs of the last 24 hours and the schedules: /runs.
func (b *Board) Runs(w http.ResponseWriter, r *http.Request) {
	src := b.sources()
	s := b.read(r.Context(), &src)
	b.show(w, r, http.StatusOK, "runs", &runsPage{s.judged("Runs", "/runs"), s.timeline(), s.Unread != nil})
}

// runsInShort says how the last run ended.
func (s *state) runsInShort() sentence {
	if len(s.runs) == 0 {
		return nil
	}
	r := &s.runs[0]
	return say("The last run, ", r.Job, " at ", s.Moment(r.StartedAt), ", is ", stateWord(r.State), ". It spent ", count(view.Total(r).Units, "unit"))
}

// stateWord returns a state in a word that follows "is" or stands alone.
func stateWord(st catalog.State) string {
	if st == catalog.Running {
		return "under way"
	}
	return string(st)
}

// runPath returns the address of the page of a run.
func runPath(id int64) string { return "/runs/" + strconv.FormatInt(id, 10) }

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
	Next                 *moment // nil: not known, or never
	Says                 sentence
}

// latest is the number of runs in the table.
const latest = 12

func (s *state) timeline() timeline {
	t := timeline{Wide: s.drawRuns(760), Narrow: s.drawRuns(340), Partial: s.partial}
	if len(s.runs) > 0 {
		t.Latest = s.runTable(s.runs[:min(len(s.runs), latest)])
	}
	t.Jobs = s.outlooks()
	return t
}

// outlooks returns a row for each job: when it runs next, and whether it can.
func (s *state) outlooks() (all []jobRow) {
	for _, j := range s.Jobs {
		o := s.Outlook(j)
		row := jobRow{Name: j.Name, Schedule: j.Schedule().String(), Says: o.Says}
		if !o.At.IsZero() {
			at := s.Moment(o.At)
			row.Next = &at
		}
		row.Cost = count(j.Cost.Units, "unit")
		switch {
		case j.Cost.Unknown:
			row.Cost = "not known yet"
		case j.Cost.Runs == 0:
			row.Cost = "not known yet, at most " + row.Cost
		}
		all = append(all, row)
	}
	return all
}

// runTable returns the table of runs: the columns of the view with links, and why each
// stopped.
func (s *state) runTable(runs []catalog.RunRecord) *table {
	t := view.RunTable(runs)
	for i := range runs {
		for k, c := range t.Columns {
			if c.Name == "job" {
				t.Rows[i][k] = link{text: runs[i].Job, to: runPath(runs[i].ID), id: "run-" + strconv.FormatInt(runs[i].ID, 10)}
			}
		}
		t.Rows[i] = append(t.Rows[i], s.whyRun(&runs[i]))
	}
	t.Columns = append(t.Columns, view.Column{Name: "why", Long: true})
	return s.table("The latest runs", false, t)
}

// jobNames names the jobs of the timeline: the configured ones and those that ran.
func (s *state) jobNames() (names []string) {
	for _, j := range s.Jobs {
		names = append(names, j.Name)
	}
	for i := range s.runs {
		names = append(names, s.runs[i].Job)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
