// Package program runs programs that cannot be changed, such as a Singer tap or a shell
// script, and meters their calls. Each program gets a proxy of its own, and its address and
// a token in the environment. The program is stopped, if its owner wants that, when a call
// is refused for lack of units, and the time at which it can resume is known.
package program

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/charged"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Options say what to run, and how.
type Options struct {
	Job       string // its calls have this name in the spend
	Args      []string
	Dir       string // in which it runs; empty is that of this process
	Upstreams []string
	Class     string
	Account   string
	Budget    int64         // units that the job may spend on a day in UTC; 0: no bound
	Wait      time.Duration // longest time that a call waits for units
	Grace     time.Duration // from SIGTERM to SIGKILL
	// Stop ends the program when a call is refused for lack of units. Else it ends by itself.
	Stop bool
	// State is the file for the last STATE message of the output. If it is empty, there is no such file, and
	// the output is passed on as it is.
	State string

	PassEnv []string // variables of this process that the program gets although they may hold secrets

	// Lock is the lock of the job, or nil. If it is a file, it stays locked until
	// the program is gone, also if this process is killed. The program does not inherit it.
	Lock lease.Lock

	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Proxy are the settings of the proxy, without Defaults and Told.
	Proxy proxy.Options
}

// RefusedError says that a call of a program was refused for lack of units, and that no later
// one was granted them.
type RefusedError struct {
	RetryAt time.Time // when the program can resume; zero: unknown
	Err     error
}

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the refusal.
func (e *RefusedError) Unwrap() error { return e.Err }

// How a program fails that no refusal stopped.
var (
	ErrFailed = errors.New("the program failed") // with an error of its own
	ErrStart  = errors.New("run the program")    // it could not be started
)

// Program is a program whose calls are metered.
type Program struct {
	o    *Options
	env  []string
	log  *slog.Logger
	stop func() error // the proxy

	refusals refusals
}

// New starts the proxy of a program. Calls have the values of ctx. When abort ends, open
// calls do, too.
func New(ctx, abort context.Context, l *quota.Ledger, o *Options) (*Program, error) {
	p := &Program{o: o, log: cmp.Or(o.Proxy.Log, slog.Default())}
	p.refusals.signal = make(chan struct{}, 1)
	p.refusals.reset()
	text := rand.Text() + rand.Text() // a token is longer than one
	token, err := access.New(o.Job, text)
	if err != nil {
		return nil, err
	}
	grant := access.Grant{Upstreams: o.Upstreams, Accounts: []string{"*"}, Budget: access.Bound(strconv.FormatInt(o.Budget, 10))}
	if o.Account != "" { // its spend of today counts, also if the price book does not list the account
		grant.Accounts = []string{o.Account}
	}
	if o.Class != "" {
		grant.Classes = []string{o.Class}
	}
	with := o.Proxy
	with.Defaults, with.Told = proxy.Labels{Class: o.Class, Account: o.Account, Wait: o.Wait}, p.refusals.told
	with.Metered = func(t http.RoundTripper) http.RoundTripper {
		if o.Proxy.Metered != nil {
			t = o.Proxy.Metered(t)
		}
		return p.refusals.metered(t)
	}
	h, err := proxy.New(l, []*access.Token{token.Bound(&grant)}, &with)
	if err != nil {
		return nil, err
	}
	var how net.ListenConfig
	listener, err := how.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // the program may finish its calls
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(serving, abort, listener) }()
	p.stop = func() error { stop(); return <-ended }
	p.env = o.environment(l.Book(), "http://"+listener.Addr().String(), text)
	return p, nil
}

// Close stops the proxy.
func (p *Program) Close() error { return p.stop() }

// drain is how long the output of a killed program is still read. A child that left its
// process group may hold it open for ever.
const drain = time.Second

