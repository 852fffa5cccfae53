package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

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
	cmd.Flags().StringVar(&until, "until", "", "`time` at which the block ends, as 2026-11-22T08:00:00Z")
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
		units, err := strconv.ParseInt(strings.TrimSpace(args[1]), 10, 64)
		if strings.HasPrefix(args[0], book.BudgetKey("")) && err != nil {
			text, back := strings.CutPrefix(strings.TrimSpace(args[1]), "-")
			if units, err = book.ParseMoney(text); back {
				units = -units
			}
		}
		if err != nil {
			return console.Usage("units must be a whole number, as 250 or -40, or of a budget an amount, as \"12.50 USD\", not %q", args[1])
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
				fmt.Fprintf(a.Stderr, "ingestor: gave back %s of %s units, because no more was used\n", view.Number(-recorded), view.Number(-units))
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
