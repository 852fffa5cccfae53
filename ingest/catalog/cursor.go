package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// Cursor is the position of a unit of work. Work is fetched in passes of one or more
// pages. A pass of incremental work begins where the last complete pass ended.
type Cursor struct {
	Job  string `json:"job"`
	Work string `json:"work"` // the job's name for the unit of work

	Pass  int64  `json:"pass"`            // number of passes that ended
	Page  int64  `json:"page"`            // number of saved pages in this pass
	Token string `json:"token,omitempty"` // asks for the next page; empty at the start of a pass

	Since time.Time `json:"since,omitzero"` // where this pass begins, from its first page
	High  time.Time `json:"high,omitzero"`  // the latest time in this pass
	Mark  time.Time `json:"mark,omitzero"`  // everything up to here is fetched: the High of complete passes

	SavedAt     time.Time `json:"saved_at,omitzero"`     // when its last page was saved; zero if none was
	CompletedAt time.Time `json:"completed_at,omitzero"` // when its last pass was completed; zero if none was
	ResumeAt    time.Time `json:"resume_at,omitzero"`    // when deferred work resumes; zero if it is not deferred
	BlockedOn   string    `json:"blocked_on,omitempty"`  // the pool whose block defers it, until the block ends or is lifted
}

// Begun reports whether the current pass has a page.
func (cur Cursor) Begun() bool { return cur.Page > 0 }

// Cursor returns the position of a unit of work. For unknown work it returns the start
// of the first pass.
func (c *Catalog) Cursor(ctx context.Context, job, work string) (Cursor, error) {
	cur := Cursor{Job: job, Work: work}
	row, err := c.one(ctx, "cursor_find", job, work)
	if row != nil {
		err = cur.scan(row)
	}
	return cur, err
}

// Cursors returns the cursors of a job, or of all jobs if job is empty. The cursor whose
// last complete pass is oldest comes first.
func (c *Catalog) Cursors(ctx context.Context, job string) (all []Cursor, err error) {
	err = c.each(ctx, func(row sqlitefile.Row) error {
		var cur Cursor
		err := cur.scan(row)
		all = append(all, cur)
		return err
	}, `SELECT job, work, pass, page, token, since, high, mark, saved_at, completed_at, resume_at, blocked_on FROM cursors
		WHERE ?1 = '' OR job = ?1 ORDER BY completed_at, job, work`, job)
	return all, err
}

// Reset forgets the position of a unit of work. Fetched data stays.
func (c *Catalog) Reset(ctx context.Context, job, work string) error {
	return c.fault("reset "+job+" "+work+" in", c.change(ctx, func(tx *tx) error {
		_, err := tx.Exec("cursor_reset", job, work)
		return err
	}))
}

// scan reads the columns of a cursor.
func (cur *Cursor) scan(row sqlitefile.Row) error {
	return row.Scan(&cur.Job, &cur.Work, &cur.Pass, &cur.Page, &cur.Token, &cur.Since, &cur.High, &cur.Mark,
		&cur.SavedAt, &cur.CompletedAt, &cur.ResumeAt, &cur.BlockedOn)
}

// cursor reads a cursor within the transaction.
func (t *tx) cursor(job, work string) (Cursor, error) {
	cur := Cursor{Job: job, Work: work}
	row, err := t.One("cursor_find", job, work)
	if row != nil {
		err = cur.scan(row)
	}
	return cur, err
}

// saveCursor writes a cursor.
func (t *tx) saveCursor(cur *Cursor) error {
	_, err := t.Exec("cursor_save", cur.Job, cur.Work, cur.Pass, cur.Page, cur.Token, cur.Since, cur.High,
		cur.Mark, cur.SavedAt, cur.CompletedAt, cur.ResumeAt, cur.BlockedOn)
	return err
}

// longestCall is an upper bound of the time that fetching a page takes.
const longestCall = 5 * time.Minute

// Advance moves the cursor past a page that is saved now. Code that stores a catalog calls
// it, and also Check, End and Restart.
func (cur *Cursor) Advance(p *Page, now time.Time) {
	if !cur.Begun() {
		cur.Since, cur.High = p.Since, time.Time{}
	}
	high := p.High
	if high.After(now) { // it would hide everything that is published until then
		high = now.Add(-longestCall)
	}
	if high.After(cur.High) {
		cur.High = high
	}
	cur.Page++
	cur.Token, cur.SavedAt = p.Next, now
	cur.End(Outcome{State: Done})
	if p.Done {
		cur.CompletedAt = now
		if cur.High.After(cur.Mark) {
			cur.Mark = cur.High
		}
		cur.Restart()
	}
}

// End records the outcome of the work: when it resumes, unless it is done.
func (cur *Cursor) End(o Outcome) {
	cur.ResumeAt, cur.BlockedOn = o.ResumeAt, o.BlockedOn
	if o.State == Done {
		cur.ResumeAt, cur.BlockedOn = time.Time{}, ""
	}
}

// Restart ends the pass, complete or not, and begins the next one.
func (cur *Cursor) Restart() {
	cur.Pass++
	cur.Page, cur.Token, cur.Since, cur.High = 0, "", time.Time{}, time.Time{}
}

// Check compares the saved cursor with the cursor of a page. It reports whether the page
// was saved before, and returns [ErrOutOfStep] if it is a later page than the next one.
func (cur *Cursor) Check(page *Cursor) (repeated bool, err error) {
	switch {
	case page.Pass == cur.Pass && page.Page == cur.Page:
		return false, nil
	case page.Pass < cur.Pass, page.Pass == cur.Pass && page.Page < cur.Page:
		return true, nil
	}
	return false, fmt.Errorf("page %d of pass %d: %w: the catalog is at page %d of pass %d", page.Page, page.Pass, ErrOutOfStep, cur.Page, cur.Pass)
}
