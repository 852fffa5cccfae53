package catalog

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
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

// Ready returns an error if the catalog cannot be read. Searches do not keep it waiting.
func (c *Catalog) Ready(ctx context.Context) error {
	return c.file.Probe(ctx, func(s *sqlitefile.Session) error {
		_, err := s.One("SELECT id FROM runs ORDER BY id DESC LIMIT 1")
		return err
	})
}

// Version returns a number that changes with each commit to the file, by any process. What
// was read since it was returned is true until it changes. Only numbers of the same Catalog
// can be compared.
func (c *Catalog) Version(ctx context.Context) (int64, error) { return c.file.Version(ctx) }

// DefaultRuns is the limit of a query that sets none.
const DefaultRuns = 20

// Runs returns runs, the latest first. Their work is sorted by name.
func (c *Catalog) Runs(ctx context.Context, q RunsQuery) (all []RunRecord, err error) {
	if q.Limit <= 0 {
		q.Limit = DefaultRuns
	}
	job, args := "", []driver.Value{q.Before, q.Limit}
	if q.Job != "" { // a condition that also allows all jobs would not use the index
		job, args = "job = ?3 AND ", append(args, q.Job)
	}
	if q.Made {
		job += "state <> 'skipped' AND "
	}
	if !q.Due.IsZero() {
		args = append(args, q.Due)
		job += fmt.Sprintf("scheduled_at BETWEEN 1 AND ?%d AND ", len(args))
	}
	var ids []int64
	byID := map[int64]int{}
	err = c.each(ctx, func(row sqlitefile.Row) error {
		var r RunRecord
		err := row.Scan(&r.ID, &r.Job, &r.Scheduled, &r.StartedAt, &r.EndedAt, (*string)(&r.State), &r.ResumeAt, &r.Error)
		byID[r.ID] = len(all)
		ids, all = append(ids, r.ID), append(all, r)
		return err
	}, `SELECT id, job, scheduled_at, started_at, ended_at, state, resume_at, error FROM runs
		WHERE `+job+`(?1 = 0 OR id < ?1) ORDER BY id DESC LIMIT ?2`, args...)
	if err != nil || len(all) == 0 || q.Bare {
		return all, err
	}
	err = c.each(ctx, func(row sqlitefile.Row) error {
		var w WorkRecord
		var run int64
		err := row.Scan(&run, &w.Work, &w.Region, &w.Pages, &w.Units, &w.New, &w.Updated, &w.Unchanged, &w.Statistics, &w.Gone,
			(*string)(&w.State), &w.EndedAt, &w.ResumeAt, &w.Error, &w.Cause, &w.Pool, &w.Refused)
		all[byID[run]].Work = append(all[byID[run]].Work, w)
		return err
	}, `SELECT run, work, region, pages, units, new, updated, unchanged, statistics, gone, state, ended_at, resume_at, error, cause, pool, refused
		FROM run_work WHERE run IN (SELECT value FROM json_each(?)) ORDER BY run, work`, jsonList(ids))
	return all, err
}
