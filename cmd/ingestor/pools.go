package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

func (a *app) blockCommand() *cobra.Command {
	var duration, until, reason string
	cmd := &cobra.Command{
		Use:   "block POOL [--for 2h | --until TIME] --reason TEXT",
		Short: "Block a pool for every process",
		Long: `Block a pool for every process that shares the ledger. The block ends by itself: after
--for, at --until, or at the next reset of the pool.`,
		Example: `  ingestor quota block youtube/searches --for 2h --reason "the console says so"`,
		Args:    takes(1, 1, "a pool"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if duration != "" && until != "" {
				return usage("--for and --until cannot be used together")
			}
			if err := needReason(reason); err != nil {
				return err
			}
			return a.withLedger(cmd, func(ctx context.Context, l *quota.Ledger) error {
				pool, err := findPool(l.Book(), args[0])
				if err != nil {
					return err
				}
				switch {
				case duration != "":
					d, err := view.ParseSpan(duration)
					if err != nil {
						return usage("--for: %w", err)
					}
					if err := l.BlockFor(ctx, pool, d, quota.ByHand(reason)); err != nil {
						return badUsage(err)
					}
				case until != "":
					at, err := time.Parse(time.RFC3339, until)
					if err != nil {
						return usage("--until: %q is not a time; write it as 2026-11-22T08:00:00Z", until)
					}
					if !at.After(a.now()) {
						return usage("--until: %s is in the past", until)
					}
					if err := l.Block(ctx, pool, at, quota.ByHand(reason)); err != nil {
						return badUsage(err)
					}
				default:
					if err := l.BlockUntilReset(ctx, pool, quota.ByHand(reason)); err != nil {
						return err
					}
				}
				return a.tellPool(ctx, l, pool)
			})
		},
		ValidArgsFunction: a.completeFirst(func(s *settings) []string { return poolNames(s.book) }),
	}
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&duration, "for", "", "`duration` of the block, as 90m or 2h")
	cmd.Flags().StringVar(&until, "until", "", "`time` at which the block ends, as 2026-11-22T08:00:00Z")
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why (required)")
	return cmd
}

func (a *app) unblockCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unblock POOL",
		Short: "Unblock a pool",
		Long: `Lift the block of a pool, for every process that shares the ledger. Deferred runs resume:
a daemon within a minute, others when they are next started.`,
		Example: `  ingestor quota unblock youtube/searches`,
		Args:    takes(1, 1, "a pool"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withLedger(cmd, func(ctx context.Context, l *quota.Ledger) error {
				pool, err := findPool(l.Book(), args[0])
				if err != nil {
					return err
				}
				if err := l.Unblock(ctx, pool); err != nil {
					return err
				}
				return a.tellPool(ctx, l, pool)
			})
		},
		ValidArgsFunction: a.completeFirst(func(s *settings) []string { return poolNames(s.book) }),
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) adjustCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "adjust POOL UNITS --reason TEXT",
		Short: "Correct the usage of a pool",
		Long: `Add units to the usage of a pool that something else has spent, or subtract units that
were counted wrongly. Positive units may exceed the limit. The pool then grants nothing
until enough of them have left the windows. Negative units give back the oldest usage
first, and no more than was used. The reason is kept in the spend.

If the ledger has forgotten the pool, this also accepts the pool: give the units that the
ledger lacks.`,
		Example: `  ingestor quota adjust youtube/units 250 --reason "tried things out in the console"
  ingestor quota adjust youtube/units -40 --reason "counted twice"`,
		Args: takes(2, 2, "a pool and units"),
		RunE: func(cmd *cobra.Command, args []string) error {
			units, err := strconv.ParseInt(strings.TrimSpace(args[1]), 10, 64)
			if err != nil {
				return usage("units must be a whole number, as 250 or -40, not %q", args[1])
			}
			if err := needReason(reason); err != nil {
				return err
			}
			return a.withLedger(cmd, func(ctx context.Context, l *quota.Ledger) error {
				pool, err := findPool(l.Book(), args[0])
				if err != nil {
					return err
				}
				recorded, err := l.Adjust(ctx, pool, units, reason)
				if err != nil {
					return badUsage(err)
				}
				if recorded != units {
					fmt.Fprintf(a.stderr, "ingestor: gave back %s of %s units, because no more was used\n", view.Number(-recorded), view.Number(-units))
				}
				a.acceptAdjusted(ctx, l)
				return a.tellPool(ctx, l, pool)
			})
		},
		ValidArgsFunction: a.completeFirst(func(s *settings) []string { return poolNames(s.book) }),
	}
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why; it is kept in the spend (required)")
	return cmd
}

// negatives keeps the units of `quota adjust POOL -40` from being read as a flag.
func negatives(args []string) []string {
	if !slices.Contains(args, "adjust") {
		return args
	}
	args = slices.Clone(args)
	for i, text := range args {
		if text == "--" {
			break
		}
		if _, err := strconv.ParseInt(text, 10, 64); err == nil && strings.HasPrefix(text, "-") {
			args[i] = " " + text
		}
	}
	return args
}

func needReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return usage("--reason is missing; write why, for other people")
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
			err = usage("pool %s has no keys; write %s", name, name)
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
	return quota.Pool{}, usage("there is no pool %q; the price book has %s", text, strings.Join(names, ", "))
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
func (a *app) tellPool(ctx context.Context, l *quota.Ledger, pool quota.Pool) error {
	all, err := l.Usage(ctx, pool.Upstream, pool.Account)
	if lost, ok := errors.AsType[*quota.ForgottenError](err); ok && lost.Pool != pool {
		fmt.Fprintf(a.stderr, "ingestor: %s was changed, but %s\n", pool, lost)
		return nil
	}
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(u quota.Usage) bool { return u.Pool != pool })
	if len(all) == 0 && pool.Key == "" {
		return fmt.Errorf("the ledger does not show %s", pool)
	}
	views := view.Pools(all)
	return a.print(views, func(s *sheet) { s.quotaTable(views) })
}

// badUsage marks bad input from the command line as an error of usage.
func badUsage(err error) error {
	if exitCode(err) == exitConfig && !errors.Is(err, quota.ErrStaleBook) {
		return &exit{exitUsage, err}
	}
	return err
}
