package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/web/view"
)

// held is the state of a job that another process runs. The catalog does not have it,
// because this process made no run.
const held catalog.State = "held"

// runView is the result of a run, in JSON.
type runView struct {
	Job       string        `json:"job"`
	State     catalog.State `json:"state"`
	Scheduled time.Time     `json:"scheduled_at,omitzero"`
	StartedAt time.Time     `json:"started_at,omitzero"`
	EndedAt   time.Time     `json:"ended_at,omitzero"`
	NextAt    time.Time     `json:"next_at,omitzero"` // deferred work resumes, or the job is due again
	Units     int64         `json:"units"`
	Error     string        `json:"error,omitempty"`
	Regions   []regionView  `json:"regions"`

	code int // the exit code
}

// regionView is the result for a region, or for work without a region.
type regionView struct {
	Region  string        `json:"region,omitempty"`
	Work    string        `json:"work,omitempty"` // if it has no region
	Pages   int           `json:"pages"`
	New     int           `json:"new"`
	Updated int           `json:"updated"`
	Units   int64         `json:"units"`
	State   catalog.State `json:"state"`
	NextAt  time.Time     `json:"next_at,omitzero"`
	Error   string        `json:"error,omitempty"`
}

// summary returns the result of a run, by region.
func summary(j *ingest.Job, rep *ingest.Report, err error, now time.Time) *runView {
	r := &runView{Job: j.Name, Regions: []regionView{}}
	due := j.Schedule().Next(now)
	if err != nil {
		r.State, r.Error, r.code = catalog.Failed, err.Error(), exitCode(err)
		switch {
		case errors.Is(err, ingest.ErrHeld):
			r.State = held
		case r.code == exitDeferred:
			r.State = catalog.Deferred
		}
		return r
	}
	r.State, r.Scheduled, r.StartedAt, r.EndedAt = rep.State, rep.Scheduled, rep.Started, rep.Ended
	r.Units, r.code = rep.Units, reportCode(rep)
	if rep.Err != nil {
		r.Error = rep.Err.Error()
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

// runList are runs in JSON.
type runList struct {
	Runs []*runView `json:"runs"`
}

// tell writes the result of a run of the daemon. In JSON each run has a line of its own,
// for programs that read along.
func (a *app) tell(r *runView) error {
	if a.output == "json" {
		return json.NewEncoder(a.stdout).Encode(runList{[]*runView{r}})
	}
	return a.show([]*runView{r})
}

// show writes the results of runs to standard output. With --quiet it writes nothing,
// because problems are in the log.
func (a *app) show(all []*runView) error {
	if a.output == "json" {
		return a.print(runList{all}, nil)
	}
	if a.quiet || len(all) == 0 {
		return nil
	}
	return a.print(nil, func(s *sheet) { s.regionTable(all) })
}

// regionTable has a row for each region of runs.
func (s *sheet) regionTable(all []*runView) {
	var rows [][]string
	for _, r := range all {
		if len(r.Regions) == 0 {
			rows = append(rows, []string{r.Job, "", "", "", "", "", s.state(r.State), stamp(r.NextAt)})
		}
		for _, w := range r.Regions {
			rows = append(rows, []string{
				r.Job, plain(cmp.Or(w.Region, w.Work)), view.Number(int64(w.Pages)), view.Number(int64(w.New)), view.Number(int64(w.Updated)),
				view.Number(w.Units), s.state(w.State), stamp(w.NextAt),
			})
		}
	}
	s.table([]column{
		{name: "job", long: true},
		{name: "region", long: true},
		{name: "pages", right: true},
		{name: "new", right: true},
		{name: "updated", right: true},
		{name: "units", right: true},
		{name: "state"},
		{name: "next"},
	}, rows)
}
