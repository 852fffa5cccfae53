package jobs

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// held is the state of a job that another process runs. The catalog does not have it,
// because this process made no run.
const held catalog.State = "held"

// RunView is the result of a run, in JSON.
type RunView struct {
	Job       string          `json:"job"`
	State     catalog.State   `json:"state"`
	Scheduled time.Time       `json:"scheduled_at,omitzero"`
	StartedAt time.Time       `json:"started_at,omitzero"`
	EndedAt   time.Time       `json:"ended_at,omitzero"`
	NextAt    time.Time       `json:"next_at,omitzero"` // deferred work resumes, or the job is due again
	Units     int64           `json:"units"`            // of all pools
	Charges   catalog.Charges `json:"charges,omitempty"`
	Error     string          `json:"error,omitempty"`
	Regions   []regionView    `json:"regions"`

	code int // the exit code
}

// regionView is the result for a region, or for work without a region.
type regionView struct {
	Region  string          `json:"region,omitempty"`
	Work    string          `json:"work,omitempty"` // if it has no region
	Pages   int             `json:"pages"`
	New     int             `json:"new"`
	Updated int             `json:"updated"`
	Units   int64           `json:"units"`
	Charges catalog.Charges `json:"charges,omitempty"`
	State   catalog.State   `json:"state"`
	NextAt  time.Time       `json:"next_at,omitzero"`
	Error   string          `json:"error,omitempty"`
}

func summary(j *ingest.Job, rep *ingest.Report, err error, now time.Time) *RunView {
	r := &RunView{Job: j.Name, Regions: []regionView{}}
	due := j.Schedule().Next(now)
	if err != nil {
		r.State, r.Error, r.code = catalog.Failed, err.Error(), console.ExitCode(err)
		switch {
		case errors.Is(err, ingest.ErrHeld):
			r.State = held
		case r.code == console.ExitDeferred:
			r.State = catalog.Deferred
		}
		return r
	}
	r.State, r.Scheduled, r.StartedAt, r.EndedAt = rep.State, rep.Scheduled, rep.Started, rep.Ended
	r.Units, r.code = rep.Units, console.ReportCode(rep)
	if rep.Err != nil {
		r.Error = rep.Err.Error()
	} else if rep.State == catalog.Skipped {
		r.Error = rep.Outcome().Error
	}
	if r.NextAt = rep.ResumeAt; r.NextAt.IsZero() {
		r.NextAt = due
	}
	at := map[string]int{}
	for i := range rep.Work {
		w := &rep.Work[i]
		name := cmp.Or(w.Region, w.Work)
		if _, there := at[name]; !there {
			at[name] = len(r.Regions)
			one := regionView{Region: w.Region, State: catalog.Done}
			if w.Region == "" {
				one.Work = w.Work
			}
			r.Regions = append(r.Regions, one)
		}
		r.Regions[at[name]].add(w, due)
		r.Charges.Add(w.Charges)
	}
	return r
}

// add adds a unit of work of the region. The region takes the worst state and the earliest
// next time.
func (r *regionView) add(w *ingest.WorkReport, due time.Time) {
	r.Pages += w.Pages
	r.New += w.New
	r.Updated += w.Updated
	r.Units += w.Units
	r.Charges.Add(w.Charges)
	if w.State == catalog.Failed || w.State == catalog.Deferred && r.State == catalog.Done {
		r.State = w.State
	}
	next := due
	if !w.ResumeAt.IsZero() {
		next = w.ResumeAt
	}
	if r.NextAt.IsZero() || next.Before(r.NextAt) {
		r.NextAt = next
	}
	if w.Err != nil && r.Error == "" {
		r.Error = w.Err.Error()
	}
}

// RunList are runs in JSON.
type RunList struct {
	Runs []*RunView `json:"runs"`
}

// tellRun writes the result of a run of the daemon. In JSON each run has a line of its own,
// for programs that read along. A table is for a terminal. Elsewhere the result is a line of the log,
// because systemd and containers put both outputs into one stream.
func tellRun(a *session.Session, r *RunView) error {
	switch {
	case a.Output == "json":
		return json.NewEncoder(a.Stdout).Encode(RunList{[]*RunView{r}})
	case !console.IsTerminal(a.Stdout):
		if !r.StartedAt.IsZero() { // or the daemon has logged why no run was made
			r.log(a.Log)
		}
		return nil
	}
	return showRuns(a, []*RunView{r})
}

// log writes the result as a line of the log. What went wrong has lines of its own.
func (r *RunView) log(to *slog.Logger) {
	var pages, fresh, updated int
	for i := range r.Regions {
		pages, fresh, updated = pages+r.Regions[i].Pages, fresh+r.Regions[i].New, updated+r.Regions[i].Updated
	}
	to.Info("run ended", "job", r.Job, "state", r.State, "regions", len(r.Regions), "pages", pages, "new", fresh, "updated", updated, "units", r.Units, "charges", r.Charges, "next", r.NextAt)
}

// showRuns writes the results of runs to standard output. With --quiet it writes nothing,
// because problems are in the log.
func showRuns(a *session.Session, all []*RunView) error {
	if a.Output == "json" {
		return a.Print(RunList{all}, nil)
	}
	if a.Quiet || len(all) == 0 {
		return nil
	}
	return a.Print(nil, func(s *console.Sheet) {
		var works []catalog.WorkRecord
		for _, r := range all {
			for _, w := range r.Regions {
				works = append(works, catalog.WorkRecord{Units: w.Units, Charges: w.Charges})
			}
		}
		spent := view.ColumnsOf(works...)
		t := view.Table{Columns: slices.Concat([]view.Column{
			{Name: "job", Long: true}, {Name: "region", Long: true}, {Name: "pages", Number: true, Spare: true}, {Name: "new", Number: true}, {Name: "updated", Number: true, Spare: true},
		}, spent.Columns(), []view.Column{{Name: "state"}, {Name: "next"}})}
		for _, r := range all {
			if len(r.Regions) == 0 {
				t.Rows = append(t.Rows, slices.Concat([]any{r.Job}, make([]any, len(t.Columns)-3), []any{view.StateOf(r.State), r.NextAt}))
			}
			for _, w := range r.Regions {
				cells := []any{r.Job, cmp.Or(w.Region, w.Work), int64(w.Pages), int64(w.New), int64(w.Updated)}
				t.Rows = append(t.Rows, slices.Concat(cells, spent.Cells(&works[0]), []any{view.StateOf(w.State), w.NextAt}))
				works = works[1:]
			}
		}
		s.View(t)
	})
}
