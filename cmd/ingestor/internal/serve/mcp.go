package serve

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/agents"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/quota"
)

// mcpFlags are the flags of ingestor mcp.
type mcpFlags struct {
	job, class, account string
	upstreams           []string
	budget              int64
	wait                time.Duration
}

func MCPCommand(a *session.Session) *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{
		Use:   "mcp --budget NUMBER",
		Short: "Serve tools for agents over standard input and output",
		Long: `Serve the tools reserve, settle, quota and plan in the Model Context Protocol, over standard
input and output. An agent host starts this program, once for each session. docs/mcp.md has
its configuration.

The agent reserves units before each call of a metered API, and settles the call if it cost
something else. --budget bounds what the session spends, of all pools together. The agent
cannot change the labels of its calls, and it gets no API key.

The session ends when the host hangs up. Calls that wait for units end then. What was
reserved and not settled counts as spent.

Exit codes: 0 the session has ended; 64 usage; 78 configuration; 69 the ledger is down.`,
		Example: `  ingestor mcp --budget 500
  ingestor mcp --budget 500 --job researcher --class backfill --upstream youtube --wait 30s`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithMeter(cmd, console.ExitDone, f.check, func(ctx context.Context, _ *settings.Settings, l *quota.Ledger, _ *console.Closers) error {
				return serveTools(ctx, a, l, &f)
			})
		},
	}
	cmd.Flags().Int64Var(&f.budget, "budget", 0, "`number` of units that the session may spend, of all pools together")
	cmd.Flags().StringVar(&f.job, "job", "agent", "`name` of the job of its calls, in the spend")
	cmd.Flags().StringVar(&f.class, "class", "", "`class` of its calls")
	cmd.Flags().StringVar(&f.account, "account", "", "`account` that is charged (default the one called default)")
	cmd.Flags().StringSliceVar(&f.upstreams, "upstream", nil, "only this `upstream`; repeat the flag for more (default all of the price book)")
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "longest `duration` that a call waits for units (default 0s)")
	return cmd
}

// check returns an error for flags that make no sense.
func (f *mcpFlags) check(s *settings.Settings) error {
	switch {
	case f.budget < 1:
		return console.Usage("--budget is missing: how many units may the session spend?\nFor example: ingestor mcp --budget 500")
	case !settings.CallerName.MatchString(f.job):
		return console.Usage("--job: %w", settings.ErrCallerName)
	case f.wait < 0:
		return console.Usage("--wait is 0 or more")
	}
	return s.KnownFlags(&f.upstreams, f.account, f.class)
}

func serveTools(ctx context.Context, a *session.Session, l *quota.Ledger, f *mcpFlags) error {
	err := agents.Serve(ctx, l, a.Stdin, a.Stdout, &agents.Options{
		Budget: f.budget, Job: f.job, Class: f.class, Account: f.account, Upstreams: f.upstreams, Wait: f.wait, Version: session.Build().Version, Log: a.Log,
		Trace: a.Traces.Reserve,
	})
	if err != nil && !errors.Is(err, quota.ErrOutage) {
		return &console.Exit{Code: console.ExitFailed, Err: err}
	}
	return err
}
