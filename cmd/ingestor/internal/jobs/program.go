package jobs

import (
	"context"
	"errors"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/program"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
)

// programs returns how the programs of jobs are run.
func programs(a *session.Session, s *settings.Settings, l *quota.Ledger) func(ctx, abort context.Context, j *ingest.Job) error {
	return func(ctx, abort context.Context, j *ingest.Job) (err error) {
		with, err := a.Proxied(s, l, j.Name)
		if err != nil {
			return err
		}
		o := &program.Options{
			Job: j.Name, Args: j.Program.Command, Dir: j.Dir, Upstreams: s.UpstreamsOf(j), Class: j.Class, Account: j.Account, Wait: s.MaxWait,
			Grace: j.Grace, Stop: j.OnRefusal == ingest.Stop, State: j.State, Stdout: a.Stderr, Stderr: a.Stderr, Lock: ingest.LockOf(ctx), PassEnv: j.PassEnv, Proxy: with,
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
