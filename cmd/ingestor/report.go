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

// held is the state of a job that another process runs; the catalog has no word for
// it, as it was not this one's run.
const held catalog.State = "held"

// ran is what came of a run, for those who read it.
type ran struct {
	Job       string        `json:"job"`
	State     catalog.State `json:"state"`
	Scheduled time.Time     `json:"scheduled_at,omitzero"`
	StartedAt time.Time     `json:"started_at,omitzero"`
	EndedAt   time.Time     `json:"ended_at,omitzero"`
	NextAt    time.Time     `json:"next_at,omitzero"` // it goes on, or is due again
	Units     int64         `json:"units"`
	Error     string        `json:"error,omitempty"`
	Regions   []ranRegion   `json:"regions"`

	code int // as which the program exits
}

// ranRegion is what a run did for a region, or for work that belongs to none.
type ranRegion struct {
	Region  string        `json:"region,omitempty"`
	Work    string        `json:"work,omitempty"` // if it belongs to no region
	Pages   int           `json:"pages"`
	New     int           `json:"new"`
	Updated int           `json:"updated"`
	Units   int64         `json:"units"`
	State   catalog.State `json:"state"`
	NextAt  time.Time     `json:"next_at,omitzero"`
	Error   string        `json:"error,omitempty"`
}

// summary says what came of a run, by region.
func summary(j *ingest.Job, rep *ingest.Report, err error, now time.Time) *ran {
	r := &ran{Job: j.Name, Regions: []ranRegion{}}
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
			one := ranRegion{Region: w.Region, State: catalog.Done}
			if w.Region == "" {
				one.Work = w.Work
			}
			r.Regions = append(r.Regions, one)
		}
		r.Regions[at[name]].add(w, due)
	}
	return r
}

// add adds a unit of work of the region: the worst state is that of the region, and
// the earliest time its next.
func (r *ranRegion) add(w *ingest.WorkReport, due time.Time) {
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

// runsView are runs in JSON.
type runsView struct {
	Runs []*ran `json:"runs"`
}

// tell writes what came of a run of the daemon: in JSON on a line of its own, so that
// who reads along knows where it ends.
func (a *app) tell(r *ran) error {
	if a.output == "json" {
		return json.NewEncoder(a.stdout).Encode(runsView{[]*ran{r}})
	}
	return a.show([]*ran{r})
}

// show writes what came of runs to standard output. Quiet shows problems only, and
// those are in the log.
func (a *app) show(all []*ran) error {
	if a.output == "json" {
		return a.print(runsView{all}, nil)
	}
	if a.quiet || len(all) == 0 {
		return nil
	}
	return a.print(nil, func(s *sheet) { s.regionTable(all) })
}

// regionTable has a row for each region of runs.
func (s *sheet) regionTable(all []*ran) {
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
