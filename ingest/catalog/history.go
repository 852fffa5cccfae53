package catalog

import (
	"context"
	"time"
)

// RunRecord is a run in the history.
type RunRecord struct {
	ID        int64        `json:"id"`
	Job       string       `json:"job"`
	Scheduled time.Time    `json:"scheduled_at,omitzero"` // zero if a person started it
	StartedAt time.Time    `json:"started_at"`
	EndedAt   time.Time    `json:"ended_at,omitzero"` // zero until it ends
	State     State        `json:"state"`
	ResumeAt  time.Time    `json:"resume_at,omitzero"`
	Error     string       `json:"error,omitempty"`
	Work      []WorkRecord `json:"work"`
}

// WorkRecord is the part of a run that belongs to one unit of work.
type WorkRecord struct {
	Work       string    `json:"work"`
	Region     string    `json:"region,omitempty"`
	Pages      int       `json:"pages"`
	Units      int64     `json:"units"`
	New        int       `json:"new"`
	Updated    int       `json:"updated"`
	Unchanged  int       `json:"unchanged"`
	Statistics int       `json:"statistics"`
	Gone       int       `json:"gone"`
	State      State     `json:"state"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	ResumeAt   time.Time `json:"resume_at,omitzero"`
	Error      string    `json:"error,omitempty"`
	Cause      string    `json:"cause,omitempty"`   // why it stopped, in a word: refused, blocked, outage and so on
	Pool       string    `json:"pool,omitempty"`    // which lacked units or was blocked
	Refused    int64     `json:"refused,omitempty"` // calls that the ledger refused
}

// RunsQuery selects runs.
type RunsQuery struct {
	Job    string // empty selects all
	Before int64  // selects runs with a lower ID; zero selects all
	Limit  int    // largest number of runs; zero is 20

	Made bool      // leaves out times that were skipped
	Due  time.Time // if not zero, only runs that were due, at the latest then
	Bare bool      // leaves out the work
}

// DefaultRuns is the limit of a query that sets none.
const DefaultRuns = 20

// Runs returns runs, the latest first. Their work is sorted by name.
func (e *Engine) Runs(ctx context.Context, q RunsQuery) (all []RunRecord, err error) {
	if q.Limit <= 0 {
		q.Limit = DefaultRuns
	}
	query := "runs_of_job"
	if q.Job == "" { // a condition that also allows all jobs would not use the index
		query = "runs_find"
	}
	all, err = list(ctx, e, func(r *RunRecord) []any {
		return []any{&r.ID, &r.Job, &r.Scheduled, &r.StartedAt, &r.EndedAt, (*string)(&r.State), &r.ResumeAt, &r.Error}
	}, query, q.Job, q.Before, q.Limit, q.Made, q.Due)
	if err != nil || len(all) == 0 || q.Bare {
		return all, err
	}
	var ids []int64
	byID := map[int64]*RunRecord{}
	for i := range all {
		ids = append(ids, all[i].ID)
		byID[all[i].ID] = &all[i]
	}
	err = e.each(ctx, func(scan Scan) error {
		var w WorkRecord
		var run int64
		err := scan(&run, &w.Work, &w.Region, &w.Pages, &w.Units, &w.New, &w.Updated, &w.Unchanged, &w.Statistics, &w.Gone,
			(*string)(&w.State), &w.EndedAt, &w.ResumeAt, &w.Error, &w.Cause, &w.Pool, &w.Refused)
		if err == nil {
			byID[run].Work = append(byID[run].Work, w)
		}
		return err
	}, "work_find", ids)
	return all, err
}
