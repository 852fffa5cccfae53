package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/open"
)

func QuotaCommand(a *session.Session) *cobra.Command {
	cmd := a.Command("quota", console.Known, a.WithSettings(func(cmd *cobra.Command, _ []string, s *settings.Settings) error {
		is, at, err := a.AskService(cmd.Context(), s)
		switch {
		case err == nil:
			return printQuota(a, "of the service at "+at, is)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		return a.WithLedgerToRead(cmd, func(ctx context.Context, l *quota.Ledger) error {
			all, err := readUsage(ctx, a, l)
			is, err := verdict.Stand(ctx, l, all, err)
			if err != nil {
				return err
			}
			is.Verdict, err = a.VerdictToRead(ctx, a.Loaded, l)
			if err != nil { // the pools are known all the same
				fmt.Fprintf(a.Stderr, "ingestor: warning: it is not known whether the next run can start: %v\nTo see why: ingestor check%s\n", err, a.Loaded.Typed())
			}
			whose := open.Shown(a.Loaded.Ledger)
			if service := session.Service(a.Loaded); service != "" {
				whose += "\n" + service
			}
			return printQuota(a, whose, is)
		})
	}))
	cmd.AddCommand(spendCommand(a), blockCommand(a), unblockCommand(a), adjustCommand(a))
	return cmd
}

// printQuota shows the pools that are known. It fails if the ledger has forgotten others.
func printQuota(a *session.Session, whose string, is *verdict.Standing) error {
	err := a.Print(is, func(s *console.Sheet) {
		s.Line("%s", s.In(console.Faint, "ledger "+whose))
		if len(is.Pools) > 0 {
			quotaTable(s, is.Pools, a.Loaded.Typed())
		}
		for _, lost := range is.Lost {
			s.Line("%s", s.In(console.Bad, lost.Pool+" is not known: the ledger has forgotten what was spent since "+console.Stamp(lost.Since)+"."))
		}
		if v := is.Verdict; v != nil {
			s.Line("")
			s.Line("%s", s.In(console.Inks[v.Level], v.String()))
		}
	})
	if err == nil && len(is.Lost) > 0 {
		err = &console.Exit{Code: console.ExitDown, Err: errors.New(is.Lost[0].Says)}
	}
	return err
}

// readUsage reads the usage of all pools. If the price book is older than the ledger's, it
// prints a warning, and returns the usage with the limits of the older book. Reading
// changes nothing.
func readUsage(ctx context.Context, a *session.Session, l *quota.Ledger) ([]quota.Usage, error) {
	mine := l.Book().Revision
	all, err := l.View().Usage(ctx, "", "")
	var stale *quota.StaleBookError
	for errors.As(err, &stale) {
		newer := *l.Book()
		newer.Revision = stale.Stored + 1
		if err := l.SetBook(&newer); err != nil {
			return nil, err
		}
		all, err = l.View().Usage(ctx, "", "")
	}
	if stale != nil && err == nil {
		book := cmp.Or(a.Loaded.Costs, "the built-in price book")
		fmt.Fprintf(a.Stderr, "ingestor: warning: %s has revision %d, and the ledger has seen revision %d; the limits shown are those of revision %[2]d\n"+
			"If %[1]s is the newer one, raise its `revision` to %[4]d\n", book, mine, stale.Stored, stale.Stored+1)
	}
	return all, err
}

func quotaTable(s *console.Sheet, pools []view.Pool, typed string) {
	switch {
	case s.Width == 0:
		writeWindows(s, pools, true)
	case s.Width < wide:
		narrowQuota(s, pools)
	default:
		writeWindows(s, pools, false)
	}
	for _, p := range pools {
		if p.Learned != nil {
			s.Line("%s: %s.", p.Pool, p.Learned.Words())
		}
		if p.Spaced != nil {
			s.Line("%s: %s.", p.Pool, p.Spaced.Words())
		}
		if p.Step != "" {
			s.Line("%s has passed a step: %s.", p.Pool, p.Step)
		}
		if p.SpillsTo != "" {
			s.Line("Calls that lack units of %s go to %s.", p.Pool, p.SpillsTo)
		}
		if waits := p.Waits(); waits != "" {
			s.Line("For %s wait, in this order: %s.", p.Pool, waits)
		}
		if p.Blocked != nil {
			s.Line("\n%s", s.In(console.Bad, p.Pool+" "+view.Shut(p.BlockedBy)+" until "+console.Stamp(*p.Blocked)+" ("+console.Span(p.Blocked.Sub(p.LedgerAt))+"): "+console.Plain(p.Reason)))
			s.Line("The block ends by itself. To end it now: ingestor quota unblock %s%s", p.Pool, typed)
		}
	}
}

// writeWindows writes a row for each window. The pool is a column, or a title above its rows.
func writeWindows(s *console.Sheet, pools []view.Pool, column bool) {
	indent := "  "
	if column {
		indent = ""
	}
	var rows [][]string
	for _, p := range pools {
		pool := p.Pool
		if !column { // so that the column is left out
			rows, pool = append(rows, []string{p.Pool}), ""
		}
		for i, w := range p.Windows {
			back, reset := nextUnits(p.Pool, &w, p.LedgerAt)
			rows = append(rows, []string{pool, indent + p.Name(i), s.Bar(w.Used, w.Limit), view.Amount(p.Pool, w.Used), view.Amount(p.Pool, w.Limit), view.Amount(p.Pool, w.Quota), view.Amount(p.Pool, w.Headroom), back, reset})
		}
	}
	s.Table(console.Columns("pool", indent+"window", "", ">used", ">limit", ">quota", ">headroom", "back next", "reset in"), rows)
	for _, p := range pools {
		for i, w := range p.Windows {
			if own := w.OwnLimit(p.Pool); own != "" {
				s.Line("%s, %s: %s.", p.Pool, p.Name(i), own)
			}
		}
	}
}

// nextUnits says which units come back next, and how long it is until the reset.
func nextUnits(pool string, w *view.Window, now time.Time) (back, reset string) {
	if w.NextAt != nil {
		back = "+" + view.Amount(pool, w.NextUnits) + " in " + console.Span(w.NextAt.Sub(now))
	}
	if w.ResetAt != nil {
		reset = console.Span(w.ResetAt.Sub(now))
	}
	return back, reset
}

// wide is the width from which a row for each window fits.
const wide = 80

func narrowQuota(s *console.Sheet, pools []view.Pool) {
	for _, p := range pools {
		s.Line("%s", s.In(console.Bold, s.Cut(p.Pool, s.Width)))
		for i, w := range p.Windows {
			s.Line("  %s %s  %s of %s", s.Bar(w.Used, w.Limit), p.Name(i), view.Amount(p.Pool, w.Used), view.Amount(p.Pool, w.Limit))
			about := "quota " + view.Amount(p.Pool, w.Quota) + ", headroom " + view.Amount(p.Pool, w.Headroom)
			back, reset := nextUnits(p.Pool, &w, p.LedgerAt)
			if back != "" {
				about += "; " + back
			}
			if reset != "" {
				about += "; reset in " + reset
			}
			if own := w.OwnLimit(p.Pool); own != "" {
				about += "; " + own
			}
			s.Text.WriteString("  " + s.In(console.Faint, s.Wrap(about, 2)) + "\n")
		}
	}
}

var dimensions = func() (names []string) {
	for _, d := range view.Dimensions {
		names = append(names, string(d))
	}
	return names
}()

func spendCommand(a *session.Session) *cobra.Command {
	var names []string
	var since string
	cmd := a.Command("spend", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return a.WithLedgerToRead(cmd, func(ctx context.Context, l *quota.Ledger) (err error) {
			q := quota.SpendQuery{}
			if since != "" {
				if q.Since, err = view.ParseMoment(since, a.Now()); err != nil {
					return console.Usage("--since: %w", err)
				}
				if parsed, err := time.Parse(time.DateOnly, since); err == nil {
					q.Since = parsed.Add(12 * time.Hour) // noon is on that day in the zone of every pool
				}
			}
			var by []quota.Dimension
			for _, d := range names {
				if !slices.Contains(dimensions, d) {
					return console.Usage("--by: there is no %q; write one or more of %s", d, strings.Join(dimensions, ", "))
				}
				if slices.Contains(by, quota.Dimension(d)) {
					return console.Usage("--by: %q is there twice", d)
				}
				by = append(by, quota.Dimension(d))
			}
			all, err := l.View().Spend(ctx, q, by...)
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(s quota.Spent) bool {
				_, rate := l.Book().StepsOf(s.Pool.Upstream, s.Pool.Name)                                                    // its spend is that of its budget
				return rate || !s.Pool.IsMoney() && (slices.Contains(by, quota.ByModel) || slices.Contains(by, quota.ByKey)) // only budgets have them
			})
			views := view.Spend(all, by)
			return a.Print(views, func(s *console.Sheet) {
				if len(views) == 0 {
					s.Line("Nothing was spent in this time.")
				} else {
					s.View(view.SpendTable(views, by))
				}
				if slices.Equal(by, []quota.Dimension{quota.ByJob}) && since == "" { // a day of the ledger and of a run may differ
					s.Text.WriteString(unitsOfRuns(ctx, a, s, views))
				}
			})
		})
	})
	cmd.Flags().StringSliceVar(&names, "by", []string{"method"}, "`dimensions`: "+strings.Join(dimensions, ", "))
	cmd.Flags().StringVar(&since, "since", "", "first `day`: 2026-11-01, or 7d for 7 days ago (default all days)")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(dimensions, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// unitsOfRuns says how many units the runs of each job have, for a reader who compares them with the ledger. It reads
// the catalog as it is, and does not wait long.
func unitsOfRuns(ctx context.Context, a *session.Session, on *console.Sheet, ledger []view.Spent) string {
	if a.Loaded.NoCatalog() != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var runs map[string]int64
	_, err := a.Inspect(ctx, a.Loaded, func(c plan.Source) (err error) {
		runs, err = c.(session.AnyCatalog).Spent(ctx, time.Time{})
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(runs) == 0:
		return ""
	case err != nil:
		return on.Wrap("The units of runs cannot be read from the catalog. To see why: ingestor check", 0) + "\n"
	}
	left := maps.Clone(runs)
	for i := range ledger {
		left[ledger[i].Job] -= ledger[i].Units
	}
	var units []string
	more := false
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		units = append(units, name+" "+view.Number(runs[name]))
		more = more || left[name] < 0
	}
	line := "Units in runs: " + strings.Join(units, ", ") + "."
	if more {
		line += " The ledger also has the calls of processes that ended before they saved a page."
	}
	return on.Wrap(line, 0) + "\n"
}

func blockCommand(a *session.Session) *cobra.Command {
	var duration, until, reason string
	cmd := a.Command("block POOL [--for 2h | --until TIME] --reason TEXT", console.Takes(1, 1, "a pool"), func(cmd *cobra.Command, args []string) error {
		if duration != "" && until != "" {
			return console.Usage("--for and --until cannot be used together")
		}
		if err := needReason(reason); err != nil {
			return err
		}
		return changePool(cmd, a, args[0], func(ctx context.Context, l *quota.Ledger, pool quota.Pool) error {
			switch {
			case duration != "":
				d, err := view.ParseSpan(duration)
				if err != nil {
					return console.Usage("--for: %w", err)
				}
				return console.BadUsage(l.BlockFor(ctx, pool, d, quota.ByHand(reason)))
			case until != "":
				at, err := endOf(a, "", until)
				if err != nil {
					return err
				}
				return console.BadUsage(l.Block(ctx, pool, at, quota.ByHand(reason)))
			}
			return l.BlockUntilReset(ctx, pool, quota.ByHand(reason))
		})
	}, a.CompleteFirst(poolsOf))
	cmd.Flags().StringVar(&duration, "for", "", "`duration` of the block, as 90m or 2h")
	cmd.Flags().StringVar(&until, "until", "", "`time` at which the block ends, as 2027-01-01T08:00:00Z")
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why (required)")
	return cmd
}

func unblockCommand(a *session.Session) *cobra.Command {
	return a.Command("unblock POOL", console.Takes(1, 1, "a pool"), func(cmd *cobra.Command, args []string) error {
		return changePool(cmd, a, args[0], func(ctx context.Context, l *quota.Ledger, pool quota.Pool) error { return l.Admin().Unblock(ctx, pool) })
	}, a.CompleteFirst(poolsOf))
}

func adjustCommand(a *session.Session) *cobra.Command {
	var reason string
	cmd := a.Command("adjust POOL UNITS --reason TEXT", console.Takes(2, 2, "a pool and units"), func(cmd *cobra.Command, args []string) error {
		units, err := view.ParseAmount(args[0], args[1])
		if err != nil {
			return console.BadUsage(err)
		}
		if err := needReason(reason); err != nil {
			return err
		}
		return changePool(cmd, a, args[0], func(ctx context.Context, l *quota.Ledger, pool quota.Pool) error {
			recorded, err := l.Admin().Adjust(ctx, pool, units, reason)
			if err != nil {
				return console.BadUsage(err)
			}
			if recorded != units {
				fmt.Fprintf(a.Stderr, "ingestor: gave back %s of %s, because no more was used\n", view.Amount(args[0], -recorded), view.Units(args[0], -units))
			}
			acceptAdjusted(ctx, a, l)
			return nil
		})
	}, a.CompleteFirst(poolsOf))
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why; it is kept in the spend (required)")
	return cmd
}

// Negatives keeps the units of `quota adjust POOL -40` from being read as a flag.
func Negatives(args []string) []string {
	if !slices.Contains(args, "adjust") {
		return args
	}
	args = slices.Clone(args)
	for i, text := range args {
		if text == "--" {
			break
		}
		if positive, negative := strings.CutPrefix(text, "-"); negative && isUnits(positive) {
			args[i] = " " + text
		}
	}
	return args
}

// isUnits reports whether a text is a number of units, or an amount of money.
func isUnits(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	_, failed := book.ParseMoney(text)
	return err == nil || failed == nil
}

// changePool calls change for the pool of a name, and shows the pool after it.
func changePool(cmd *cobra.Command, a *session.Session, name string, change func(context.Context, *quota.Ledger, quota.Pool) error) error {
	return a.WithLedger(cmd, func(ctx context.Context, l *quota.Ledger) error {
		pool, err := findPool(l.Book(), name)
		if err == nil {
			err = change(ctx, l, pool)
		}
		if err != nil {
			return err
		}
		return tellPool(ctx, a, l, pool)
	})
}

func poolsOf(s *settings.Settings) []string { return poolNames(s.Book) }

func needReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return console.Usage("--reason is missing; write why, for other people")
	}
	return nil
}

