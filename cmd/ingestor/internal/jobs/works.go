package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/program"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
)

// logInputs logs which files a run uses, so that two runs that disagree can be compared
// later. The configuration and the price book are identified by their content. The ledger
// and the catalog are identified by their address, because their content changes with each
// page, and another program must not open a SQLite file that is in use.
func logInputs(ctx context.Context, a *session.Session, w *works) error {
	s := w.settings
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	config, printed := s.File, session.Fingerprint(s.Text)
	if config == "" {
		config, printed = "none", ""
	}
	ledger := place(s.Ledger)
	a.Log.Info("run",
		"config", session.Mark(config, printed),
		"costs", session.Mark(cmp.Or(s.Costs, "built in"), session.Fingerprint(w.ledger.Book().Format())),
		"ledger", session.Mark(ledger, session.Fingerprint([]byte(unlessShared(ledger, host)+ledger))),
		"catalog", session.Mark(w.catalog.Path(), session.Fingerprint([]byte(unlessShared(w.catalog.Path(), host)+w.catalog.Path()))))
	pools, err := w.ledger.View().Usage(ctx, "", "")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		a.Log.Warn("cannot read the spend from the ledger", "error", err)
		return nil
	}
	for _, p := range pools {
		if p.Known {
			return nil
		}
	}
	a.Log.Info("the ledger is new and assumes that nothing was spent today; " +
		"if another program has spent units, add them: ingestor quota adjust POOL UNITS --reason TEXT" + a.Loaded.LedgerFlag())
	return nil
}

// place returns the address of a ledger without its credentials.
func place(ledger string) string {
	scheme, _, _ := strings.Cut(ledger, ":")
	if scheme == "sqlite" {
		return ledger
	}
	u, err := url.Parse(ledger)
	if err != nil || scheme == "memory" {
		return scheme + ":"
	}
	q := u.Query()
	for name := range q {
		if strings.Contains(name, "password") || strings.Contains(name, "username") {
			q.Del(name)
		}
	}
	u.User, u.RawQuery = nil, q.Encode()
	return u.String()
}

// unlessShared returns the host if the ledger belongs to this host alone.
func unlessShared(ledger, host string) string {
	if strings.HasPrefix(ledger, "redis") || strings.HasPrefix(ledger, "postgres") {
		return ""
	}
	return host
}

func (w *works) sources() view.Sources {
	src := view.Sources{Ledger: w.ledger, Catalog: w.catalog, Runner: w.runner, Jobs: w.settings.List()}
	if w.board != nil { // else src.Fleet would not be nil
		src.Fleet = w.board
	}
	return src
}

// metricsFile is a file for node_exporter's textfile collector. It covers all jobs and
// pools of the ledger and the catalog, whichever process used them.
type metricsFile string

// check returns an error if the file cannot be written. It runs before anything is spent.
func (m metricsFile) check() error {
	if m == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(string(m))); err != nil || !info.IsDir() {
		return console.Config(fmt.Errorf("--metrics-file: there is no folder %s\nTo create it: mkdir -p '%s'", filepath.Dir(string(m)), filepath.Dir(string(m))))
	}
	if info, err := os.Stat(string(m)); err == nil && info.IsDir() {
		return console.Config(fmt.Errorf("--metrics-file: %s is a folder; name a file in it, as %s", m, filepath.Join(string(m), "ingestor.prom")))
	}
	return nil
}

func (m metricsFile) write(w *works) error {
	if m == "" {
		return nil
	}
	measured := metrics.New(&metrics.Options{Log: w.log})
	measured.SetSources(w.sources())
	measured.Judge(w.settings.Facts(w.clock))
	return measured.WriteFile(string(m))
}

// programs returns how the programs of jobs are run.
func programs(a *session.Session, s *settings.Settings, l *quota.Ledger) func(ctx, abort context.Context, j *ingest.Job) error {
	return func(ctx, abort context.Context, j *ingest.Job) (err error) {
		with, err := a.Proxied(s, l)
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
