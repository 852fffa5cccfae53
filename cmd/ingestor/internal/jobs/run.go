// Package jobs has the commands that run jobs, plan them, and show what they fetched.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/counting"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/notify"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/program"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/traces"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

type runFlags struct {
	once    bool
	due     bool
	jobs    []string
	regions []string
	metrics string
}

func RunCommand(a *session.Session) *cobra.Command {
	var f runFlags
	cmd := a.Command("run", console.NoArgs, func(cmd *cobra.Command, _ []string) (err error) {
		ctx := cmd.Context()
		if !f.once && (f.due || len(f.jobs)+len(f.regions) > 0) {
			return console.Usage("--job, --region and --due go with --once")
		}
		s, err := a.Settings(cmd.Flags())
		if err != nil {
			return err
		}
		f.regions = upperCase(f.regions)
		jobs, err := choose(s, &f)
		if err != nil {
			return err
		}
		if err := s.Priced(jobs); err != nil {
			return err
		}
		file := metricsFile(f.metrics)
		if err := file.check(); err != nil {
			return err
		}
		stopped := console.ExitDeferred
		if !f.once {
			stopped = console.ExitDone // a daemon ends successfully
		}
		var done console.Closers
		defer func() { err = console.OrStopped(ctx, stopped, errors.Join(err, done.Close())) }()
		a.Trace(ctx, &done)
		if !f.once {
			return runDaemon(ctx, a, s, jobs, file, &done)
		}
		var w *works
		var all []*RunView
		err = watching(a, func(tell func(ingest.Progress)) (err error) {
			if w, err = openWorks(ctx, a, s, &done, tell); err != nil {
				return err
			}
			if err := logInputs(ctx, a, w); err != nil {
				return err
			}
			if err := joinFleet(a, w, jobs, nil, nil); err != nil {
				return err
			}
			if err := counting.CountOnce(ctx, a, s, w.ledger); err != nil {
				return err
			}
			all = runOnce(ctx, a, w, jobs, &f)
			return nil
		})
		if err != nil {
			return err
		}
		lookOnce(ctx, a, w)
		w.pings.Wait(lastWords)
		return leave(a, w, file, all)
	})
	cmd.Flags().BoolVar(&f.once, "once", false, "run the jobs once, and exit")
	cmd.Flags().BoolVar(&f.due, "due", false, "with --once: only jobs that are due")
	cmd.Flags().StringSliceVar(&f.jobs, "job", nil, "with --once: only this `job`; repeat the flag for more")
	cmd.Flags().StringSliceVar(&f.regions, "region", nil, "with --once: only this `region`; repeat the flag for more")
	cmd.Flags().StringVar(&f.metrics, "metrics-file", "", "write a `file` for node_exporter's textfile collector after each run")
	_ = cmd.RegisterFlagCompletionFunc("job", a.Complete(session.JobNames))
	_ = cmd.RegisterFlagCompletionFunc("region", a.Complete(session.RegionNames))
	settings.AddFlags(cmd, cmd.Flags(), settings.ForCounts)
	cmd.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "write only problems, for cron")
	return cmd
}

// works holds everything that runs need, opened.
type works struct {
	settings  *settings.Settings
	ledger    *quota.Ledger
	catalog   session.AnyCatalog
	runner    *ingest.Runner
	fleet     *fleet.Fleet // nil: the runner works by itself
	board     *fleet.Board // nil: there is no fleet
	clock     quota.Clock
	log       *slog.Logger
	pings     *notify.Pinger
	metered   *atomic.Pointer[meter.Transport] // of the settings in force
	transport *meter.Transport                 // of these settings
}

// flushing is how long the end of a program tries to settle its last calls.
const flushing = 5 * time.Second

// flush settles the last calls. The log has those that the ledger cannot be told.
func (w *works) flush() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushing)
	defer cancel()
	if err := w.metered.Load().Flush(ctx); err != nil {
		w.log.Warn("the ledger lacks what the last calls have told", "error", err)
	}
	return nil
}

