package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/proxy"
	"github.com/headroom-quota/headroom/internal/web"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
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
		RunE: func(cmd *cobra.Command, args []string) error { return a.exec(cmd, &f, args) },
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
	if len(f.upstreams) == 0 {
		f.upstreams = slices.Sorted(maps.Keys(s.book.Upstreams))
	}
	return nil
}

func (a *app) exec(cmd *cobra.Command, f *execFlags, args []string) (err error) {
	ctx := cmd.Context()
	s, err := a.settings(cmd.Flags())
	if err != nil {
		return err
	}
	if err := f.check(s); err != nil {
		return err
	}
	var done closers
	defer func() { err = orStopped(ctx, exitDeferred, errors.Join(err, done.close())) }()
	a.trace(ctx, &done)
	l, err := a.openLedger(ctx, s, &done)
	if err != nil {
		return err
	}
	lock, err := a.opened.Lock(ctx, cmp.Or(f.account, quota.DefaultAccount)+"/"+f.job) // as a run of a job has it
	if err != nil {
		return err
	}
	done.add(lock.Unlock)
	e := &executed{app: a, flags: f, lock: lock, args: args, refused: make(chan struct{}, 1)}
	if err := e.startProxy(ctx, s, l, &done); err != nil {
		return err
	}
	for {
		again, err := e.run(ctx)
		retryAt := e.retryAt()
		if !again || retryAt.IsZero() {
			return err
		}
		fmt.Fprintf(a.stderr, "job %s: the quota is used up; it can resume at %s\n", f.job, retryAt.UTC().Format(time.RFC3339))
		if !f.untilDone || ctx.Err() != nil {
			return &exit{code: exitDeferred}
		}
		if err := e.rest(ctx, retryAt.Sub(a.now())); err != nil {
			return err
		}
	}
}

// rest waits before the program runs again. It returns an error if the lock is lost
// meanwhile.
func (e *executed) rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-e.lock.Lost():
		return ingest.ErrLostLock
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// executed is a program whose calls are metered.
type executed struct {
	*app
	flags *execFlags
	lock  lease.Lock
	args  []string
	env   []string

	mu      sync.Mutex
	last    time.Time     // when units come back, if the last call was refused
	refused chan struct{} // a call was
}

// retryAt returns when the program can resume, if its last call was refused.
func (e *executed) retryAt() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// told notes what came of a call.
func (e *executed) told(retryAt time.Time) {
	e.mu.Lock()
	e.last = retryAt
	e.mu.Unlock()
	if retryAt.IsZero() {
		return
	}
	select {
	case e.refused <- struct{}{}:
	default:
	}
}

// startProxy starts the proxy of the program, and makes its environment.
func (e *executed) startProxy(ctx context.Context, s *settings, l *quota.Ledger, done *closers) error {
	keys, err := s.allKeys()
	if err != nil {
		return err
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // it never fails
	text := hex.EncodeToString(secret[:])
	token, err := web.NewToken(e.flags.job, text)
	if err != nil {
		return err
	}
	grant := proxy.Grant{Upstreams: e.flags.upstreams, Accounts: []string{"*"}, Budget: e.flags.budget}
	if e.flags.class != "" {
		grant.Classes = []string{e.flags.class}
	}
	h, err := proxy.New(l, []*proxy.Token{{Token: token, Name: e.flags.job, Grant: grant}}, &proxy.Options{
		Base: s.baseOfAll(), Clock: e.clock, Log: e.log, Keys: keys, Memory: filepath.Join(s.state, "exec-"+e.flags.job+"-costs.json"),
		Defaults: proxy.Labels{Class: e.flags.class, Account: e.flags.account, Wait: e.flags.wait},
		Metered:  func(t http.RoundTripper) http.RoundTripper { return e.traces.Calls(l, t) },
		Told:     e.told,
	})
	if err != nil {
		return config(err)
	}
	var how net.ListenConfig
	listener, err := how.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return &exit{exitDown, err}
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // the program may finish its calls
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(serving, e.abort, listener, nil) }()
	done.add(func() error { stop(); return <-ended })
	e.env = e.environment(s, "http://"+listener.Addr().String(), text)
	return nil
}

