package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Cursor says how far a unit of work has got. A unit of work is fetched in passes,
// each of one page or more; what is incremental begins a pass where the last one
// that was completed had got.
type Cursor struct {
	Job  string `json:"job"`
	Work string `json:"work"` // the unit of work, as the job names it

	Pass  int64  `json:"pass"`            // how many are over
	Page  int64  `json:"page"`            // of this pass, how many are saved
	Token string `json:"token,omitempty"` // asks for the next page; empty at the beginning of a pass

	Since time.Time `json:"since,omitzero"` // where this pass began, as its first page said
	High  time.Time `json:"high,omitzero"`  // the latest that this pass has met
	Mark  time.Time `json:"mark,omitzero"`  // up to here all is fetched: the High of passes that are over

	SavedAt     time.Time `json:"saved_at,omitzero"`     // its last page; zero is never
	CompletedAt time.Time `json:"completed_at,omitzero"` // its last pass; zero is never
	ResumeAt    time.Time `json:"resume_at,omitzero"`    // it was deferred until then; zero is not
	BlockedOn   string    `json:"blocked_on,omitempty"`  // by a block of this pool, which may be lifted before; empty is none
}

// Begun reports whether a pass is under way.
func (cur Cursor) Begun() bool { return cur.Page > 0 }

// Cursor returns how far a unit of work has got. One that is not known has got
// nowhere.
func (c *Catalog) Cursor(ctx context.Context, job, work string) (Cursor, error) {
	cur := Cursor{Job: job, Work: work}
	err := c.patiently(ctx, func() error {
		return cur.scan(c.read.QueryRowContext(ctx, statement("cursor_find").text(), job, work))
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return cur, c.fault("read", err)
}

// Cursors returns the cursors of a job, or of all jobs if it is empty, stalest
// first: those whose last completed pass is the longest ago.
func (c *Catalog) Cursors(ctx context.Context, job string) (all []Cursor, err error) {
	err = c.each(ctx, func(rows *sql.Rows) error {
		var cur Cursor
		err := cur.scan(rows)
		all = append(all, cur)
		return err
	}, `SELECT job, work, pass, page, token, since, high, mark, saved_at, completed_at, resume_at, blocked_on FROM cursors
		WHERE ?1 = '' OR job = ?1 ORDER BY completed_at, job, work`, job)
	return all, err
}

// Reset forgets how far a unit of work has got; what was fetched stays.
func (c *Catalog) Reset(ctx context.Context, job, work string) error {
	return c.fault("reset "+job+" "+work+" in", c.change(ctx, func(tx *tx) error {
		_, err := tx.exec("cursor_reset", job, work)
		return err
	}))
}

// scan reads the columns of a cursor.
func (cur *Cursor) scan(row interface{ Scan(...any) error }) error {
	var since, high, mark, saved, completed, resume int64
	err := row.Scan(&cur.Job, &cur.Work, &cur.Pass, &cur.Page, &cur.Token, &since, &high, &mark, &saved, &completed, &resume, &cur.BlockedOn)
	if err != nil {
		return err
	}
	cur.Since, cur.High, cur.Mark = moment(since), moment(high), moment(mark)
	cur.SavedAt, cur.CompletedAt, cur.ResumeAt = moment(saved), moment(completed), moment(resume)
	return nil
}

// cursor reads a cursor within the transaction.
func (t *tx) cursor(job, work string) (Cursor, error) {
	cur := Cursor{Job: job, Work: work}
	err := cur.scan(t.stmt("cursor_find").QueryRowContext(t.ctx, job, work)) //nolint:sqlclosecheck // the transaction does
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return cur, err
}

// saveCursor writes a cursor.
func (t *tx) saveCursor(cur *Cursor) error {
	_, err := t.exec("cursor_save", cur.Job, cur.Work, cur.Pass, cur.Page, cur.Token, micros(cur.Since), micros(cur.High),
		micros(cur.Mark), micros(cur.SavedAt), micros(cur.CompletedAt), micros(cur.ResumeAt), cur.BlockedOn)
	return err
}

// longestCall is how long a page may have taken to come, with some to spare.
const longestCall = 5 * time.Minute

// advance moves a cursor past a page.
func (cur *Cursor) advance(p *Page, now time.Time) {
	if !cur.Begun() {
		cur.Since, cur.High = p.Since, time.Time{}
	}
	high := p.High
	if high.After(now) { // it would hide what is published until then
		high = now.Add(-longestCall)
	}
	if high.After(cur.High) {
		cur.High = high
	}
	cur.Page++
	cur.Token, cur.SavedAt = p.Next, now
	cur.end(Outcome{State: Done})
	if p.Done {
		cur.CompletedAt = now
		if cur.High.After(cur.Mark) {
			cur.Mark = cur.High
		}
		cur.rewind()
	}
}

// end notes how the work ended: if it is not done, when it goes on.
func (cur *Cursor) end(o Outcome) {
	cur.ResumeAt, cur.BlockedOn = o.ResumeAt, o.BlockedOn
	if o.State == Done {
		cur.ResumeAt, cur.BlockedOn = time.Time{}, ""
	}
}

// rewind ends a pass, whether it is complete or not.
func (cur *Cursor) rewind() {
	cur.Pass++
	cur.Page, cur.Token, cur.Since, cur.High = 0, "", time.Time{}, time.Time{}
}

// step says whether a page is the next one, one that is saved already, or neither.
func (cur *Cursor) step(at *Cursor) (repeated bool, err error) {
	switch {
	case at.Pass == cur.Pass && at.Page == cur.Page:
		return false, nil
	case at.Pass < cur.Pass, at.Pass == cur.Pass && at.Page < cur.Page:
		return true, nil
	}
	return false, fmt.Errorf("page %d of pass %d: %w: the catalog is at page %d of pass %d", at.Page, at.Pass, ErrOutOfStep, cur.Page, cur.Pass)
}
