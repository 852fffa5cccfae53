package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

func (a *app) quotaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota",
		Short: "Show what is left of each pool, and when units come back",
		Long: `Show the pools of the price book. For each window: the units used, the limit (quota less
headroom), the units that come back next, and the next reset. Blocks are shown too. The
command asks only the ledger and spends nothing.`,
		Example: `  ingestor quota
  ingestor quota --output json
  ingestor quota spend --by job,region --since 7d
  ingestor quota adjust youtube/units 250 --reason "tried things out in the console"`,
		Args: known,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLedger(cmd, a.showQuota)
		},
	}
	a.outputFlag(cmd)
	cmd.AddCommand(a.spendCommand(), a.blockCommand(), a.unblockCommand(), a.adjustCommand())
	return cmd
}

// withLedger opens the ledger of the settings, and calls f.
func (a *app) withLedger(cmd *cobra.Command, f func(context.Context, *quota.Ledger) error) (err error) {
	s, err := a.settings(cmd.Flags())
	if err != nil {
		return err
	}
	var done closers
	defer func() { err = errors.Join(err, done.close()) }()
	l, err := a.openLedger(cmd.Context(), s, &done)
	if err != nil {
		return err
	}
	return f(cmd.Context(), l)
}

// withMeter opens the ledger for a command that meters calls, and traces them. Ready comes
// first, to check the flags by the settings. A command that is told to stop leaves with the
// code stopped.
func (a *app) withMeter(cmd *cobra.Command, stopped int, ready func(*settings) error, f func(context.Context, *settings, *quota.Ledger, *closers) error) (err error) {
	ctx := cmd.Context()
	s, err := a.settings(cmd.Flags())
	if err == nil {
		err = ready(s)
	}
	if err != nil {
		return err
	}
	var done closers
	defer func() { err = orStopped(ctx, stopped, errors.Join(err, done.close())) }()
	a.trace(ctx, &done)
	l, err := a.openLedger(ctx, s, &done)
	if err != nil {
		return err
	}
	return f(ctx, s, l, &done)
}

func (a *app) showQuota(ctx context.Context, l *quota.Ledger) error {
	all, err := a.usage(ctx, l)
	if err != nil {
		return err
	}
	views := view.Pools(all)
	return a.print(views, func(s *sheet) {
		s.line("%s", s.in(faint, "ledger "+open.Shown(a.loaded.Ledger)))
		s.quotaTable(views)
	})
}

// usage reads the usage of all pools. If the price book is older than the ledger's, it
// prints a warning, and returns the usage with the limits of the older book. Reading
// changes nothing.
func (a *app) usage(ctx context.Context, l *quota.Ledger) ([]quota.Usage, error) {
	all, err := l.Usage(ctx, "", "")
	var stale *quota.StaleBookError
	if !errors.As(err, &stale) {
		return all, err
	}
	mine := l.Book().Revision
	for errors.As(err, &stale) {
		newer := *l.Book()
		newer.Revision = stale.Stored + 1
		if err := l.SetBook(&newer); err != nil {
			return nil, err
		}
		all, err = l.Usage(ctx, "", "")
	}
	if err == nil {
		book := cmp.Or(a.loaded.Costs, "the built-in price book")
		fmt.Fprintf(a.stderr, "ingestor: warning: %s has revision %d, and the ledger has seen revision %d; the limits shown are those of revision %[2]d\n"+
			"If %[1]s is the newer one, raise its `revision` to %[4]d\n", book, mine, stale.Stored, stale.Stored+1)
	}
	return all, err
}

// quotaTable shows pools with their windows.
func (s *sheet) quotaTable(pools []view.Pool) {
	switch {
	case s.width == 0:
		s.windows(pools, true)
	case s.width < wide:
		s.narrowQuota(pools)
	default:
		s.windows(pools, false)
	}
	for _, p := range pools {
		if p.Blocked != nil {
			s.line("\n%s", s.in(bad, p.Pool+" "+view.Shut(p.BlockedBy)+" until "+stamp(*p.Blocked)+" ("+span(p.Blocked.Sub(p.LedgerAt))+"): "+plain(p.Reason)))
			s.line("The block ends by itself. To end it now: ingestor quota unblock %s", p.Pool)
		}
	}
}

// windows writes a row for each window. The pool is a column, or a title above its rows.
func (s *sheet) windows(pools []view.Pool, pool bool) {
	var columns []column
	title, indent := "  window", "  "
	if pool {
		columns = append(columns, column{name: "pool"})
		title, indent = "window", ""
	}
	columns = append(columns, column{name: title}, column{},
		column{name: "used", right: true}, column{name: "limit", right: true}, column{name: "quota", right: true},
		column{name: "headroom", right: true}, column{name: "back next"}, column{name: "reset in"})
	var rows [][]string
	for _, p := range pools {
		if !pool {
			rows = append(rows, []string{p.Pool})
		}
		for i, w := range p.Windows {
			back, reset := nextUnits(&w, p.LedgerAt)
			row := []string{indent + p.Name(i), s.bar(w.Used, w.Limit), view.Number(w.Used), view.Number(w.Limit), view.Number(w.Quota), view.Number(w.Headroom), back, reset}
			if pool {
				row = append([]string{p.Pool}, row...)
			}
			rows = append(rows, row)
		}
	}
	s.table(columns, rows)
	for _, p := range pools {
		for i, w := range p.Windows {
			if own := w.OwnLimit(); own != "" {
				s.line("%s, %s: %s.", p.Pool, p.Name(i), own)
			}
		}
	}
}

// nextUnits says which units come back next, and how long it is until the reset.
func nextUnits(w *view.Window, now time.Time) (back, reset string) {
	if w.NextAt != nil {
		back = "+" + view.Number(w.NextUnits) + " in " + span(w.NextAt.Sub(now))
	}
	if w.ResetAt != nil {
		reset = span(w.ResetAt.Sub(now))
	}
	return back, reset
}

// wide is the width from which a row for each window fits.
const wide = 80

// narrowQuota writes pools for a narrow terminal.
func (s *sheet) narrowQuota(pools []view.Pool) {
	for _, p := range pools {
		s.line("%s", s.in(bold, s.cut(p.Pool, s.width)))
		for i, w := range p.Windows {
			s.line("  %s %s  %s of %s", s.bar(w.Used, w.Limit), p.Name(i), view.Number(w.Used), view.Number(w.Limit))
			about := "quota " + view.Number(w.Quota) + ", headroom " + view.Number(w.Headroom)
			back, reset := nextUnits(&w, p.LedgerAt)
			if back != "" {
				about += "; " + back
			}
			if reset != "" {
				about += "; reset in " + reset
			}
			if own := w.OwnLimit(); own != "" {
				about += "; " + own
			}
			s.text.WriteString("  " + s.in(faint, s.wrap(about, 2)) + "\n")
		}
	}
}

// bar draws which part of a limit is used.
func (s *sheet) bar(used, limit int64) string {
	const cells = 8
	full := 0
	if limit > 0 {
		full = int(min(used*cells/limit, cells))
	}
	if used > 0 {
		full = max(full, 1)
	}
	if s.width == 0 {
		return strings.Repeat("#", full) + strings.Repeat(".", cells-full)
	}
	ink := good
	switch {
	case used >= limit:
		ink = bad
	case used*4 >= limit*3:
		ink = warm
	}
	on, off := "█", "░"
	if s.ascii {
		on, off = "#", "."
	}
	return s.in(ink, strings.Repeat(on, full)) + s.in(faint, strings.Repeat(off, cells-full))
}
