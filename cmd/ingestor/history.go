package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// afterMidnight is how long after the start of a day runs are not compared yet: the
// ledger's midnight is not ours to the second.
const afterMidnight = 15 * time.Minute

// shortfall is spend of an account that the catalog knows and the ledger does not.
type shortfall struct {
	account      string
	runs, ledger int64
	since        time.Time
}

func (s *shortfall) Error() string {
	name := metered
	if s.account != quota.DefaultAccount {
		name += "@" + s.account
	}
	return fmt.Sprintf("the ledger has forgotten what was spent: by the catalog, runs since %s have spent %s units of %s, and the ledger knows %s of today\n"+
		"Look it up in the upstream's console, then run: ingestor quota adjust %s/POOL UNITS --reason TEXT\n"+
		"If nothing was spent, run: ingestor ledger fresh --reason TEXT",
		stamp(s.since), view.Number(s.runs), name, view.Number(s.ledger), name)
}

// Is matches [quota.ErrOutage].
func (s *shortfall) Is(target error) bool { return target == quota.ErrOutage }

// shortfalls compares the ledger with the history of runs: for each account, what runs
// of its jobs have spent since the day of its pools began, with all that the ledger knows
// to be spent of the account that day. Others can only make the latter more. It compares
// only runs that were charged to the ledger at this address, and nothing of a day on
// which a person has made a correction, nor while calls wait in the journal.
func (a *app) shortfalls(ctx context.Context, s *settings, l *quota.Ledger, c *catalog.Catalog) (all []*shortfall, err error) {
	if a.journal == nil { // it is in memory
		return nil, nil
	}
	since, err := c.ChargeTo(ctx, a.journal.Ledger(), s.fresh)
	if err != nil {
		return nil, err
	}
	start := a.startOfDay(s.book)
	if from := start.Add(afterMidnight); from.After(since) {
		since = from
	}
	waiting, err := a.journal.Pending(ctx)
	if err != nil || len(waiting) > 0 {
		return nil, err
	}
	spent, err := c.Spent(ctx, since)
	if err != nil {
		return nil, err
	}
	runs := map[string]int64{} // by account
	for name, j := range s.Jobs {
		runs[cmp.Or(j.Account, quota.DefaultAccount)] += spent[name]
	}
	for _, account := range slices.Sorted(maps.Keys(runs)) {
		if runs[account] == 0 {
			continue
		}
		known, err := l.Spend(ctx, quota.SpendQuery{Upstream: metered, Account: account, Since: start})
		if errors.Is(err, quota.ErrOutage) {
			return nil, nil // each call will be told so
		}
		if err != nil {
			return nil, err
		}
		f := &shortfall{account: account, runs: runs[account], since: since}
		corrected := false
		for _, k := range known {
			f.ledger += k.Units
			corrected = corrected || k.Labels.Reason != ""
		}
		if f.ledger < f.runs && !corrected {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	lost, err := l.Forgotten(ctx)
	if errors.Is(err, quota.ErrOutage) || len(lost) > 0 {
		return nil, nil // each call will be told so, and of which pool
	}
	return all, err
}

// startOfDay is when the day of the upstream's pools began; if they have several, the
// last one.
func (a *app) startOfDay(book *quota.Book) time.Time {
	var last window.Instant
	for _, p := range book.Upstreams[metered].Pools {
		zone := time.UTC
		for _, w := range p.Windows {
			if w.Calendar() {
				zone = w.Zone
			}
		}
		start, _ := window.Spec{Period: window.Day, Zone: zone}.Bounds(window.At(a.now()))
		last = max(last, start)
	}
	return last.Time()
}

// compare refuses a ledger that knows less than the history of runs.
func (a *app) compare(ctx context.Context, s *settings, l *quota.Ledger, c *catalog.Catalog) error {
	all, err := a.shortfalls(ctx, s, l, c)
	if err == nil && len(all) > 0 {
		err = all[0]
	}
	return err
}
