package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/agents"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/program"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/meter"
)

type execFlags struct {
	job, class, account, state, onRefusal string
	upstreams, passEnv                    []string
	budget                                int64
	wait, deadline, grace                 time.Duration
	untilDone                             bool
}

func ExecCommand(a *session.Session) *cobra.Command {
	var f execFlags
	cmd := console.Command("exec --job NAME -- COMMAND [ARGS...]", func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return console.Usage("%s needs a command after --\nFor help: %[1]s --help", cmd.CommandPath())
		}
		return nil
	}, func(cmd *cobra.Command, args []string) error {
		return a.WithMeter(cmd, console.ExitDeferred, f.check, func(ctx context.Context, s *settings.Settings, l *quota.Ledger, done *console.Closers) error {
			return execProgram(ctx, a, s, l, done, &f, args)
		})
	})
	cmd.Flags().StringVar(&f.job, "job", "", "`name` of the job, for its lock and the spend")
	cmd.Flags().StringSliceVar(&f.upstreams, "upstream", nil, "only this `upstream`; repeat the flag for more (default all of the price book)")
	cmd.Flags().StringVar(&f.class, "class", "", "`class` of the calls")
	cmd.Flags().StringVar(&f.account, "account", "", "`account` that is charged (default the one called default)")
	cmd.Flags().Int64Var(&f.budget, "budget", 0, "`number` of units that the job may spend on a day in UTC (default no bound)")
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "longest `duration` that a call waits for units (default 0s)")
	cmd.Flags().DurationVar(&f.deadline, "deadline", 0, "stop the program after this `duration` (default never)")
	cmd.Flags().DurationVar(&f.grace, "grace", 10*time.Second, "`duration` from SIGTERM to SIGKILL")
	cmd.Flags().StringVar(&f.onRefusal, "on-refusal", "finish", "`what` to do when the quota is used up: finish or stop")
	cmd.Flags().StringVar(&f.state, "state", "", "`file` for the last STATE message of the output")
	cmd.Flags().StringSliceVar(&f.passEnv, "pass-env", nil, "`variable` that the program gets although it may hold a secret, such as PGPASSWORD")
	cmd.Flags().BoolVar(&f.untilDone, "until-done", false, "wait for units and run the program again, until it is done")
	_ = cmd.RegisterFlagCompletionFunc("on-refusal", cobra.FixedCompletions([]string{"finish", "stop"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// execJob has the names of jobs in the configuration, and those with a hyphen.
var execJob = pattern.Of(`^[a-z0-9][a-z0-9_-]{0,62}$`)

func (f *execFlags) check(s *settings.Settings) error {
	switch {
	case f.job == "":
		return console.Usage("--job is missing: name the job, for its lock and the spend")
	case !execJob().MatchString(f.job):
		return console.Usage("--job is %q; a name has up to 63 lower-case letters, digits, - and _", f.job)
	case f.onRefusal != "finish" && f.onRefusal != "stop":
		return console.Usage("--on-refusal is %q; write finish or stop", f.onRefusal)
	case f.budget < 0 || f.wait < 0 || f.deadline < 0 || f.grace < 0:
		return console.Usage("--budget, --wait, --deadline and --grace are 0 or more")
	}
	if f.state != "" {
		var err error
		if f.state, err = filepath.Abs(f.state); err != nil {
			return console.Usage("--state: %w", err)
		}
	}
	return s.KnownFlags(&f.upstreams, f.account, f.class)
}

func execProgram(ctx context.Context, a *session.Session, s *settings.Settings, l *quota.Ledger, done *console.Closers, f *execFlags, args []string) error {
	lock, err := a.Opened.Lock(ctx, cmp.Or(f.account, quota.DefaultAccount)+"/"+f.job) // as a run of a job has it
	if err != nil {
		return err
	}
	done.Add(lock.Unlock)
	held, stop := heldBy(a.Abort, lock)
	defer stop()
	with, err := a.Proxied(s, l)
	if err != nil {
		return err
	}
	p, err := program.New(ctx, a.Abort, l, &program.Options{
		Job: f.job, Args: args, Upstreams: f.upstreams, Class: f.class, Account: f.account, Budget: f.budget, Wait: f.wait, PassEnv: f.passEnv,
		Grace: f.grace, Stop: f.onRefusal == "stop", State: f.state, Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Lock: lock, Proxy: with,
	})
	switch {
	case errors.Is(err, quota.ErrBadInput):
		return console.Config(err)
	case err != nil:
		return &console.Exit{Code: console.ExitDown, Err: err}
	}
	done.Add(p.Close)
	for {
		err := f.run(ctx, held, p)
		var refused *program.RefusedError
		if !errors.As(err, &refused) {
			return programEnded(err)
		}
		what := "the quota"
		if errors.As(err, new(*meter.BudgetError)) {
			what = "the budget of the job"
		}
		fmt.Fprintf(a.Stderr, "job %s: %s is used up; it can resume at %s\n", f.job, what, refused.RetryAt.UTC().Format(time.RFC3339))
		if !f.untilDone || ctx.Err() != nil {
			return &console.Exit{Code: console.ExitDeferred}
		}
		if err := rest(ctx, held, refused.RetryAt.Sub(a.Now())); err != nil {
			return err
		}
	}
}

// run runs the program once, within its deadline.
func (f *execFlags) run(ctx, held context.Context, p *program.Program) error {
	if f.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.deadline, &console.Exit{Code: console.ExitDeferred, Err: fmt.Errorf("it was stopped after %s, by --deadline", f.deadline)})
		defer cancel()
	}
	return p.Run(ctx, held)
}

// heldBy returns a context that ends when a lock is lost.
func heldBy(ctx context.Context, lock lease.Lock) (held context.Context, stop func()) {
	held, end := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-lock.Lost():
			end(ingest.ErrLostLock)
		case <-held.Done():
		}
	}()
	return held, func() { end(nil) }
}

