package pgcatalog

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// SaveDays saves totals of pools, in place of earlier ones of the same days, and deletes
// those that are older than [catalog.KeptDays].
func (c *Catalog) SaveDays(ctx context.Context, days []catalog.PoolDay) error {
	return c.fault("save the totals of days in", c.change(ctx, nothing, func(tx *tx, b *pgx.Batch) error {
		for i := range days {
			d := &days[i]
			b.Queue(sql("day_save"), d.Pool, d.Day, d.Units, d.Calls, d.Refused, d.Blocked)
		}
		b.Queue(sql("days_expire"), catalog.FirstDay(tx.now))
		return nil
	}))
}

// Days returns the totals of a pool from a day on.
func (c *Catalog) Days(ctx context.Context, pool, since string) (all []catalog.PoolDay, err error) {
	err = c.each(ctx, func(scan func(...any) error) error {
		var d catalog.PoolDay
		err := scan(&d.Pool, &d.Day, &d.Units, &d.Calls, &d.Refused, &d.Blocked)
		all = append(all, d)
		return err
	}, sql("days_find"), pool, since)
	return all, err
}

// AddRefusals counts refused calls of callers, and deletes those that are older than
// [catalog.KeptRefusals].
func (c *Catalog) AddRefusals(ctx context.Context, all []catalog.Refusal) error {
	return c.fault("count refusals in", c.change(ctx, nothing, func(tx *tx, b *pgx.Batch) error {
		for i := range all {
			r := &all[i]
			b.Queue(sql("refusal_add"), valid(r.Pool), micros(r.Hour.Truncate(time.Hour)), r.Cause, valid(r.Caller), r.Calls)
		}
		b.Queue(sql("refusals_expire"), micros(tx.now.Add(-catalog.KeptRefusals)))
		return nil
	}))
}

// Refusals returns the refusals of runs whose work ended at or after since, and those of
// callers in the hours that began then.
func (c *Catalog) Refusals(ctx context.Context, since time.Time) (all []catalog.Refusal, err error) {
	err = c.each(ctx, func(scan func(...any) error) error {
		var r catalog.Refusal
		err := scan(&r.Pool, &r.Cause, &r.Hour, &r.Caller, &r.Works, &r.Calls)
		all = append(all, r)
		return err
	}, sql("refusals_find"), micros(since))
	return all, err
}

// Note notes what a person did, now.
func (c *Catalog) Note(ctx context.Context, a *catalog.Action) error {
	return c.fault("note an action in", c.change(ctx, nothing, func(tx *tx, b *pgx.Batch) error {
		b.Queue(sql("action_add"), micros(tx.now), valid(a.Who), a.What, valid(a.Target), valid(a.Detail))
		b.Queue(sql("actions_expire"), catalog.KeptActions)
		return nil
	}))
}

// Actions returns what people did, the latest first.
func (c *Catalog) Actions(ctx context.Context, limit int) (all []catalog.Action, err error) {
	err = c.each(ctx, func(scan func(...any) error) error {
		var a catalog.Action
		err := scan(&a.At, &a.Who, &a.What, &a.Target, &a.Detail)
		all = append(all, a)
		return err
	}, sql("actions_find"), limit)
	return all, err
}
