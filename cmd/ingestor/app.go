package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headroom-quota/headroom/internal/traces"
	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// app is the state that the commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	abort          context.Context // its end also ends open calls

	configPath string
	output     string
	quiet      bool

	clock    quota.Clock    // nil: the machine's clock
	observer quota.Observer // of the ledger; may be nil
	traces   *traces.Traces // nil: no traces are sent

	counting view.Counting // what watch tells

	loaded *settings
	opened *open.Opened // the ledger; nil until it is needed
	log    *slog.Logger
	lines  lines // the destination of the log
}

// root returns the command with all its subcommands.
func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ingestor",
		Short: "Fetch from the YouTube Data API inside its quota, for many regions",
		Long: `ingestor fetches charts, search results, uploads and statistics from the YouTube Data
API, for many regions on one shared quota. Every call reserves its units in a ledger
before it is sent. When the quota is used up, a run stops cleanly and reports when it
can resume. The next run resumes where it stopped.

With OTEL_EXPORTER_OTLP_ENDPOINT=http://HOST:4318, all commands that make or meter calls
send traces to an OpenTelemetry collector.`,
		Example: `  ingestor demo          see it work: no key, no server, no configuration
  ingestor init          write ingestor.yaml, and show lines for cron and systemd
  ingestor run --once    run all jobs once
  ingestor quota         show what is left`,
		Version:       build().Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          known,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	cmd.SetHelpTemplate("{{.Short}}\n\n{{with .Long}}{{.}}\n\n{{end}}{{.UsageString}}")
	cmd.SetOut(a.stdout)
	cmd.SetErr(a.stderr)
	cmd.SetIn(a.stdin)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w\nFor help: %s --help", err, cmd.CommandPath())
	})
	f := cmd.PersistentFlags()
	f.StringVar(&a.configPath, "config", os.Getenv("INGESTOR_CONFIG"), "configuration `file` (default ./ingestor.yaml, or the one of your user)")
	addFlags(cmd, f, forAll)
	cmd.AddCommand(a.backfillCommand(), a.runCommand(), a.serveCommand(), a.proxyCommand(), a.callCommand(), a.execCommand(), a.mcpCommand(), a.quotaCommand(), a.reconcileCommand(), a.limitsCommand(), a.trendingCommand(), a.searchCommand(), a.regionsCommand(),
		a.ledgerCommand(), a.tokenCommand(), a.probeCommand(), a.runsCommand(), a.stateCommand(), a.versionCommand(), a.demoCommand(), a.proveCommand(), a.sandboxCommand(),
		a.initCommand(), a.configCommand(), a.costsCommand(), a.doctorCommand(), a.checkCommand(), a.planCommand(), a.catalogCommand(), a.fleetCommand())
	return cmd
}

// settings reads the configuration once, and returns it.
func (a *app) settings(flags *pflag.FlagSet) (*settings, error) {
	if a.loaded != nil {
		return a.loaded, nil
	}
	s, err := load(a.configPath, flags)
	if err != nil {
		return nil, err
	}
	a.loaded, a.log = s, a.logger(s)
	redirectStandardLog(a.log)
	return s, nil
}

// trace starts sending traces, if the environment names a collector.
func (a *app) trace(ctx context.Context, done *closers) {
	a.traces = traces.Start(ctx, &traces.Options{Log: a.log, Version: build().Version})
	done.add(func() error { a.traces.Stop(a.abort); return nil })
}

// known returns an error for an unknown command.
func known(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		return usage("there is no command %q; did you mean %s?", args[0], strings.Join(like, " or "))
	}
	return usage("there is no command %q\nTo list the commands: %s --help", args[0], cmd.CommandPath())
}

// noArgs returns an error if there are arguments. It is cobra.NoArgs with our exit code.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments, but got %q\nFor help: %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}

// takes returns an error if there are fewer or more arguments than it names.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usage("%s takes %s\nFor help: %[1]s --help", cmd.CommandPath(), what)
		}
		return nil
	}
}

// closers closes what was opened, in reverse order.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

func (c *closers) close() error {
	var all error
	for i := len(*c) - 1; i >= 0; i-- {
		all = errors.Join(all, (*c)[i]())
	}
	if all != nil {
		return fmt.Errorf("close: %w", all)
	}
	return nil
}