// Run runs the program once. It returns a [RefusedError] if a call was refused, no later one
// was granted those units, and the program failed, was stopped because of that, or made no
// further call that was answered. If it failed after an outage of the ledger, the error is one. When ctx ends, the program is asked to stop. When abort ends,
// such as with [ingest.ErrLostLock], it is killed. Run returns the cause of either, which is
// [ingest.ErrInterrupted] if there is no other.
func (p *Program) Run(ctx, abort context.Context) error {
	p.refusals.reset()
	cmd := exec.Command(p.o.Args[0], p.o.Args[1:]...) //nolint:noctx // it gets time to finish
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.o.Dir, p.env, p.o.Stdin, p.o.Stdout, p.o.Stderr
	ownGroup(cmd)
	var out io.ReadCloser
	resumes := true
	if p.o.State != "" {
		var err error
		if resumes, err = beginState(p.o.State); err != nil {
			return fmt.Errorf("keep the state of the program: %w", err)
		}
		cmd.Stdout = nil
		if out, err = cmd.StdoutPipe(); err != nil {
			return err
		}
	}
	defer terminal(cmd)()
	guard, err := newGuard(p.o.Lock)
	if err != nil {
		p.log.Warn("the children of the program would go on if this process were killed", "error", err)
	}
	defer guard.stop()
	started, copied, ended := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the program ends with the thread that starts it
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if started <- err; err != nil {
			return
		}
		guard.watch(cmd)
		if out != nil {
			var kept bool
			if kept, err = keepState(p.o.Stdout, out, p.o.State); err != nil {
				_ = kill(cmd) // its output or its state cannot be kept
			}
			resumes = resumes || kept
		}
		copied <- err
		ended <- cmd.Wait()
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("%w: %w", ErrStart, err)
	}
	end := func() {
		_ = kill(cmd) // it may have ended
		if out != nil {
			time.AfterFunc(drain, func() { _ = out.Close() })
		}
	}
	why := p.watch(ctx, abort, cmd, end, ended)
	var refused *RefusedError
	stopped := errors.As(why, &refused)
	switch err := <-copied; {
	case err != nil && stopped:
		return err
	case err != nil || why != nil && !stopped:
		return errors.Join(err, why)
	}
	if !resumes {
		p.log.Warn("the program wrote no state, so it begins anew next time; write STATE messages to standard output, as Singer has them", "job", p.o.Job, "state", p.o.State)
	}
	err = <-ended
	if refused == nil && interrupted(cmd, err) {
		return p.ended(ingest.ErrInterrupted)
	}
	last, answered, down := p.refusals.state()
	switch {
	case err != nil || refused != nil:
		last = cmp.Or(last, refused)
	case answered:
		last = nil
	}
	switch {
	case last != nil:
		return last
	case err == nil:
		return nil
	case down != nil:
		return fmt.Errorf("job %s: the program failed: %w", p.o.Job, down)
	}
	return fmt.Errorf("job %s: %w: %w", p.o.Job, ErrFailed, err)
}

// watch waits for a program, and stops it when it must not go on. It returns why it was
// stopped, and puts back how it has ended.
func (p *Program) watch(ctx, abort context.Context, cmd *exec.Cmd, end func(), ended chan error) (why error) {
	stop, refused := ctx.Done(), p.refusals.signal
	if !p.o.Stop {
		refused = nil
	}
	var killed <-chan time.Time
	for {
		if why != nil && killed == nil {
			_ = askToStop(cmd) // it may have ended
			timer := time.NewTimer(p.o.Grace)
			defer timer.Stop()
			killed, refused = timer.C, nil
		}
		select {
		case err := <-ended:
			ended <- err
			return why
		case <-killed:
			end()
		case <-abort.Done():
			if cause := context.Cause(abort); why == nil || errors.Is(cause, ingest.ErrLostLock) {
				why = p.ended(cause)
			}
			abort = context.WithoutCancel(abort)
			end()
		case <-stop:
			if stop = nil; why == nil {
				why = p.ended(context.Cause(ctx))
			}
		case <-refused:
			if last, _, _ := p.refusals.state(); last != nil {
				why = last
			}
		}
	}
}

// ended returns why the program was stopped, from the cause of a context.
func (p *Program) ended(cause error) error {
	if errors.Is(cause, context.Canceled) {
		cause = ingest.ErrInterrupted
	}
	return fmt.Errorf("job %s: %w", p.o.Job, cause)
}

// secrets are how the names of variables begin that give this process its key, the URLs and
// the passwords of its databases, and its credentials of Google and of a collector of traces.
var secrets = []string{
	"YOUTUBE_API_KEY", "INGESTOR_", "PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSSLPASSWORD", "OTEL_EXPORTER_OTLP", "GOOGLE_APPLICATION_CREDENTIALS",
}

