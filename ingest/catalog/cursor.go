package catalog

import (
	"context"
	"fmt"
	"time"
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
func (e *Engine) Cursor(ctx context.Context, job, work string) (Cursor, error) {
	cur := Cursor{Job: job, Work: work}
	err := e.each(ctx, func(scan Scan) error { return scan(cur.columns()...) }, "cursor_find", job, work)
	return cur, err
}

// Cursors returns the cursors of a job, or of all jobs if job is empty. The cursor whose
// last complete pass is oldest comes first.
func (e *Engine) Cursors(ctx context.Context, job string) ([]Cursor, error) {
	return list(ctx, e, (*Cursor).columns, "cursors_find", job)
}

// Reset forgets the position of a unit of work. Fetched data stays.
func (e *Engine) Reset(ctx context.Context, job, work string) error {
	return e.write(ctx, "reset "+job+" "+work+" in", func(tx Tx) { tx.Exec("cursor_reset", job, work) })
}

// columns returns where the columns of a cursor go.
func (cur *Cursor) columns() []any {
	return []any{
		&cur.Job, &cur.Work, &cur.Pass, &cur.Page, &cur.Token, &cur.Since, &cur.High, &cur.Mark,
		&cur.SavedAt, &cur.CompletedAt, &cur.ResumeAt, &cur.BlockedOn,
	}
}

// locked is a cursor that no one else moves until the transaction ends.
type locked struct {
	Cursor
	there bool
}

func (l *locked) read(b Batch, job, work string) {
	*l = locked{Cursor: Cursor{Job: job, Work: work}}
	b.Query(func(scan Scan) error {
		l.there = true
		return scan(l.columns()...)
	}, "cursor_lock", job, work)
}

func (l *locked) save(b Batch) {
	statement := "cursor_add"
	if l.there {
		statement = "cursor_save"
	}
	b.Exec(statement, l.Job, l.Work, l.Pass, l.Page, l.Token, l.Since, l.High, l.Mark, l.SavedAt, l.CompletedAt, l.ResumeAt, l.BlockedOn)
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