// begins is a tracer that also says that runs begin.
type begins struct {
	*traces.Traces
	pings *notify.Pinger
}

func (b begins) Run(ctx context.Context, j *ingest.Job, scheduled time.Time) (context.Context, func(*ingest.Report)) {
	b.pings.Begin(j.Name)
	return b.Traces.Run(ctx, j, scheduled)
}

func (w *works) run(ctx context.Context, j *ingest.Job, why ingest.Occasion) (*ingest.Report, error) {
	if w.fleet != nil {
		rep, err := w.fleet.Once(ctx, j, why)
		if errors.Is(err, fleet.ErrPaused) {
			err = fmt.Errorf("%w\nTo resume it: ingestor fleet resume %s%s", err, j.Name, w.settings.Typed())
		}
		return rep, err
	}
	return w.runner.Run(ctx, j, why)
}

func openWorks(ctx context.Context, a *session.Session, s *settings.Settings, done *console.Closers, progress func(ingest.Progress)) (*works, error) {
	w := &works{settings: s, log: a.Log, clock: a.Clock, pings: notify.NewPinger(a.Log), metered: new(atomic.Pointer[meter.Transport])}
	deaf := context.AfterFunc(ctx, func() {
		w.log.Info("stopping: open pages are finished and kept; a second signal ends them, too")
	})
	done.Add(func() error { deaf(); return nil })
	var err error
	if w.ledger, w.catalog, err = a.OpenBoth(ctx, s, done); err != nil {
		return nil, err
	}
	if err := a.Compare(ctx, s, w.ledger, w.catalog); err != nil {
		return nil, err
	}
	if err := w.joinClock(ctx); err != nil {
		return nil, err
	}
	warn := func(about string) {
		if !a.Quiet { // a run of cron says only what has failed
			a.Log.Warn("the ledger " + about)
		}
	}
	if err := session.CheckLocal(ctx, s, w.catalog, warn); err != nil {
		return nil, err
	}
	w, err = withSettings(a, w, s, progress)
	if err == nil {
		w.metered.Store(w.transport)
		done.Add(w.flush)
	}
	return w, err
}

// withSettings returns works with a new runner for these settings.
func withSettings(a *session.Session, w *works, s *settings.Settings, progress func(ingest.Progress)) (*works, error) {
	transport, err := a.Transport(s, w.ledger)
	if err != nil {
		return nil, err
	}
	client, err := youtube.New(&http.Client{Transport: a.Traces.Calls(w.ledger, transport)}, &youtube.Options{UserAgent: "headroom-ingestor"})
	if err != nil {
		return nil, console.Config(err)
	}
	by := *w
	by.settings, by.transport = s, transport
	by.pings.Set(s.Ping)
	var tracer ingest.Tracer = begins{a.Traces, by.pings}
	if s.Database != "" { // a run of a fleet begins on several machines
		tracer = a.Traces
	}
	by.runner = ingest.NewRunner(&s.Config, w.ledger, w.catalog, client, a.Opened, &ingest.Options{Clock: w.clock, Log: a.Log, Progress: progress, Tracer: tracer, Abort: a.Abort, Program: programs(a, s, w.ledger)})
	return &by, nil
}

