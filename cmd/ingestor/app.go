package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/jobs"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/ledger"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/serve"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/setup"
)

// root returns the command with all its subcommands.
func root(a *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "ingestor",
		Version:       session.Build().Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          console.Known,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		long := cmd.Long
		if long != "" {
			long += "\n\n"
		}
		_, _ = fmt.Fprintf(a.Stdout, "%s\n\n%s%s", cmd.Short, long, cmd.UsageString()) // nobody hears more if that fails
	})
	cmd.SetOut(a.Stdout)
	cmd.SetErr(a.Stderr)
	cmd.SetIn(a.Stdin)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		types := map[string]reflect.Type{"duration": reflect.TypeFor[time.Duration](), "int": reflect.TypeFor[int](), "int64": reflect.TypeFor[int64]()}
		if value, is := errors.AsType[*pflag.InvalidValueError](err); is && types[value.GetFlag().Value.Type()] != nil {
			if _, ours := settings.FromText(types[value.GetFlag().Value.Type()], value.GetValue()); ours != nil {
				err = fmt.Errorf("--%s: %w", value.GetFlag().Name, ours)
			}
		}
		return console.Usage("%w\nFor help: %s --help", err, cmd.CommandPath())
	})
	f := cmd.PersistentFlags()
	f.StringVar(&a.ConfigPath, "config", os.Getenv("INGESTOR_CONFIG"), "configuration `file` (default ./ingestor.yaml, or the one of your user)")
	settings.AddFlags(cmd, f, settings.ForAll)
	addInGroup(cmd, "First Steps", jobs.DemoCommand(a), setup.InitCommand(a), setup.CheckCommand(a), jobs.SandboxCommand(a))
	addInGroup(cmd, "Jobs and Fetched Data", jobs.RunCommand(a), jobs.BackfillCommand(a), jobs.PlanCommand(a), jobs.RunsCommand(a), jobs.RegionsCommand(a), jobs.TrendingCommand(a), jobs.SearchCommand(a),
		jobs.StateCommand(a), jobs.FleetCommand(a), jobs.NotifyCommand(a), jobs.CatalogCommand(a), jobs.DoctorCommand(a))
	addInGroup(cmd, "Quota and Ledger", ledger.QuotaCommand(a), ledger.LimitsCommand(a), ledger.CostsCommand(a), ledger.ReconcileCommand(a), ledger.Command(a), ledger.ProveCommand(a), ledger.JudgeCommand(a))
	addInGroup(cmd, "Servers, Proxies and Other Programs", serve.Command(a), serve.ProxyCommand(a), serve.ExecCommand(a), serve.CallCommand(a), serve.MCPCommand(a), serve.TokenCommand(a), serve.ProbeCommand(a))
	addInGroup(cmd, "Settings and Help", setup.ConfigCommand(a), setup.VersionCommand(a))
	cmd.SetHelpCommandGroupID("Settings and Help")
	cmd.SetCompletionCommandGroupID("Settings and Help")
	describe(cmd)
	return cmd
}

// addInGroup adds commands under a heading of the help.
func addInGroup(to *cobra.Command, title string, commands ...*cobra.Command) {
	to.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
	for _, c := range commands {
		c.GroupID = title
	}
	to.AddCommand(commands...)
}
