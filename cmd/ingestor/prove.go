package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/internal/boundary"
)

// proveFlags are those of ingestor prove.
type proveFlags struct {
	limit int
	per   time.Duration
	svg   string
}

// What limiters are set to, if nobody says otherwise. On Redis it is lived through.
const (
	proveLimit   = 50
	provePer     = 10 * time.Second
	provePerReal = 2 * time.Second
)

func (a *app) proveCommand() *cobra.Command {
	var f proveFlags
	cmd := &cobra.Command{
		Use:   "prove",
		Short: "Show what limiters let through at worst: others', and ours",
		Long: `Puts the same requests to five limiters, call by call: a fixed window, GCRA (a leaky
bucket that takes a burst as large as the limit), the two-counter estimate, the exact
log and the ring, which are ours. First a full burst just before a boundary and another
just after it; then the most that each let through within one trailing window, on the
timeline that was the worst for it. What is told is counted from the instants of the
requests that were accepted, by the same function for all.

They live where --ledger says, and only a flag says so: in memory: (the default), in
sqlite:PATH (in files of its own beside PATH, which is never opened) or in a Redis (under
keys of its own; there the fixed window is INCR and EXPIRE, and GCRA what redis_rate
does). All is removed in the end, also after an interrupt. In memory and in SQLite the
clock is moved; that of a Redis cannot be, so there it takes about three windows of real
time, of 2s if --per does not say.

Exit codes: 0 the log and the ring never let more than the limit through, 1 one of them
did, 69 the Redis does not answer, 75 interrupted, 78 the ledger or the picture cannot be
made.`,
		Example: `  ingestor prove
  ingestor prove --limit 100 --per 1m --svg worst.svg
  ingestor prove --ledger redis://localhost:6379/0
  ingestor prove --output json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ledger := "memory:"
			if flag := cmd.Flags().Lookup("ledger"); flag.Changed {
				ledger = flag.Value.String()
			}
			return a.prove(cmd.Context(), ledger, &f, cmd.Flags().Changed("per"))
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().IntVar(&f.limit, "limit", proveLimit, "so many requests")
	cmd.Flags().DurationVar(&f.per, "per", provePer, "in any window of that `length`")
	cmd.Flags().StringVar(&f.svg, "svg", "", "write a picture to this `file`, too")
	return cmd
}

func (a *app) prove(ctx context.Context, ledger string, f *proveFlags, perSaid bool) (err error) {
	switch {
	case f.limit < 1 || f.limit > 10_000:
		return usage("--limit must be 1 to 10000, is %d", f.limit)
	case f.per < time.Second || f.per > 24*time.Hour || f.per%time.Second != 0:
		return usage("--per must be whole seconds, 1s to 24h, is %s", f.per)
	}
	var done closers
	defer func() { err = errors.Join(err, done.close()) }()
	home, err := openProve(ctx, ledger, &done)
	if err != nil {
		return err
	}
	if home.real && !perSaid {
		f.per = provePerReal
	}
	r := boundary.Rate{Limit: f.limit, Per: f.per}
	if home.real && a.output != "json" {
		fmt.Fprintf(a.stderr, "The clock of a Redis cannot be moved: this takes %s at most.\n", length(31*r.Per/10)) // a tenth before a boundary and two windows after it
	}
	results, err := home.run(ctx, r)
	if err != nil {
		return err
	}
	v := proved(home, r, results)
	if f.svg != "" {
		if err := os.WriteFile(f.svg, v.svg(), 0o644); err != nil {
			return config(err) // 1 is for what was proved
		}
	}
	if err := a.print(v, func(s *sheet) { v.show(s); v.showPicture(s, f.svg) }); err != nil {
		return err
	}
	return v.broken()
}

// broken says which of those that promise it did not keep their limit.
func (v *proveView) broken() error {
	var names []string
	for _, l := range v.Limiters {
		if l.OverBy > 0 && l.promises() {
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("this must never be: %s let more than %d through; please report it", strings.Join(names, " and "), v.Limit)
}
