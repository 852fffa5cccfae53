package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/program"
	"github.com/headroom-quota/headroom/internal/proxy"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/meter"
)

// execFlags are the flags of ingestor exec.
type execFlags struct {
	job, class, account, state, onRefusal string
	upstreams                             []string
	budget                                int64
	wait, deadline, grace                 time.Duration
	untilDone                             bool
}

func (a *app) execCommand() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec --job NAME -- COMMAND [ARGS...]",
		Short: "Run a program whose calls are metered, and stop it when the quota is used up",
		Long: `Run a program that cannot be changed, such as a Singer tap or a shell script, with a proxy
of its own. These variables tell it where to call:

  HEADROOM_PROXY   the address of the proxy; /UPSTREAM follows, as in HEADROOM_PROXY/youtube
  HEADROOM_TOKEN   the token that the program sends in place of the API key
  HEADROOM_STATE   the file of --state

For each upstream whose SDKs read a variable of their own, such as OPENAI_BASE_URL, that is
set, too. The program does not get the API keys.

The program has the lock of the job: it does not run twice at once, nor beside a job of
that name. Its calls have the job's name in the spend.

With --state, the last STATE message of the program's output is kept in a file, which is
replaced atomically. Its output is passed on line by line, without an incomplete last line.

If a call is refused because the quota or --budget is used up, the program finishes by
itself. With --on-refusal stop, it gets SIGTERM, and SIGKILL after --grace. Either way the
exit code is 75, and the time at which it can resume is shown. --until-done waits until then
and runs the program again, until it ends without a refusal.

A job of kind command in the configuration does the same by cron, with ingestor run.

Exit codes: 0 done; 75 deferred (the quota is used up, the deadline has passed, another
process has the job, or a signal stopped it); 1 the program failed; 64 usage;
78 configuration; 69 the ledger is down.`,
		Example: `  ingestor exec --job tap -- sh -c 'exec tap --url "$HEADROOM_PROXY/youtube" --key "$HEADROOM_TOKEN"'
  ingestor exec --job tap --state tap.json --budget 2000 --deadline 30m -- ./tap.sh
  ingestor exec --job nightly --on-refusal stop --grace 30s --until-done -- python3 extract.py`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s needs a command after --\nFor help: %[1]s --help", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withMeter(cmd, exitDeferred, f.check, func(ctx context.Context, s *settings, l *quota.Ledger, done *closers) error {
				return a.exec(ctx, s, l, done, &f, args)
			})
		},
	}
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
	cmd.Flags().BoolVar(&f.untilDone, "until-done", false, "wait for units and run the program again, until it is done")
	_ = cmd.RegisterFlagCompletionFunc("on-refusal", cobra.FixedCompletions([]string{"finish", "stop"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check returns an error for flags that make no sense.
func (f *execFlags) check(s *settings) error {
	switch {
	case f.job == "":
		return usage("--job is missing: name the job, for its lock and the spend")
	case !callerName.MatchString(f.job):
		return usage("--job: %w", errCallerName)
	case f.onRefusal != "finish" && f.onRefusal != "stop":
		return usage("--on-refusal is %q; write finish or stop", f.onRefusal)
	case f.budget < 0 || f.wait < 0 || f.deadline < 0 || f.grace < 0:
		return usage("--budget, --wait, --deadline and --grace are 0 or more")
	}
	if f.state != "" {
		var err error
		if f.state, err = filepath.Abs(f.state); err != nil {
			return usage("--state: %w", err)
		}
	}
	return s.knownFlags(&f.upstreams, f.account, f.class)
}

func (a *app) exec(ctx context.Context, s *settings, l *quota.Ledger, done *closers, f *execFlags, args []string) error {
	lock, err := a.opened.Lock(ctx, cmp.Or(f.account, quota.DefaultAccount)+"/"+f.job) // as a run of a job has it
	if err != nil {
		return err
	}
	done.add(lock.Unlock)
	held, stop := heldBy(a.abort, lock)
	defer stop()
	with, err := a.proxied(s, l, f.job)
	if err != nil {
		return err
	}
	p, err := program.New(ctx, a.abort, l, &program.Options{
		Job: f.job, Args: args, Upstreams: f.upstreams, Class: f.class, Account: f.account, Budget: f.budget, Wait: f.wait,
		Grace: f.grace, Stop: f.onRefusal == "stop", State: f.state, Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr, Proxy: with,
	})
	if err != nil {
		return notStarted(err)
	}
	done.add(p.Close)
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
		fmt.Fprintf(a.stderr, "job %s: %s is used up; it can resume at %s\n", f.job, what, refused.RetryAt.UTC().Format(time.RFC3339))
		if !f.untilDone || ctx.Err() != nil {
			return &exit{code: exitDeferred}
		}
		if err := rest(ctx, held, refused.RetryAt.Sub(a.now())); err != nil {
			return err
		}
	}
}

// run runs the program once, within its deadline.
func (f *execFlags) run(ctx, held context.Context, p *program.Program) error {
	if f.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.deadline, &exit{exitDeferred, fmt.Errorf("it was stopped after %s, by --deadline", f.deadline)})
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

// proxied returns the settings of the proxy of a program.
func (a *app) proxied(s *settings, l *quota.Ledger, job string) (proxy.Options, error) {
	keys, err := s.allKeys()
	return proxy.Options{
		Base: s.baseOfAll(), Clock: a.clock, Log: a.log, Keys: keys, Memory: filepath.Join(s.state, "exec-"+job+"-costs.json"),
		Metered: func(t http.RoundTripper) http.RoundTripper { return a.traces.Calls(l, t) },
	}, err
}

// notStarted returns an error of a program's proxy, with its exit code.
func notStarted(err error) error {
	if errors.Is(err, quota.ErrBadInput) {
		return config(err)
	}
	return &exit{exitDown, err}
}

// programEnded returns how a program ended, with its exit code.
func programEnded(err error) error {
	var failed *program.FailedError
	var unstarted *program.StartError
	switch {
	case errors.As(err, &failed):
		return &exit{exitFailed, err}
	case errors.As(err, &unstarted):
		return &exit{exitUsage, err}
	}
	return err
}
