package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/agents"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/program"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/meter"
)

// execJob has the names of jobs in the configuration, and those with a hyphen.
var execJob = pattern.Of(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// bounded checks the flags of the calls of a job, and returns the units that they may spend, 0 for no bound. A bound in
// money becomes a budget of the price book.
func bounded(a *session.Session, s *settings.Settings, bound access.Bound, job string, upstreams *[]string, account, class string) (units int64, err error) {
	units, _, err = bound.Read()
	if err == nil {
		if err := s.KnownFlags(upstreams, account, class); err != nil {
			return 0, err
		}
		_, err = s.BoundMoney(map[string]*access.Grant{job: {Upstreams: *upstreams, Budget: bound}})
	}
	if err != nil {
		return 0, console.Usage("--budget: %w", err)
	}
	if free := s.Unbilled[job]; free != "" {
		fmt.Fprintf(a.Stderr, "ingestor: warning: job %s: %s\n", job, free)
	}
	return units, nil
}

func ExecCommand(a *session.Session) *cobra.Command {
	var o program.Options
	var budget access.Bound
	var onRefusal string
	var deadline time.Duration
	var untilDone bool
	cmd := console.Command("exec --job NAME -- COMMAND [ARGS...]", func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return console.Usage("%s needs a command after --\nFor help: %[1]s --help", cmd.CommandPath())
		}
		return nil
	}, func(cmd *cobra.Command, args []string) error {
		check := func(s *settings.Settings) (err error) {
			switch {
			case o.Job == "":
				return console.Usage("--job is missing: name the job, for its lock and the spend")
			case !execJob().MatchString(o.Job):
				return console.Usage("--job is %q; a name has up to 63 lower-case letters, digits, - and _", o.Job)
			case onRefusal != "finish" && onRefusal != "stop":
				return console.Usage("--on-refusal is %q; write finish or stop", onRefusal)
			case o.Wait < 0 || deadline < 0 || o.Grace < 0:
				return console.Usage("--wait, --deadline and --grace are 0 or more")
			}
			if o.State != "" {
				if o.State, err = filepath.Abs(o.State); err != nil {
					return console.Usage("--state: %w", err)
				}
			}
			o.Budget, err = bounded(a, s, budget, o.Job, &o.Upstreams, o.Account, o.Class)
			return err
		}
		return a.WithMeter(cmd, console.ExitDeferred, check, func(ctx context.Context, s *settings.Settings, l *quota.Ledger, done *console.Closers) (err error) {
			o.Args, o.Stop, o.Stdin, o.Stdout, o.Stderr = args, onRefusal == "stop", a.Stdin, a.Stdout, a.Stderr
			if o.Lock, err = a.Opened.Lock(ctx, cmp.Or(o.Account, quota.DefaultAccount)+"/"+o.Job); err != nil { // as a run of a job has it
				return err
			}
			done.Add(o.Lock.Unlock)
			held, stop := heldBy(a.Abort, o.Lock)
			defer stop()
			if o.Proxy, err = a.Proxied(s, l); err != nil {
				return err
			}
			p, err := program.New(ctx, a.Abort, l, &o)
			switch {
			case errors.Is(err, quota.ErrBadInput):
				return console.Config(err)
			case err != nil:
				return &console.Exit{Code: console.ExitDown, Err: err}
			}
			done.Add(p.Close)
			for {
				err := runWithin(ctx, held, deadline, p)
				refused, is := errors.AsType[*program.RefusedError](err)
				switch {
				case is:
				case errors.Is(err, program.ErrFailed):
					return &console.Exit{Code: console.ExitFailed, Err: err}
				case errors.Is(err, program.ErrStart):
					return &console.Exit{Code: console.ExitUsage, Err: err}
				default:
					return err
				}
				what := "the quota"
				if errors.As(err, new(*meter.BudgetError)) {
					what = "the budget of the job"
				} else if no, is := errors.AsType[*quota.RefusedError](err); is && no.Pool.Upstream == book.Budgets {
					what = "its budget in money"
				}
				fmt.Fprintf(a.Stderr, "job %s: %s is used up; it can resume at %s\n", o.Job, what, refused.RetryAt.UTC().Format(time.RFC3339))
				if !untilDone || ctx.Err() != nil {
					return &console.Exit{Code: console.ExitDeferred}
				}
				if err := rest(ctx, held, refused.RetryAt.Sub(a.Now()), roomFor(ctx, l, err)); err != nil {
					return err
				}
			}
		})
	})
	cmd.Flags().StringVar(&o.Job, "job", "", "`name` of the job, for its lock and the spend")
	cmd.Flags().StringSliceVar(&o.Upstreams, "upstream", nil, "only this `upstream`; repeat the flag for more (default all of the price book)")
	cmd.Flags().StringVar(&o.Class, "class", "", "`class` of the calls")
	cmd.Flags().StringVar(&o.Account, "account", "", "`account` that is charged (default the one called default)")
	cmd.Flags().StringVar((*string)(&budget), "budget", "", "`bound` of a day in UTC: units, or \"5 USD\" (default none)")
	cmd.Flags().DurationVar(&o.Wait, "wait", 0, "longest `duration` that a call waits for units (default 0s)")
	cmd.Flags().DurationVar(&deadline, "deadline", 0, "stop the program after this `duration` (default never)")
	cmd.Flags().DurationVar(&o.Grace, "grace", 10*time.Second, "`duration` from SIGTERM to SIGKILL")
	cmd.Flags().StringVar(&onRefusal, "on-refusal", "finish", "`what` to do when the quota is used up: finish or stop")
	cmd.Flags().StringVar(&o.State, "state", "", "`file` for the last STATE message of the output")
	cmd.Flags().StringSliceVar(&o.PassEnv, "pass-env", nil, "`variable` that the program gets although it may hold a secret, such as PGPASSWORD")
	cmd.Flags().BoolVar(&untilDone, "until-done", false, "wait for units and run the program again, until it is done")
	_ = cmd.RegisterFlagCompletionFunc("on-refusal", cobra.FixedCompletions([]string{"finish", "stop"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// runWithin runs the program once, within its deadline.
func runWithin(ctx, held context.Context, deadline time.Duration, p *program.Program) error {
	if deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, deadline, &console.Exit{Code: console.ExitDeferred, Err: fmt.Errorf("it was stopped after %s, by --deadline", deadline)})
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

// lookEvery is how often a program that waits for units looks whether a person has made room.
const lookEvery = 2 * time.Second

// rest waits before a program runs again, until its units come back or a person has made room. It returns an error if
// the lock is lost meanwhile.
func rest(ctx, held context.Context, d time.Duration, room func() bool) error {
	over := time.NewTimer(d)
	defer over.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-held.Done():
			return context.Cause(held)
		case <-ctx.Done():
			return ctx.Err()
		case <-over.C:
			return nil
		case <-look.C:
			if room() {
				return nil
			}
		}
	}
}

// roomFor reports whether the units for which a call was refused are there now. If they seem to be there at once, something
// else holds the call back, which time alone changes.
func roomFor(ctx context.Context, l *quota.Ledger, refused error) func() bool {
	no, is := errors.AsType[*quota.RefusedError](refused)
	room := func() bool {
		all, _ := l.View().Usage(ctx, no.Pool.Upstream, no.Pool.Account) // after an error, it looks again
		return slices.ContainsFunc(all, func(u quota.Usage) bool {
			return u.Pool == no.Pool && u.Blocked.IsZero() && !slices.ContainsFunc(u.Allowances, func(w quota.WindowUsage) bool { return w.Remaining < no.Units })
		})
	}
	if !is || room() {
		return func() bool { return false }
	}
	return room
}

func MCPCommand(a *session.Session) *cobra.Command {
	var o agents.Options
	var budget access.Bound
	cmd := console.Command("mcp --budget BOUND", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		check := func(s *settings.Settings) (err error) {
			units, millionths, failed := budget.Read()
			switch {
			case units == 0 && millionths == 0 && failed == nil:
				return console.Usage("--budget is missing: how much may the session spend?\nFor example: ingestor mcp --budget 500")
			case !settings.CallerName().MatchString(o.Job):
				return console.Usage("--job: %w", settings.ErrCallerName)
			case o.Wait < 0:
				return console.Usage("--wait is 0 or more")
			}
			o.Budget, err = bounded(a, s, budget, o.Job, &o.Upstreams, o.Account, o.Class)
			return err
		}
		return a.WithMeter(cmd, console.ExitDone, check, func(ctx context.Context, _ *settings.Settings, l *quota.Ledger, _ *console.Closers) error {
			o.Version, o.Log, o.Trace = session.Build().Version, a.Log, a.Traces.Reserve
			err := agents.Serve(ctx, l, a.Stdin, a.Stdout, &o)
			if err != nil && !errors.Is(err, quota.ErrOutage) {
				return &console.Exit{Code: console.ExitFailed, Err: err}
			}
			return err
		})
	})
	cmd.Flags().StringVar((*string)(&budget), "budget", "", "`bound`: units of the session, or \"5 USD\" a day in UTC of its job")
	cmd.Flags().StringVar(&o.Job, "job", "agent", "`name` of the job of its calls, in the spend")
	cmd.Flags().StringVar(&o.Class, "class", "", "`class` of its calls")
	cmd.Flags().StringVar(&o.Account, "account", "", "`account` that is charged (default the one called default)")
	cmd.Flags().StringSliceVar(&o.Upstreams, "upstream", nil, "only this `upstream`; repeat the flag for more (default all of the price book)")
	cmd.Flags().DurationVar(&o.Wait, "wait", 0, "longest `duration` that a call waits for units (default 0s)")
	return cmd
}
