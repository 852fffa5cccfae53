package fleet

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
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

// read reads the tables.
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
	paused, err := b.Paused(ctx, s.Units)
	if err != nil {
		return err
	}
	for i := range s.Units {
		u := &s.Units[i]
		u.Paused = paused[[2]string{u.Account, u.Job}]
	}
	for job := range paused {
		s.Pauses = append(s.Pauses, Pause{job[0], job[1]})
	}
	slices.SortFunc(s.Pauses, func(a, b Pause) int {
		return cmp.Or(strings.Compare(a.Job, b.Job), strings.Compare(a.Account, b.Account))
	})
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