// environment returns the variables of the program: ours, without those that hold secrets.
func (e *executed) environment(s *settings, address, token string) []string {
	env := slices.DeleteFunc(os.Environ(), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return name == "YOUTUBE_API_KEY" || strings.HasPrefix(name, "INGESTOR_") // URLs of databases have passwords
	})
	env = append(env, "HEADROOM_PROXY="+address, "HEADROOM_TOKEN="+token)
	if e.flags.state != "" {
		if path, err := filepath.Abs(e.flags.state); err == nil {
			env = append(env, "HEADROOM_STATE="+path)
		}
	}
	for _, name := range e.flags.upstreams {
		if u := s.book.Upstreams[name]; u != nil && u.Env != "" {
			env = append(env, u.Env+"="+address+"/"+name+u.EnvPath)
		}
	}
	return env
}

// errRefused is why a program was stopped whose call was refused. It was reported before.
var errRefused = &exit{code: exitDeferred}

// drain is how long the output of a killed program is still read. A child that left its
// process group may hold it open for ever.
const drain = time.Second

// run runs the program once. It may run again if it ended by itself, or because a call was
// refused.
func (e *executed) run(ctx context.Context) (again bool, err error) {
	e.told(time.Time{})
	cmd := exec.Command(e.args[0], e.args[1:]...) //nolint:noctx // it gets time to finish
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = e.env, e.stdin, e.stdout, e.stderr
	ownGroup(cmd)
	var out io.ReadCloser
	if e.flags.state != "" {
		cmd.Stdout = nil
		if out, err = cmd.StdoutPipe(); err != nil {
			return false, err
		}
	}
	if err := cmd.Start(); err != nil {
		return false, usage("run the program: %w", err)
	}
	end := func() {
		_ = kill(cmd) // it may have ended
		if out != nil {
			time.AfterFunc(drain, func() { _ = out.Close() })
		}
	}
	copied := make(chan error, 1)
	ended := make(chan error, 1)
	go func() {
		var err error
		if out != nil {
			if err = keepState(e.stdout, out, e.flags.state); err != nil {
				_ = kill(cmd) // its output or its state cannot be kept
			}
		}
		copied <- err
		ended <- cmd.Wait()
	}()
	why := e.watch(ctx, cmd, end, ended)
	stopped := errors.Is(why, errRefused)
	switch err := <-copied; {
	case err != nil && stopped:
		return false, err
	case err != nil || why != nil:
		return stopped, errors.Join(err, why)
	}
	if err := <-ended; err != nil {
		return true, &exit{exitFailed, fmt.Errorf("job %s: the program failed: %w", e.flags.job, err)}
	}
	return true, nil
}

// watch waits for a program, and stops it when it must not go on. It returns why it was
// stopped, and puts back how it has ended.
func (e *executed) watch(ctx context.Context, cmd *exec.Cmd, end func(), ended chan error) (why error) {
	var late <-chan time.Time
	if e.flags.deadline > 0 {
		timer := time.NewTimer(e.flags.deadline)
		defer timer.Stop()
		late = timer.C
	}
	stop, refused, lost := ctx.Done(), e.refused, e.lock.Lost()
	if e.flags.onRefusal != "stop" {
		refused = nil
	}
	var killed <-chan time.Time
	for {
		if why != nil && killed == nil {
			_ = askToStop(cmd) // it may have ended
			timer := time.NewTimer(e.flags.grace)
			defer timer.Stop()
			killed, stop, refused, late = timer.C, e.abort.Done(), nil, nil
		}
		select {
		case err := <-ended:
			ended <- err
			return why
		case <-killed:
			end()
		case <-stop:
			if why == nil {
				why = &exit{exitDeferred, fmt.Errorf("job %s: %w", e.flags.job, ingest.ErrInterrupted)}
				continue
			}
			end()
			stop = nil
		case <-lost:
			why, lost = ingest.ErrLostLock, nil
			end()
		case <-refused:
			if !e.retryAt().IsZero() {
				why = errRefused
			}
		case <-late:
			why = &exit{exitDeferred, fmt.Errorf("job %s: it was stopped after %s, by --deadline", e.flags.job, e.flags.deadline)}
		}
	}
}
