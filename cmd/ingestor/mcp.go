package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/internal/agents"
	"github.com/headroom-quota/headroom/quota"
)

// mcpFlags are the flags of ingestor mcp.
type mcpFlags struct {
	job, class, account string
	upstreams           []string
	budget              int64
	wait                time.Duration
}

func (a *app) mcpCommand() *cobra.Command {
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
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withMeter(cmd, exitDone, f.check, func(ctx context.Context, _ *settings, l *quota.Ledger, _ *closers) error {
				return a.mcp(ctx, l, &f)
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
func (f *mcpFlags) check(s *settings) error {
	switch {
	case f.budget < 1:
		return usage("--budget is missing: how many units may the session spend?\nFor example: ingestor mcp --budget 500")
	case !callerName.MatchString(f.job):
		return usage("--job: %w", errCallerName)
	case f.wait < 0:
		return usage("--wait is 0 or more")
	}
	return s.knownFlags(&f.upstreams, f.account, f.class)
}

func (a *app) mcp(ctx context.Context, l *quota.Ledger, f *mcpFlags) error {
	err := agents.Serve(ctx, l, a.stdin, a.stdout, &agents.Options{
		Budget: f.budget, Job: f.job, Class: f.class, Account: f.account, Upstreams: f.upstreams, Wait: f.wait, Version: build().Version, Log: a.log,
		Trace: a.traces.Reserve,
	})
	if err != nil && !errors.Is(err, quota.ErrOutage) {
		return &exit{exitFailed, err}
	}
	return err
}
