package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
)

// State is the state of a run, or of a unit of work in it.
type State string

// The states.
const (
	Running  State = "running"
	Done     State = "done"
	Deferred State = "deferred" // resumes at its ResumeAt
	Failed   State = "failed"
	Skipped  State = "skipped" // it did nothing; its Error says why
)

// Outcome says how a run, or a unit of work in it, ended.
type Outcome struct {
	State    State
	ResumeAt time.Time // when to resume or retry; zero waits until the job is due
	Error    string    // why it failed, or was deferred or skipped

	// These are set for a unit of work only.
	BlockedOn string  // the blocked pool that defers it; empty if no block does
	Units     int64   // units spent on calls that saved no page
	Charges   Charges // units by pool that the run has not recorded yet
	Cause     string  // why it stopped, in a word; empty if an answer of the upstream says it
	Pool      string  // the pool that lacked units or was blocked
	Refused   int64   // calls that the ledger refused
}

// Charges are units by pool, such as youtube/units. Those of budgets are millionths of a dollar.
type Charges map[string]int64

// Add adds others to charges. It changes no map that it was given.
func (c *Charges) Add(others Charges) {
	if len(others) == 0 {
		return
	}
	sum := maps.Clone(*c)
	if sum == nil {
		sum = Charges{}
	}
	for pool, units := range others {
		if sum[pool] += units; sum[pool] == 0 {
			delete(sum, pool)
		}
	}
	*c = sum
}

// Sum returns the units of all pools but budgets.
func (c Charges) Sum() (units int64) {
	for pool, n := range c {
		if !strings.HasPrefix(pool, book.BudgetKey("")) {
			units += n
		}
	}
	return units
}

// Money returns the budgets among the charges.
func (c Charges) Money() Charges {
	all := maps.Clone(c)
	maps.DeleteFunc(all, func(pool string, _ int64) bool { return !strings.HasPrefix(pool, book.BudgetKey("")) })
	return all
}

// scanned scans columns, the last of which has charges.
func scanned(scan Scan, columns ...any) (c Charges, err error) {
	var text string
	if err := scan(append(columns, &text)...); err != nil || text == "" {
		return nil, err
	}
	return c, json.Unmarshal([]byte(text), &c)
}

// text returns the charges as the catalog holds them.
func (c Charges) text() string {
	if len(c) == 0 {
		return ""
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // JSON has all of these
	}
	return string(text)
}

// Start describes a new run.
type Start struct {
	Job string
	// Fence protects every write of the run.
	Fence Fence
	// Scheduled is when the run was due; zero if a person started it.
	Scheduled time.Time
	// Unlocked says that the caller has no lease of the job, so that another process may be at its runs.
	Unlocked bool
}

// Run records what one run of a job does. It is safe for concurrent use, with one
// goroutine for each unit of work.
type Run interface {
	// Save saves a page and its cursor in one transaction. Saving a page a second time
	// changes nothing. Save returns [ErrOutOfStep] if the page is not the next one of
	// its unit of work, and [ErrFenced] once another process has taken over.
	Save(ctx context.Context, p *Page) (Saved, error)
	// Restart abandons the current pass of a unit of work and returns the cursor of a new
	// pass with the same Mark. Call it when the upstream rejects the cursor's token.
	Restart(ctx context.Context, work string) (Cursor, error)
	// EndWork records how a unit of work ended. If it is not done, its cursor says when
	// it resumes.
	EndWork(ctx context.Context, work, region string, o Outcome) error
	// End records how the run ended.
	End(ctx context.Context, o Outcome) error
}

// run is a [Run] in a database.
type run struct {
	e     *Engine
	id    int64
	job   string
	fence Fence
}