// environment returns the variables of the program: ours, without those that hold secrets. A
// proxy of the network is not asked for our address, or it would get the token.
func (o *Options) environment(costs *quota.Book, address, token string) []string {
	env := slices.DeleteFunc(os.Environ(), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		secret := slices.ContainsFunc(secrets, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		return secret && !slices.Contains(o.PassEnv, name)
	})
	env = append(env, "HEADROOM_PROXY="+address, "HEADROOM_TOKEN="+token)
	env = append(env, noProxy("NO_PROXY", "no_proxy"), noProxy("no_proxy", "NO_PROXY"))
	if o.State != "" {
		env = append(env, "HEADROOM_STATE="+o.State)
	}
	for _, name := range o.Upstreams {
		u := costs.Upstreams[name]
		if u == nil {
			continue
		}
		if u.Env != "" {
			env = append(env, u.Env+"="+address+"/"+name+u.EnvPath)
		}
		if u.EnvKey != "" {
			env = append(env, u.EnvKey+"="+token)
		}
	}
	return env
}

// noProxy returns a variable with the hosts that no proxy is asked for: those it has, and us.
func noProxy(name, other string) string {
	const us = "127.0.0.1,localhost"
	switch hosts := cmp.Or(os.Getenv(name), os.Getenv(other)); hosts {
	case "":
		return name + "=" + us
	case "*": // all
		return name + "=*"
	default:
		return name + "=" + hosts + "," + us
	}
}

// refusals are the units that calls of a program were refused, and that no later call was
// granted. Calls may overlap: an answer to a call that began before a refusal says nothing
// about the units that are missing now.
type refusals struct {
	mu       sync.Mutex
	begun    int                     // calls
	answered int                     // the last call, by its number, that was answered
	open     map[quota.Pool]*refusal // the budget of the job has no pool
	latest   *refusal                // of those in open
	outage   error                   // of the ledger, if no later call was granted units
	failed   int                     // calls that had begun then
	signal   chan struct{}           // a call was refused
}

// refusal is the last one of a pool.
type refusal struct {
	*RefusedError
	pool  quota.Pool
	units int64
	begun int // calls that had begun then
}

func (r *refusals) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered, r.open, r.latest, r.outage = 0, map[quota.Pool]*refusal{}, nil, nil
}

// told notes that a call was refused for lack of units. The proxy reports each answer, too;
// see metered.
func (r *refusals) told(why error, retryAt time.Time) {
	if why == nil {
		return
	}
	refused := &refusal{RefusedError: &RefusedError{RetryAt: retryAt, Err: why}}
	if ledger, is := errors.AsType[*quota.RefusedError](why); is {
		refused.pool, refused.units = ledger.Pool, ledger.Units
	} else if budget, is := errors.AsType[*meter.BudgetError](why); is {
		refused.units = budget.Units
	}
	r.mu.Lock()
	refused.begun = r.begun
	r.open[refused.pool], r.latest = refused, refused
	r.mu.Unlock()
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// metered returns a transport that notes which units the calls of another one are granted.
func (r *refusals) metered(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		r.mu.Lock()
		r.begun++
		number := r.begun
		r.mu.Unlock()
		ctx, record := charged.With(req.Context())
		resp, err := base.RoundTrip(req.WithContext(ctx))
		if resp != nil && resp.Request != nil && resp.Request.Context() == ctx {
			resp.Request = req
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case errors.Is(err, quota.ErrOutage):
			r.outage, r.failed = err, r.begun
		case err == nil:
			units := record.Units() // they end refusals of calls that began before, and of no more units
			r.answered = max(r.answered, number)
			if len(units) > 0 && number > r.failed {
				r.outage = nil
			}
			sum := int64(0)
			for pool, n := range units {
				if !pool.IsMoney() {
					sum += n
				}
				r.close(number, pool, n)
			}
			r.close(number, quota.Pool{}, sum)
		}
		return resp, err
	})
}

func (r *refusals) close(number int, pool quota.Pool, units int64) {
	if refused := r.open[pool]; refused == nil || number <= refused.begun || units < refused.units || units == 0 {
		return
	}
	delete(r.open, pool)
	r.latest = nil
	for _, other := range r.open {
		if r.latest == nil || other.begun > r.latest.begun {
			r.latest = other
		}
	}
}

// state returns the last refusal that is open, or nil, and whether a call that began later was
// answered. It also returns the outage of the ledger that the last call has met, or nil.
func (r *refusals) state() (last *RefusedError, answered bool, down error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest != nil {
		last, answered = r.latest.RefusedError, r.answered > r.latest.begun
	}
	return last, answered, r.outage
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