// rest waits before a program runs again. It returns an error if the lock is lost meanwhile.
func rest(ctx, held context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-held.Done():
		return context.Cause(held)
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func programEnded(err error) error {
	switch {
	case errors.Is(err, program.ErrFailed):
		return &console.Exit{Code: console.ExitFailed, Err: err}
	case errors.Is(err, program.ErrStart):
		return &console.Exit{Code: console.ExitUsage, Err: err}
	}
	return err
}

type mcpFlags struct {
	job, class, account string
	upstreams           []string
	budget              int64
	wait                time.Duration
}

func MCPCommand(a *session.Session) *cobra.Command {
	var f mcpFlags
	cmd := console.Command("mcp --budget NUMBER", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return a.WithMeter(cmd, console.ExitDone, f.check, func(ctx context.Context, _ *settings.Settings, l *quota.Ledger, _ *console.Closers) error {
			return serveTools(ctx, a, l, &f)
		})
	})
	cmd.Flags().Int64Var(&f.budget, "budget", 0, "`number` of units that the session may spend, of all pools together")
	cmd.Flags().StringVar(&f.job, "job", "agent", "`name` of the job of its calls, in the spend")
	cmd.Flags().StringVar(&f.class, "class", "", "`class` of its calls")
	cmd.Flags().StringVar(&f.account, "account", "", "`account` that is charged (default the one called default)")
	cmd.Flags().StringSliceVar(&f.upstreams, "upstream", nil, "only this `upstream`; repeat the flag for more (default all of the price book)")
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "longest `duration` that a call waits for units (default 0s)")
	return cmd
}

func (f *mcpFlags) check(s *settings.Settings) error {
	switch {
	case f.budget < 1:
		return console.Usage("--budget is missing: how many units may the session spend?\nFor example: ingestor mcp --budget 500")
	case !settings.CallerName().MatchString(f.job):
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