// Begin starts a run. It marks earlier runs of the job that never ended as failed: unless the
// start is unlocked, the caller holds the job's lease, so their process is gone.
func (e *Engine) Begin(ctx context.Context, s Start) (Run, error) {
	r := &run{e: e, job: s.Job, fence: s.Fence}
	err := r.change(ctx, "begin a run of "+s.Job, nothing, func(tx Tx) error {
		if !s.Unlocked {
			tx.Exec("work_abandon", s.Job, tx.Now)
			tx.Exec("run_abandon", s.Job, tx.Now)
		}
		r.add(tx, s.Scheduled)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Add records a run that several processes work on, and returns its id. It abandons no
// other run. A time at which it was scheduled that is zero says that a person started it.
func (e *Engine) Add(ctx context.Context, job string, scheduled time.Time) (id int64, err error) {
	r := &run{e: e, job: job}
	err = e.write(ctx, "record a run of "+job+" in", func(tx Tx) { r.add(tx, scheduled) })
	return r.id, err
}

func (r *run) add(tx Tx, scheduled time.Time) {
	tx.Query(func(scan Scan) error { return scan(&r.id) }, "run_add", r.job, scheduled, tx.Now)
}

// Join returns a run that has begun, for a process that does part of its work. It reads and
// writes nothing. The fence may be zero if something else keeps other processes from writing.
func (e *Engine) Join(id int64, job string, f Fence) Run { return &run{e, id, job, f} }

// change runs a transaction behind the run's fence. The text doing goes into an error.
func (r *run) change(ctx context.Context, doing string, read func(Batch), write func(Tx) error) error {
	var last int64
	return r.e.home.Fault(doing+" in", r.e.home.Change(ctx, func(b Batch) {
		last = 0
		if r.fence.Name != "" {
			b.Query(func(scan Scan) error { return scan(&last) }, "fence_find", r.fence.Name)
		}
		read(b)
	}, func(tx Tx) error {
		if err := r.fence.check(tx, last); err != nil {
			return err
		}
		return write(tx)
	}))
}

func (r *run) Restart(ctx context.Context, work string) (Cursor, error) {
	var cur locked
	err := r.change(ctx, "restart "+work+" of "+r.job, func(b Batch) { cur.read(b, r.job, work) }, func(tx Tx) error {
		cur.Restart()
		cur.save(tx)
		return nil
	})
	return cur.Cursor, err
}

func (r *run) EndWork(ctx context.Context, work, region string, o Outcome) error {
	var cur locked
	var charges Charges
	return r.change(ctx, "end "+work+" of "+r.job, func(b Batch) {
		cur.read(b, r.job, work)
		r.charged(b, work, o.Charges, &charges)
	}, func(tx Tx) error {
		cur.End(o)
		tx.Exec("work_end", r.id, work, region, string(o.State), tx.Now, o.ResumeAt, o.Error, o.Units, o.Cause, o.Pool, o.Refused, charges.text())
		cur.save(tx)
		return nil
	})
}

// charged reads the charges of a unit of work, and adds more. It reads nothing if there are no more, and then an
// empty text keeps them as they are.
func (r *run) charged(b Batch, work string, more Charges, sum *Charges) {
	if *sum = maps.Clone(more); len(more) == 0 {
		return
	}
	b.Query(func(scan Scan) error {
		before, err := scanned(scan)
		sum.Add(before)
		return err
	}, "work_charges", r.id, work)
}

func (r *run) End(ctx context.Context, o Outcome) error {
	return r.change(ctx, "end a run of "+r.job, nothing, func(tx Tx) error {
		tx.Exec("run_end", r.id, string(o.State), tx.Now, o.ResumeAt, o.Error)
		return nil
	})
}

// Fence stops a process from writing after another process has taken over. The holder of
// a lease passes its token with every write. The catalog rejects tokens below the highest
// one of that name, in the transaction that writes the rows. The zero Fence protects
// nothing.
type Fence struct {
	Name  string // such as an account and its job
	Token int64  // grows with each holder
}

// NewFence returns a fence whose token is higher than any other of that name. It is for
// holders of a lock without tokens, such as the operating system's lock on a file.
func (e *Engine) NewFence(ctx context.Context, name string) (Fence, error) {
	f := Fence{Name: name}
	err := e.write(ctx, "write to", func(tx Tx) {
		tx.Query(func(scan Scan) error { return scan(&f.Token) }, "fence_take", name, tx.Now.UnixMicro())
	})
	if err != nil {
		return Fence{}, err
	}
	return f, nil
}

// check compares the fence with the highest token of its name, and saves a higher one. That
// takes a round trip of its own, once for a token: nothing may be committed if another process
// with a higher token was faster.
func (f Fence) check(tx Tx, last int64) error {
	var err error
	if last < f.Token && f.Name != "" {
		err = tx.Ask(func(scan Scan) error { return scan(&last) }, "fence_save", f.Name, f.Token)
	}
	if err == nil && last > f.Token {
		err = fmt.Errorf("%s: %w", f.Name, ErrFenced)
	}
	return err
}

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

// Unlocked reports whether the run could not take the lock of its job. It resumes at the time that it was due, and
// does not count as a run of that time.
func (r *RunRecord) Unlocked() bool {
	return r != nil && r.State == Failed && !r.Scheduled.IsZero() && r.ResumeAt.Equal(r.Scheduled)
}

// WorkRecord is the part of a run that belongs to one unit of work.
type WorkRecord struct {
	Work       string    `json:"work"`
	Region     string    `json:"region,omitempty"`
	Pages      int       `json:"pages"`
	Units      int64     `json:"units"`             // summed over all pools that its calls charged
	Charges    Charges   `json:"charges,omitempty"` // by pool; what earlier versions recorded has none
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
	Due  time.Time // if not zero, only runs that were due, at the latest then, and could take their lock
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
		charges, err := scanned(scan, &run, &w.Work, &w.Region, &w.Pages, &w.Units, &w.New, &w.Updated, &w.Unchanged, &w.Statistics, &w.Gone,
			(*string)(&w.State), &w.EndedAt, &w.ResumeAt, &w.Error, &w.Cause, &w.Pool, &w.Refused)
		w.Charges = charges
		if err == nil {
			byID[run].Work = append(byID[run].Work, w)
		}
		return err
	}, "work_find", ids)
	return all, err
}
