package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/internal/boundary"
)

// proveFlags are the flags of ingestor prove.
type proveFlags struct {
	limit int
	per   time.Duration
	svg   string
}

// The defaults of the limiters. On Redis the window takes real time.
const (
	proveLimit   = 50
	provePer     = 10 * time.Second
	provePerReal = 2 * time.Second
)

func ProveCommand(a *session.Session) *cobra.Command {
	var f proveFlags
	cmd := a.WithOutput(&cobra.Command{
		Use:   "prove",
		Short: "Show how much each rate limiter lets through in the worst case",
		Long: `Send the same requests to five rate limiters: a fixed window, GCRA (a leaky bucket with a
burst as large as the limit), and the counter, the log and the ring of this project. The
first table shows a full burst just before a boundary, and another just after it. The
second shows the most that each limiter accepted within one trailing window, on the
timeline that was the worst for it. One function counts the accepted requests of all
five.

The limiters run in the store that --ledger names. The environment and the file are
ignored here. The stores are memory: (the default), sqlite:PATH and Redis. In SQLite the
limiters use files of their own beside PATH, and never open PATH. In Redis they use keys
of their own: the fixed window is INCR and EXPIRE, and GCRA is that of redis_rate. The
command removes everything when it ends, also after an interrupt.

In memory and in SQLite the clock is simulated. In Redis the command takes about three
windows of real time, of 2s each unless --per says otherwise.

Exit codes: 0 the log and the ring kept the limit; 1 one of them did not; 69 Redis does
not answer; 75 interrupted; 78 the ledger or the picture cannot be created.`,
		Example: `  ingestor prove
  ingestor prove --limit 100 --per 1m --svg worst.svg
  ingestor prove --ledger redis://localhost:6379/0
  ingestor prove --output json`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ledger := "memory:"
			if flag := cmd.Flags().Lookup("ledger"); flag.Changed {
				ledger = flag.Value.String()
			}
			return prove(cmd.Context(), a, ledger, &f, cmd.Flags().Changed("per"))
		},
	})
	cmd.Flags().IntVar(&f.limit, "limit", proveLimit, "`number` of requests that a window may have")
	cmd.Flags().DurationVar(&f.per, "per", provePer, "`duration` of the window")
	cmd.Flags().StringVar(&f.svg, "svg", "", "also draw a picture into this `file`")
	return cmd
}

func prove(ctx context.Context, a *session.Session, ledger string, f *proveFlags, perSaid bool) (err error) {
	switch {
	case f.limit < 1 || f.limit > 10_000:
		return console.Usage("--limit must be 1 to 10000, not %d", f.limit)
	case f.per < time.Second || f.per > 24*time.Hour || f.per%time.Second != 0:
		return console.Usage("--per must be whole seconds from 1s to 24h, not %s", f.per)
	}
	var done console.Closers
	defer func() { err = errors.Join(err, done.Close()) }()
	home, err := openProve(ctx, ledger, &done)
	if err != nil {
		return err
	}
	if home.real && !perSaid {
		f.per = provePerReal
	}
	r := boundary.Rate{Limit: f.limit, Per: f.per}
	if home.real && a.Output != "json" {
		fmt.Fprintf(a.Stderr, "The clock of Redis cannot be simulated, so this takes up to %s.\n", console.Length(31*r.Per/10)) // a tenth before a boundary and two windows after it
	}
	results, err := home.run(ctx, r)
	if err != nil {
		return err
	}
	v := proved(home, r, results)
	if f.svg != "" {
		if err := os.WriteFile(f.svg, v.svg(), 0o644); err != nil {
			return console.Config(err) // exit code 1 means that a limiter failed
		}
	}
	if err := a.Print(v, func(s *console.Sheet) { v.show(s); v.showPicture(s, f.svg) }); err != nil {
		return err
	}
	return v.broken()
}

// broken returns an error that names the limiters that promise the limit and did not keep
// it.
func (v *ProveView) broken() error {
	var names []string
	for _, l := range v.Limiters {
		if l.OverBy > 0 && l.Promises() {
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s let more than %d through, which must never happen\nPlease report it as a bug", strings.Join(names, " and "), v.Limit)
}
