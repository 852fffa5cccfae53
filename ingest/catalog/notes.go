package catalog

import (
	"context"
	"time"
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

// SaveDays saves totals of pools, in place of earlier ones of the same days, and deletes
// those that are older than KeptDays.
func (e *Engine) SaveDays(ctx context.Context, days []PoolDay) error {
	return e.write(ctx, "save the totals of days in", func(tx Tx) {
		for i := range days {
			d := &days[i]
			tx.Exec("day_save", d.Pool, d.Day, d.Units, d.Calls, d.Refused, d.Blocked)
		}
		tx.Exec("days_expire", tx.Now.UTC().AddDate(0, 0, -KeptDays).Format(time.DateOnly))
	})
}

// Days returns the totals of a pool from a day on.
func (e *Engine) Days(ctx context.Context, pool, since string) ([]PoolDay, error) {
	return list(ctx, e, func(d *PoolDay) []any {
		return []any{&d.Pool, &d.Day, &d.Units, &d.Calls, &d.Refused, &d.Blocked}
	}, "days_find", pool, since)
}

// AddRefusals counts refused calls of callers, and deletes those that are older than
// KeptRefusals.
func (e *Engine) AddRefusals(ctx context.Context, all []Refusal) error {
	return e.write(ctx, "count refusals in", func(tx Tx) {
		for i := range all {
			r := &all[i]
			tx.Exec("refusal_add", r.Pool, r.Hour.Truncate(time.Hour), r.Cause, r.Caller, r.Calls)
		}
		tx.Exec("refusals_expire", tx.Now.Add(-KeptRefusals))
	})
}

// Refusals returns the refusals of runs whose work ended at or after since, and those of
// callers in the hours that began then.
func (e *Engine) Refusals(ctx context.Context, since time.Time) ([]Refusal, error) {
	return list(ctx, e, func(r *Refusal) []any {
		return []any{&r.Pool, &r.Cause, &r.Hour, &r.Caller, &r.Works, &r.Calls}
	}, "refusals_find", since)
}

// Note notes what a person did, now.
func (e *Engine) Note(ctx context.Context, a *Action) error {
	return e.write(ctx, "note an action in", func(tx Tx) {
		tx.Exec("action_add", tx.Now, a.Who, a.What, a.Target, a.Detail)
		tx.Exec("actions_expire", KeptActions)
	})
}

// Actions returns what people did, the latest first.
func (e *Engine) Actions(ctx context.Context, limit int) ([]Action, error) {
	return list(ctx, e, func(a *Action) []any { return []any{&a.At, &a.Who, &a.What, &a.Target, &a.Detail} }, "actions_find", limit)
}

// ChargeTo records the address of the ledger that runs are charged to from now on. It
// returns when runs were first charged to that ledger. This is now if the address is new,
// or if forget says that earlier spend no longer matters.
func (e *Engine) ChargeTo(ctx context.Context, address string, forget bool) (since time.Time, err error) {
	var last string
	var at time.Time
	err = e.home.Change(ctx, func(b Batch) {
		last, at = "", time.Time{}
		b.Query(func(scan Scan) error { return scan(&last, &at) }, "ledger_find")
	}, func(tx Tx) error {
		if since = at; last != address || at.IsZero() || forget {
			since = tx.Now
			tx.Exec("ledger_save", address, tx.Now)
		}
		return nil
	})
	return since, e.home.Fault("note the ledger in", err)
}

// Spent returns the units that runs have spent, by job. It counts runs that began at or
// after since.
func (e *Engine) Spent(ctx context.Context, since time.Time) (map[string]int64, error) {
	all := map[string]int64{}
	err := e.each(ctx, func(scan Scan) error {
		var job string
		var units int64
		err := scan(&job, &units)
		all[job] = units
		return err
	}, "spent", since)
	return all, err
}

// Slate returns a text that processes share, and its version; it is empty, of version 0, before
// anybody wrote it.
func (e *Engine) Slate(ctx context.Context, name string) (text string, version int64, err error) {
	err = e.each(ctx, func(scan Scan) error { return scan(&text, &version) }, "slate_get", name)
	return text, version, err
}

// SetSlate writes a text that processes share, unless another has written since this version was read.
func (e *Engine) SetSlate(ctx context.Context, name, text string, version int64) (written bool, err error) {
	n := 0
	err = e.write(ctx, "write "+name+" in", func(tx Tx) { tx.Count(&n, "slate_set", name, text, version) })
	return n == 1, err
}