// runDaemon runs jobs until the program is told to stop.
func runDaemon(ctx context.Context, a *session.Session, s *settings.Settings, jobs []*ingest.Job, file metricsFile, done *console.Closers) error {
	hangups := session.ListenForHangups()
	defer hangups.Stop()
	warnKeys(ctx, a, s, jobs)
	opened, err := openDaemon(ctx, a, s, done)
	if err != nil {
		return err
	}
	if err := logInputs(ctx, a, opened); err != nil {
		return err
	}
	if err := counting.WatchCounts(ctx, a, s, opened.ledger, done); err != nil {
		return err
	}
	if err := logNextRuns(ctx, a, opened, jobs); err != nil {
		if s.Database == "" { // the daemon of a fleet waits for its database
			return err
		}
		a.Log.Warn("what is next cannot be told", "error", err)
	}
	var works atomic.Pointer[works] // of the settings in force
	works.Store(opened)
	var one sync.Mutex // jobs may end at the same time
	done.Add(func() error { opened.pings.Wait(lastWords); return nil })
	ended := func(j *ingest.Job, rep *ingest.Report, err error) {
		one.Lock()
		defer one.Unlock()
		r := summary(j, rep, err, a.Now())
		if r.State != held {
			opened.pings.End(j.Name, r.code, r.Error)
		}
		if err := errors.Join(tellRun(a, r), file.write(works.Load())); err != nil {
			a.Log.Error("report a run", "job", j.Name, "error", err)
		}
	}
	if err := joinFleet(a, opened, jobs, ended, hangups.Raise); err != nil {
		return err
	}
	var d daemon = opened.fleet
	if opened.fleet == nil {
		d = ingest.NewDaemon(opened.runner, jobs, ended)
	}
	hangups.Reload(ctx, a, s, false, done, func(ctx context.Context, next *settings.Settings) error {
		if err := next.Priced(next.List()); err != nil {
			return err
		}
		w, err := withSettings(a, opened, next, nil)
		if err != nil {
			return err
		}
		err = d.Reload(ctx, w.runner, next.List(), func() error { return w.ledger.SetBook(next.Book) })
		if err != nil {
			return err
		}
		works.Store(w)
		w.metered.Store(w.transport)
		if err := logNextRuns(ctx, a, w, next.List()); err != nil {
			a.Log.Warn("what is next cannot be told", "error", err)
		}
		return nil
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done.Go(ctx, watcher(a, false, works.Load).Run)
	if opened.fleet == nil { // the daemons of a fleet have a table
		done.Go(ctx, func(ctx context.Context) {
			verdict.NewHeart(opened.catalog, opened.ledger, &verdict.Options{Clock: opened.clock}).Run(ctx, a.Log)
		})
	} else {
		done.Go(ctx, func(ctx context.Context) { verifyLater(ctx, a, opened, cancel) })
	}
	if err := d.Run(ctx); err != nil {
		return err
	}
	if other, ok := errors.AsType[*console.Exit](context.Cause(ctx)); ok {
		return other
	}
	return nil
}

// warnKeys warns of keys that jobs need and cannot read. The daemon stays, because a key may come
// later. Retention needs none of its own: without other jobs there is no data.
func warnKeys(ctx context.Context, a *session.Session, s *settings.Settings, jobs []*ingest.Job) {
	need := map[string][]string{} // the jobs, by key
	for _, j := range jobs {
		if !j.Kind.Runs() && j.Kind != ingest.Retention {
			key := settings.KeyOf(j.Account)
			need[key] = append(need[key], j.Name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(need)) {
		if _, err := s.KeySources()[key](ctx); err != nil {
			a.Log.Warn("jobs fail until there is a key", "key", key, "jobs", need[key], "error", err)
		}
	}
}

// logNextRuns logs when each job runs next. A daemon may log nothing for hours after that.
func logNextRuns(ctx context.Context, a *session.Session, w *works, jobs []*ingest.Job) error {
	for _, j := range jobs {
		next, err := w.runner.NextAt(ctx, j)
		if err != nil {
			return err
		}
		a.Log.Info("waiting", "job", j.Name, "schedule", j.Schedule().String(), "next", next.UTC())
	}
	return nil
}

// leave writes the results of runs, and returns their exit code as an error.
func leave(a *session.Session, w *works, file metricsFile, all []*RunView) error {
	codes := map[int]bool{console.ExitDone: true}
	for _, r := range all {
		codes[r.code] = true
	}
	if err := errors.Join(showRuns(a, all), file.write(w)); err != nil {
		codes[console.ExitFailed] = true
		fmt.Fprintf(a.Stderr, "ingestor: %s\n", err)
	}
	if code := console.Worst(codes); code != console.ExitDone {
		return &console.Exit{Code: code}
	}
	return nil
}

func upperCase(regions []string) []string {
	all := slices.Clone(regions)
	for i, region := range all {
		all[i] = strings.ToUpper(region)
	}
	return all
}

// choose returns the jobs that the flags name, or all jobs. If the flags name regions, it
// keeps only jobs that have one of them.
func choose(s *settings.Settings, f *runFlags) ([]*ingest.Job, error) {
	names := session.JobNames(s)
	for _, name := range f.jobs {
		if !slices.Contains(names, name) {
			return nil, console.Usage("there is no job %q; the configuration has %s", name, strings.Join(names, ", "))
		}
	}
	has := func(j *ingest.Job, region string) bool { return j.Regional() && slices.Contains(j.Regions, region) }
	chosen := slices.DeleteFunc(s.List(), func(j *ingest.Job) bool { return len(f.jobs) > 0 && !slices.Contains(f.jobs, j.Name) })
	for _, region := range f.regions {
		if !slices.ContainsFunc(chosen, func(j *ingest.Job) bool { return has(j, region) }) {
			return nil, console.Usage("none of the jobs has the region %q; regions are two capital letters, as US or DE", region)
		}
	}
	return slices.DeleteFunc(chosen, func(j *ingest.Job) bool {
		return len(f.regions) > 0 && !slices.ContainsFunc(f.regions, func(region string) bool { return has(j, region) })
	}), nil
}

// runOnce makes one run of each job. Deferred work comes first, for all jobs.
func runOnce(ctx context.Context, a *session.Session, w *works, jobs []*ingest.Job, f *runFlags) (all []*RunView) {
	had := map[string][]string{} // by job: the work that was resumed
	stuck := map[string]bool{}
	one := func(j *ingest.Job, why ingest.Occasion) {
		why.Regions = slices.DeleteFunc(slices.Clone(f.regions), func(region string) bool { return !slices.Contains(j.Regions, region) })
		rep, err := w.run(ctx, j, why)
		r := summary(j, rep, err, a.Now())
		if r.State != held {
			w.pings.End(j.Name, r.code, r.Error)
		}
		all = append(all, r)
		if err != nil {
			stuck[j.Name] = true
			if !a.Quiet || r.code != console.ExitDeferred { // another process runs the job, which is not a problem
				fmt.Fprintf(a.Stderr, "ingestor: %s\n", err)
			}
			return
		}
		for i := range rep.Work {
			had[j.Name] = append(had[j.Name], rep.Work[i].Work)
		}
	}
	whys := map[string]ingest.Occasion{} // why each job is run, before a run changes what is due
	for _, j := range jobs {
		why, due, err := ingest.Occasion{}, true, error(nil)
		if f.due {
			why, due, err = w.runner.Due(ctx, j)
		}
		if due || err != nil { // the run meets the same fault and reports it
			whys[j.Name] = why
		}
	}
	for _, j := range jobs {
		at, err := w.runner.ResumeAt(ctx, j, nil)
		if err == nil && !at.IsZero() && !at.After(a.Now()) {
			one(j, ingest.Occasion{Deferred: true})
		}
	}
	for _, j := range jobs {
		why, there := whys[j.Name]
		if there && !stuck[j.Name] {
			why.Without = append(why.Without, had[j.Name]...)
			one(j, why)
		}
	}
	return all
}

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
	if !slices.ContainsFunc(pools, func(u quota.Usage) bool { return u.Known }) {
		a.Log.Info("the ledger is new and assumes that nothing was spent today; " +
			"if another program has spent units, add them: ingestor quota adjust POOL UNITS --reason TEXT" + a.Loaded.LedgerFlag())
	}
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
	maps.DeleteFunc(q, func(name string, _ []string) bool {
		return strings.Contains(name, "password") || strings.Contains(name, "username")
	})
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
