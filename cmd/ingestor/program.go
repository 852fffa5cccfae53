package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/program"
	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
)

// programs returns how the programs of jobs are run.
func (a *app) programs(s *settings, l *quota.Ledger) func(ctx, abort context.Context, j *ingest.Job) error {
	return func(ctx, abort context.Context, j *ingest.Job) (err error) {
		with, err := a.proxied(s, l, j.Name)
		if err != nil {
			return err
		}
		o := &program.Options{
			Job: j.Name, Args: j.Program.Command, Dir: j.Dir, Upstreams: s.upstreamsOf(j), Class: j.Class, Account: j.Account, Wait: s.MaxWait,
			Grace: j.Grace, Stop: j.OnRefusal == ingest.Stop, State: j.State, Stdout: a.stderr, Stderr: a.stderr, Lock: ingest.LockOf(ctx), PassEnv: j.PassEnv, Proxy: with,
		}
		if j.Output != "" {
			out, err := program.OpenOutput(j.Output, j.State != "")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, out.Close()) }()
			o.Stdout = out
		}
		p, err := program.New(abort, abort, l, o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		return resumed(p.Run(ctx, abort))
	}
}

// resumed returns how a program ended. A refusal has the time at which the program can
// resume, by the clock of this process.
func resumed(err error) error {
	var ended *program.RefusedError
	var refused *quota.RefusedError
	if errors.As(err, &ended) && errors.As(err, &refused) && !ended.RetryAt.IsZero() {
		verdict := refused.Verdict
		verdict.RetryAt = ended.RetryAt
		return &quota.RefusedError{Verdict: verdict}
	}
	return err
}

// upstreamsOf returns the upstreams that the program of a job may call.
func (s *settings) upstreamsOf(j *ingest.Job) []string {
	return s.known(j.Upstreams, "", "", func(string, string, ...any) {})
}

// checkProgram checks what a program may call against the price book.
func (s *settings) checkProgram(j *ingest.Job, fault func(path, format string, args ...any)) {
	s.known(j.Upstreams, j.Account, j.Class, func(what, format string, args ...any) {
		fault("jobs."+j.Name+"."+what, format, args...)
	})
}

// known returns the named upstreams, or all of the price book. It reports what the price book
// does not have.
func (s *settings) known(upstreams []string, account, class string, fault func(what, format string, args ...any)) []string {
	all := slices.Sorted(maps.Keys(s.book.Upstreams))
	if len(upstreams) == 0 {
		upstreams = all
	}
	account = cmp.Or(account, quota.DefaultAccount)
	hasAccount, hasClass := account == quota.DefaultAccount, class == ""
	for _, name := range upstreams {
		u := s.book.Upstreams[name]
		if u == nil {
			fault("upstreams", "the price book has no upstream %q; it has %s", name, strings.Join(all, ", "))
			return upstreams
		}
		_, has := u.Classes[class]
		hasClass = hasClass || has
		hasAccount = hasAccount || u.AnyAccount || slices.Contains(u.Accounts, account)
	}
	if !hasAccount {
		fault("account", "none of %s has the account %q", strings.Join(upstreams, ", "), account)
	}
	if !hasClass {
		fault("class", "none of %s has the class %q", strings.Join(upstreams, ", "), class)
	}
	return upstreams
}

// knownFlags is known for the flags of a command, which it completes.
func (s *settings) knownFlags(upstreams *[]string, account, class string) (err error) {
	*upstreams = s.known(*upstreams, account, class, func(what, format string, args ...any) {
		if what == "upstreams" {
			what = "upstream"
		}
		err = errors.Join(err, usage("--%s: %w", what, fmt.Errorf(format, args...)))
	})
	return err
}

// checkPrograms checks that the programs of jobs can be started, and their files be written.
func checkPrograms(f *findings, s *settings) {
	for _, j := range s.List() {
		if !j.Kind.Runs() {
			continue
		}
		if _, err := lookPath(j); err != nil {
			f.fault("job "+j.Name, config(fmt.Errorf("its program cannot be started: %w", err)))
			continue
		}
		bad := false
		for _, path := range []string{j.State, j.Output} {
			if path == "" {
				continue
			}
			if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
				f.fault("job "+j.Name, config(fmt.Errorf("the folder of %s does not exist\nTo make it: mkdir -p %s", path, shell.Quote(filepath.Dir(path)))))
				bad = true
			}
		}
		if !bad {
			f.ok("job "+j.Name, "runs %s behind a proxy, for %s", shell.Quote(j.Program.Command[0]), strings.Join(s.upstreamsOf(j), ", "))
		}
	}
}

// lookPath finds the program of a job, as its folder has it.
func lookPath(j *ingest.Job) (string, error) {
	name := j.Program.Command[0]
	if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		name = filepath.Join(j.Dir, name)
	}
	return exec.LookPath(name)
}
