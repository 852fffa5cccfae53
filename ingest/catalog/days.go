package catalog

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// PoolDay is what was spent of a pool on one day of its calendar.
type PoolDay struct {
	Pool    string
	Day     string // 2026-11-20
	Units   int64
	Calls   int64
	Refused int64 // calls of runs and of callers that the ledger refused
	Blocked int64 // units of work and calls of callers that a block stopped
}

// Refusal counts the calls that the ledger refused: of a pool, for a cause, in an hour.
type Refusal struct {
	Pool   string
	Cause  string // refused, blocked and so on, as in [WorkRecord]
	Hour   time.Time
	Caller string // who asked over HTTP; empty for runs
	Works  int64  // units of work that it stopped
	Calls  int64
}

// Action is what a person did on a page.
type Action struct {
	At     time.Time
	Who    string // the name of the token
	What   string
	Target string
	Detail string
}

// The totals of a pool are kept for KeptDays, the refusals of callers for KeptRefusals, and
// the latest KeptActions of people.
const (
	KeptDays     = 400
	KeptRefusals = 32 * 24 * time.Hour
	KeptActions  = 1000
)

// FirstDay returns the first day that SaveDays keeps.
func FirstDay(now time.Time) string {
	return now.UTC().AddDate(0, 0, -KeptDays).Format(time.DateOnly)
}

// SaveDays saves totals of pools, in place of earlier ones of the same days, and deletes
// those that are older than KeptDays.
func (c *Catalog) SaveDays(ctx context.Context, days []PoolDay) error {
	return c.fault("save the totals of days in", c.change(ctx, func(tx *tx) error {
		for i := range days {
			d := &days[i]
			if _, err := tx.Exec("day_save", d.Pool, d.Day, d.Units, d.Calls, d.Refused, d.Blocked); err != nil {
				return err
			}
		}
		_, err := tx.Exec("days_expire", FirstDay(tx.now))
		return err
	}))
}

// Days returns the totals of a pool from a day on.
func (c *Catalog) Days(ctx context.Context, pool, since string) (all []PoolDay, err error) {
	err = c.each(ctx, func(row sqlitefile.Row) error {
		var d PoolDay
		err := row.Scan(&d.Pool, &d.Day, &d.Units, &d.Calls, &d.Refused, &d.Blocked)
		all = append(all, d)
		return err
	}, "SELECT pool, day, units, calls, refused, blocked FROM pool_days WHERE pool = ? AND day >= ? ORDER BY day", pool, since)
	return all, err
}

// AddRefusals counts refused calls of callers, and deletes those that are older than
// KeptRefusals.
func (c *Catalog) AddRefusals(ctx context.Context, all []Refusal) error {
	return c.fault("count refusals in", c.change(ctx, func(tx *tx) error {
		for i := range all {
			r := &all[i]
			if _, err := tx.Exec("refusal_add", r.Pool, r.Hour.Truncate(time.Hour), r.Cause, r.Caller, r.Calls); err != nil {
				return err
			}
		}
		_, err := tx.Exec("refusals_expire", tx.now.Add(-KeptRefusals))
		return err
	}))
}

// Refusals returns the refusals of runs whose work ended at or after since, and those of
// callers in the hours that began then.
func (c *Catalog) Refusals(ctx context.Context, since time.Time) (all []Refusal, err error) {
	err = c.each(ctx, func(row sqlitefile.Row) error {
		var r Refusal
		err := row.Scan(&r.Pool, &r.Cause, &r.Hour, &r.Caller, &r.Works, &r.Calls)
		all = append(all, r)
		return err
	}, `SELECT pool, cause, (ended_at / 3600000000) * 3600000000, '', count(*), sum(refused) FROM run_work
		WHERE pool <> '' AND ended_at >= ?1 GROUP BY 1, 2, 3
		UNION ALL SELECT pool, cause, hour, caller, 0, calls FROM refusals WHERE hour >= ?1 ORDER BY 3, 1, 2, 4`, since)
	return all, err
}

// Note notes what a person did, now.
func (c *Catalog) Note(ctx context.Context, a *Action) error {
	return c.fault("note an action in", c.change(ctx, func(tx *tx) error {
		if _, err := tx.Exec("action_add", tx.now, a.Who, a.What, validText(a.Target), validText(a.Detail)); err != nil {
			return err
		}
		_, err := tx.Exec("actions_expire", KeptActions)
		return err
	}))
}

// Actions returns what people did, the latest first.
func (c *Catalog) Actions(ctx context.Context, limit int) (all []Action, err error) {
	err = c.each(ctx, func(row sqlitefile.Row) error {
		var a Action
		err := row.Scan(&a.At, &a.Who, &a.What, &a.Target, &a.Detail)
		all = append(all, a)
		return err
	}, "SELECT at, who, what, target, detail FROM actions ORDER BY id DESC LIMIT ?", limit)
	return all, err
}
