package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
)

// Program is what a job of kind command runs.
type Program struct {
	Command   []string      `yaml:"command,omitempty" doc:"For kind command: the program and its arguments. It runs in the folder of this file."`
	Upstreams []string      `yaml:"upstreams,omitempty" doc:"For kind command: the upstreams that the program may call. If empty, all of the price book."`
	State     string        `yaml:"state,omitempty" doc:"For kind command: the file for the last STATE message of the output, as Singer has it."`
	Output    string        `yaml:"output,omitempty" doc:"For kind command: the file that the output is appended to. If empty, standard error."`
	OnRefusal OnRefusal     `yaml:"on_refusal,omitempty" words:"finish|stop" doc:"For kind command: whether the program finishes by itself or is stopped when the quota is used up."`
	Grace     time.Duration `yaml:"grace,omitempty" zero:"no" doc:"For kind command: the time from SIGTERM to SIGKILL; 10s if empty."`
	PassEnv   []string      `yaml:"pass_env,omitempty" doc:"For kind command: variables that the program gets although they may hold secrets, as PGPASSWORD."`

	Dir string `yaml:"-"` // in which it runs
}

// OnRefusal says what becomes of a program when the quota is used up.
type OnRefusal string

// The values of OnRefusal.
const (
	Finish OnRefusal = "finish" // it ends by itself
	Stop   OnRefusal = "stop"   // it gets SIGTERM, and SIGKILL after its grace
)

// DefaultGrace is the default of [Program].Grace.
const DefaultGrace = 10 * time.Second

func (p *Program) setDefaults() {
	p.OnRefusal = cmp.Or(p.OnRefusal, Finish)
	p.Grace = cmp.Or(p.Grace, DefaultGrace)
}

// checkProgram refuses a program that is missing, and the settings of one in other jobs.
func (j *Job) checkProgram(fault func(string, error)) {
	p := &j.Program
	if j.Kind.Runs() {
		switch {
		case len(p.Command) == 0 || p.Command[0] == "":
			fault("command", errors.New("a job of kind command needs a command, such as [python3, tap.py]"))
		case p.OnRefusal != Finish && p.OnRefusal != Stop:
			fault("on_refusal", fmt.Errorf("there is no on_refusal %q; write finish or stop", p.OnRefusal))
		case p.Grace < 0:
			fault("grace", fmt.Errorf("%s is negative", p.Grace))
		}
		fault("upstreams", checkList(p.Upstreams))
		fault("pass_env", checkList(p.PassEnv))
		return
	}
	for _, set := range []struct {
		field string
		is    bool
	}{
		{"command", len(p.Command) > 0},
		{"upstreams", len(p.Upstreams) > 0},
		{"state", p.State != ""},
		{"output", p.Output != ""},
		{"on_refusal", p.OnRefusal != ""},
		{"grace", p.Grace != 0},
		{"pass_env", len(p.PassEnv) > 0},
	} {
		if set.is {
			fault(set.field, fmt.Errorf("%s belongs to command jobs, but this job is %s", set.field, j.Kind))
		}
	}
}

// MayCall returns the upstreams that the job may call, as the price book names them.
func (j *Job) MayCall(costs *quota.Book) []string {
	switch {
	case !j.Kind.Runs():
		return []string{j.Kind.Upstream()}
	case len(j.Upstreams) > 0:
		return j.Upstreams
	}
	return costs.Metered()
}

func programWorks(*Runner, *Job) []*Work { return []*Work{{Name: "program"}} }

// errNoPrograms says that a runner was made without [Options].Program.
var errNoPrograms = errors.New("this process runs no programs")

// holder is a [catalog.Run] whose work other processes take over, unless it shows that it
// goes on. Hold does so until stop is called. The context that it returns ends, with
// [ErrLostLock], if that fails.
type holder interface {
	Hold(ctx context.Context) (held context.Context, stop func())
}

// program runs the program of the job once. Its calls have the values of calls.
func (r *Run) program(ctx, calls context.Context) (*catalog.Page, error) {
	if r.run == nil {
		return nil, errNoPrograms
	}
	abort, end := context.WithCancelCause(calls)
	defer end(nil)
	if h, ok := r.record.(holder); ok {
		lock, err := r.locker.Lock(ctx, lockName(r.job)) // which ingestor exec takes, too
		if err != nil {
			return nil, err
		}
		defer func() {
			if err := lock.Unlock(); err != nil {
				r.log.Error("unlock the job", "error", err)
			}
		}()
		ctx = withLock(ctx, lock)
		held, stop := h.Hold(abort)
		defer stop()
		abort = held
		defer endWhenLost(lock, held, end)()
	} else {
		defer context.AfterFunc(ctx, func() {
			if cause := context.Cause(ctx); errors.Is(cause, ErrLostLock) {
				end(cause)
			}
		})()
	}
	if end := r.State().Deadline; !end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, end.Sub(r.clock.Now()), errMaxRuntime)
		defer cancel()
	}
	err := r.run(ctx, abort, r.job)
	if refused, is := errors.AsType[*quota.RefusedError](err); is { // some time ago, so it waits less; but it does not begin again and again in no time
		verdict := refused.Verdict
		verdict.RetryAfter = max(verdict.RetryAt.Sub(r.clock.Now()), time.Second)
		err = &quota.RefusedError{Verdict: verdict}
	}
	if err != nil {
		return nil, err
	}
	return &catalog.Page{Done: true}, nil
}

type lockKey struct{}

func withLock(ctx context.Context, lock lease.Lock) context.Context {
	return context.WithValue(ctx, lockKey{}, lock)
}

// LockOf returns the lock of the job whose program is run with a context, or nil.
func LockOf(ctx context.Context) lease.Lock {
	lock, _ := ctx.Value(lockKey{}).(lease.Lock)
	return lock
}

// endWhenLost ends a context when a lock is lost, until the returned function is called.
func endWhenLost(lock lease.Lock, ctx context.Context, end context.CancelCauseFunc) (stop func()) { //nolint:revive // ctx is what it ends
	done := make(chan struct{})
	go func() {
		select {
		case <-lock.Lost():
			end(ErrLostLock)
		case <-ctx.Done():
		case <-done:
		}
	}()
	return func() { close(done) }
}
