package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Status is what a fleet does now.
type Status struct {
	Daemons []Daemon `json:"daemons"`
	Units   []Unit   `json:"units"`
	// Pauses are the jobs that a person paused, also those that have no unit of work yet.
	Pauses []Pause `json:"pauses"`
	// Ledgers are those that the fleet charges.
	Ledgers []pgcatalog.Ledger `json:"ledgers"`
	// Behind is how many bytes of the database's log its slowest replica lacks. It is nil if
	// the database has no replica, or does not show them to its user.
	Behind *int64 `json:"replication_behind_bytes"`
	// Locks keep the daemons from working.
	Locks []Lock `json:"locks"`
	// Findings say what needs attention, the worst first.
	Findings []Finding `json:"findings"`
}

// Pause is a job that a person paused on all machines.
type Pause struct {
	Account string `json:"account"`
	Job     string `json:"job"`
}

// Paused reports whether a person paused a job on all machines.
func (s *Status) Paused(account, job string) bool {
	return slices.Contains(s.Pauses, Pause{account, job})
}

// statusWithin is how long reading the tables may take, less than a page waits.
const statusWithin = 3 * time.Second

// Status reads what the fleet does now. If a lock keeps it from that, the error is a [LockedError].
func (b *Board) Status(ctx context.Context) (s Status, err error) {
	if s.Locks, err = b.Locks(ctx); err != nil {
		return s, err
	}
	if err := b.watched(ctx, statusWithin, func(ctx context.Context) error { return b.read(ctx, &s) }); err != nil {
		return s, err
	}
	s.Judge()
	return s, nil
}

func (b *Board) read(ctx context.Context, s *Status) (err error) {
	if s.Daemons, err = b.Daemons(ctx); err != nil {
		return err
	}
	if s.Units, err = b.Units(ctx); err != nil {
		return err
	}
	if s.Ledgers, err = b.catalog.Ledgers(ctx); err != nil {
		return err
	}
	if s.Pauses, err = b.pauses(ctx, s.Units); err != nil {
		return err
	}
	for i := range s.Units {
		u := &s.Units[i]
		u.Paused = s.Paused(u.Account, u.Job)
	}
	return b.pool.QueryRow(ctx, sql("replication")).Scan(&s.Behind)
}

// Held returns the units that a daemon works on.
func (s *Status) Held(daemon string) (all []*Unit) {
	for i := range s.Units {
		if u := &s.Units[i]; u.State == UnitRunning && u.HeldBy == daemon {
			all = append(all, u)
		}
	}
	return all
}

// Daemon returns a daemon, or nil if it ended or never was one.
func (s *Status) Daemon(id string) *Daemon {
	for i := range s.Daemons {
		if d := &s.Daemons[i]; d.ID == id {
			return d
		}
	}
	return nil
}

// Alive returns how many daemons were seen a moment ago, whether one of them leads, and by
// how much the worst of their clocks differs from the database's.
func (s *Status) Alive() (n int, leader bool, skew time.Duration) {
	for i := range s.Daemons {
		if d := &s.Daemons[i]; d.Alive() {
			n++
			leader = leader || d.Leader
			skew = max(skew, d.Skew, -d.Skew)
		}
	}
	return n, leader, skew
}

// Idle says why none of the daemons that are alive works, or nothing if one does or none is alive.
func (s *Status) Idle() (why string) {
	for i := range s.Daemons {
		switch d := &s.Daemons[i]; {
		case d.Idle():
			why = d.State
		case d.Alive():
			return ""
		}
	}
	return why
}

// Finding is something of a fleet that a person should know.
type Finding struct {
	Bad  bool   `json:"bad"` // work stops; else it may
	Text string `json:"text"`
}

// badClock is a difference of clocks that is worth a finding.
const badClock = time.Second

// Judge sets the findings: what needs attention, the worst first.
func (s *Status) Judge() {
	s.Findings = nil
	var may []Finding
	find := func(bad bool, format string, args ...any) {
		to := &may
		if bad {
			to = &s.Findings
		}
		*to = append(*to, Finding{bad, fmt.Sprintf(format, args...)})
	}
	for _, l := range s.Locks {
		find(true, "%s", l)
	}
	alive, leads, skew := s.Alive()
	switch {
	case alive == 0:
		find(true, "No daemon is alive, so jobs run only where a timer starts them. To start one: ingestor run")
	case !leads && s.Idle() == "":
		find(false, "No daemon leads, so deferred work waits. Another one leads within about 20 s")
	}
	var silent []string
	for i := range s.Daemons {
		d := &s.Daemons[i]
		switch {
		case !d.Alive():
			silent = append(silent, fmt.Sprintf("%s for %s", d.ID, d.Silent.Truncate(time.Second)))
		case d.Idle():
			find(s.Idle() != "", "%s does no work: %s", d.ID, d.State)
		}
	}
	if n := len(silent); n > 0 {
		const most = 3
		if n > most {
			silent = append(silent[:most], fmt.Sprintf("%d more", n-most))
		}
		what := "The others go on with their work"
		if alive == 0 {
			what = "Their work waits for a daemon"
		}
		find(alive == 0, "Daemons are silent: %s. Look whether their machines are up. %s; they are forgotten after a day, or when one on the same machine takes their place", strings.Join(silent, ", "), what)
	}
	if skew >= badClock {
		find(false, "The clock of a daemon differs from the database's by %s. Run NTP on all machines", skew.Round(time.Second))
	}
	for _, job := range s.paused() {
		find(false, "%s is paused on all machines. To resume it: ingestor fleet resume %s", job, job)
	}
	s.Findings = append(s.Findings, may...)
}