// findPool finds a pool of the book by its name. The name may lack the upstream if only one
// upstream has such a pool.
func findPool(book *quota.Book, text string) (quota.Pool, error) {
	names := poolNames(book)
	if slices.Contains(names, text) {
		return quota.ParsePool(text)
	}
	if name, key, keyed := strings.Cut(text, ":"); keyed {
		pool, err := findPool(book, name)
		if pool.Key = key; err == nil && book.Upstreams[pool.Upstream].Pools[pool.Name].By == nil {
			err = console.Usage("pool %s has no keys; write %s", name, name)
		}
		return pool, err
	}
	var like []string
	for _, name := range names {
		if strings.HasSuffix(name, "/"+text) {
			like = append(like, name)
		}
	}
	if len(like) == 1 {
		return quota.ParsePool(like[0])
	}
	return quota.Pool{}, console.Usage("there is no pool %q; the price book has %s", text, strings.Join(names, ", "))
}

// poolNames returns the names of the pools of all accounts.
func poolNames(book *quota.Book) []string {
	var names []string
	for _, upstream := range slices.Sorted(maps.Keys(book.Upstreams)) {
		u := book.Upstreams[upstream]
		for _, account := range u.Accounts {
			for name := range u.Pools {
				names = append(names, quota.Pool{Upstream: upstream, Account: account, Name: name}.String())
			}
		}
	}
	slices.Sort(names)
	return names
}

