package catalog

import (
	"context"
	"database/sql"
	"time"
)

// RunRecord is a run as history has it.
type RunRecord struct {
	ID        int64        `json:"id"`
	Job       string       `json:"job"`
	Scheduled time.Time    `json:"scheduled_at,omitzero"` // zero: a person began it
	StartedAt time.Time    `json:"started_at"`
	EndedAt   time.Time    `json:"ended_at,omitzero"` // zero is not yet
	State     State        `json:"state"`
	ResumeAt  time.Time    `json:"resume_at,omitzero"`
	Error     string       `json:"error,omitempty"`
	Work      []WorkRecord `json:"work"`
}

// WorkRecord is what a run did for one unit of work.
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
}

// RunsQuery says which runs are asked for.
type RunsQuery struct {
	Job    string // empty is all
	Before int64  // only those with a lower ID; zero is all
	Limit  int    // zero is 20
}

const defaultRuns = 20

// Runs returns runs, the latest first, each with its work in order of name.
func (c *Catalog) Runs(ctx context.Context, q RunsQuery) (all []RunRecord, err error) {
	if q.Limit <= 0 {
		q.Limit = defaultRuns
	}
	byID := map[int64]int{}
	err = c.each(ctx, func(rows *sql.Rows) error {
		var r RunRecord
		var scheduled, started, ended, resume int64
		if err := rows.Scan(&r.ID, &r.Job, &scheduled, &started, &ended, &r.State, &resume, &r.Error); err != nil {
			return err
		}
		r.Scheduled, r.StartedAt, r.EndedAt, r.ResumeAt = moment(scheduled), moment(started), moment(ended), moment(resume)
		byID[r.ID] = len(all)
		all = append(all, r)
		return nil
	}, `SELECT id, job, scheduled_at, started_at, ended_at, state, resume_at, error FROM runs
		WHERE (?1 = '' OR job = ?1) AND (?2 = 0 OR id < ?2) ORDER BY id DESC LIMIT ?3`, q.Job, q.Before, q.Limit)
	if err != nil || len(all) == 0 {
		return all, err
	}
	err = c.each(ctx, func(rows *sql.Rows) error {
		var w WorkRecord
		var run, ended, resume int64
		err := rows.Scan(&run, &w.Work, &w.Region, &w.Pages, &w.Units, &w.New, &w.Updated, &w.Unchanged, &w.Statistics, &w.Gone,
			&w.State, &ended, &resume, &w.Error)
		w.EndedAt, w.ResumeAt = moment(ended), moment(resume)
		if i, ok := byID[run]; ok {
			all[i].Work = append(all[i].Work, w)
		}
		return err
	}, `SELECT run, work, region, pages, units, new, updated, unchanged, statistics, gone, state, ended_at, resume_at, error
		FROM run_work WHERE run BETWEEN ? AND ? ORDER BY run, work`, all[len(all)-1].ID, all[0].ID)
	return all, err
}