func (s *Status) paused() (names []string) {
	for _, p := range s.Pauses {
		names = append(names, p.Job)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Lock is a lock on a table or on rows of the fleet that keeps the daemons from working.
type Lock struct {
	Table   string        `json:"table"` // empty: rows
	PID     int           `json:"pid"`   // of the database's process that has it
	User    string        `json:"user"`
	Program string        `json:"program"`
	For     time.Duration `json:"for_ns"`
	Query   string        `json:"query"` // its last
}

func (l Lock) String() string {
	what, since := "Rows that daemons need have", ""
	if l.Table != "" {
		what = "The table " + l.Table + " has"
	}
	if l.For > 0 {
		since = " for " + l.For.Round(time.Second).String()
	}
	return fmt.Sprintf("%s been locked%s by process %d of the database (user %s, %s): %.80q. To end that process, in psql as %s: SELECT pg_terminate_backend(%d);",
		what, since, l.PID, l.User, l.Program, l.Query, cmp.Or(l.User, "a superuser"), l.PID)
}

// lookAfter is how long something takes before it may have to wait for a lock: see the statement locks.
const lookAfter = 1500 * time.Millisecond

// locksWithin is how long a look for locks may take. It reads no table that could be locked.
const locksWithin = 2 * time.Second

// Locks returns the locks that have kept the daemons from working for more than a second.
func (b *Board) Locks(ctx context.Context) ([]Lock, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), locksWithin)
	defer cancel()
	return collect(ctx, b.pool, func(row pgx.CollectableRow) (l Lock, err error) {
		var seconds float64
		err = row.Scan(&l.Table, &l.PID, &l.User, &l.Program, &seconds, &l.Query)
		l.For = time.Duration(seconds * float64(time.Second))
		return l, err
	}, sql("locks"))
}

// bounded does something for a person, who gets to know what keeps the database from answering.
func (b *Board) bounded(ctx context.Context, do func(context.Context) error) error {
	return b.watched(ctx, within, do)
}

// watched does something within a time. If it takes long, it looks who keeps it waiting.
func (b *Board) watched(ctx context.Context, most time.Duration, do func(context.Context) error) error {
	soon, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(soon) }()
	long, stop := context.WithTimeout(soon, lookAfter)
	defer stop()
	select {
	case err := <-done:
		return err
	case <-long.Done():
	}
	locks, _ := b.Locks(ctx) // else the error says what is known
	err := <-done
	if err != nil && len(locks) > 0 {
		err = &LockedError{locks, err}
	}
	return err
}

// CheckQueue returns an error if the tables cannot be written now, as daemons write them. It writes nothing.
func (b *Board) CheckQueue(ctx context.Context) error {
	return b.watched(ctx, locksWithin, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return exec(ctx, tx, "queue_write") })
	})
}

// ErrDeaf says that LISTEN does not work, because each transaction may have another connection of the server.
var ErrDeaf = errors.New("its connections change with each transaction, so no daemon would hear of new work, and begin it up to a minute late")

// CheckListen returns [ErrDeaf] if daemons must poll. Two connections find out: while one has a transaction
// open, the other one's process of the server must stay what it was, and be its own.
func (b *Board) CheckListen(ctx context.Context) error {
	return b.watched(ctx, locksWithin, func(ctx context.Context) error {
		return b.pool.AcquireFunc(ctx, func(one *pgxpool.Conn) error {
			var was, other, is int
			if err := one.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&was); err != nil {
				return err
			}
			return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
				err := errors.Join(tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&other), one.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&is))
				if err == nil && (was == other || was != is) {
					err = ErrDeaf
				}
				return err
			})
		})
	})
}

// Migrate makes the tables of the fleet.
func (b *Board) Migrate(ctx context.Context) error {
	return b.bounded(ctx, func(ctx context.Context) error { return Migrate(ctx, b.catalog) })
}

// LockedError says which locks keep the database from answering.
type LockedError struct {
	Locks []Lock
	Err   error
}

func (e *LockedError) Error() string {
	var all []string
	for _, l := range e.Locks {
		all = append(all, l.String())
	}
	return strings.Join(all, "\n")
}

func (e *LockedError) Unwrap() error { return e.Err }