// tellPool shows a pool after it was changed. If the ledger has forgotten another pool, it says
// so, and that is no failure: the change was made, and must not be repeated.
func tellPool(ctx context.Context, a *session.Session, l *quota.Ledger, pool quota.Pool) error {
	all, err := l.View().Usage(ctx, pool.Upstream, pool.Account)
	if lost, ok := errors.AsType[*quota.ForgottenError](err); ok && lost.Pool != pool {
		fmt.Fprintf(a.Stderr, "ingestor: %s was changed, but %s\n", pool, lost)
	} else if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(u quota.Usage) bool { return u.Pool != pool })
	if len(all) == 0 && err != nil {
		return nil
	}
	if len(all) == 0 && pool.Key == "" {
		return fmt.Errorf("the ledger does not show %s", pool)
	}
	views := view.Pools(all)
	return a.Print(views, func(s *console.Sheet) { quotaTable(s, views, a.Loaded.Typed()) })
}

// acceptAdjusted accepts a ledger whose pools a person has corrected, so that other processes of
// the fleet may use it. Until no pool is left to correct, it says what to do. It does not fail: a
// person would repeat the correction.
func acceptAdjusted(ctx context.Context, a *session.Session, l *quota.Ledger) {
	if err := tryAcceptAdjusted(ctx, a, l); err != nil {
		fmt.Fprintf(a.Stderr, "ingestor: the pool was changed, but the catalog still expects another ledger: %s\n"+
			"When all that was spent is added: ingestor ledger fresh --reason TEXT%s\n", err, a.Loaded.LedgerFlag())
	}
}

func tryAcceptAdjusted(ctx context.Context, a *session.Session, l *quota.Ledger) (err error) {
	if a.Loaded.Database == "" {
		return nil
	}
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	c, err := a.OpenCatalog(ctx, a.Loaded, &done)
	if err != nil {
		return err
	}
	shared, found, err := a.OtherThanKnown(ctx, a.Loaded, c)
	if shared == nil || err != nil {
		return err
	}
	if lost, err := l.View().Forgotten(ctx); err != nil || len(lost) > 0 {
		return err // the others are reported
	}
	all, err := l.View().Usage(ctx, "", "")
	if err != nil {
		return err
	}
	var left []string
	for i := range all {
		if !all[i].Known {
			left = append(left, all[i].Pool.String())
		}
	}
	if len(left) > 0 && !a.Opened.Remembered { // this machine cannot tell which of them were used
		fmt.Fprintf(a.Stderr, "ingestor: the fleet had another ledger before: correct %s in the same way\n"+
			"When all that was spent is added: ingestor ledger fresh --reason TEXT%s\n", strings.Join(left, ", "), a.Loaded.LedgerFlag())
		return nil
	}
	_, err = shared.ChargeLedgers(ctx, found, true)
	return err
}
