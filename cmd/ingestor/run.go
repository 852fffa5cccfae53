package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/quota"
)

// runFlags are the flags of ingestor run.
type runFlags struct {
	once    bool
	due     bool
	jobs    []string
	regions []string
	metrics string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the jobs when they are due, or once",
		Long: `Run the jobs. Without --once the process stays, runs each job when it is due, and
resumes deferred work at the time that the ledger named. When a block is lifted, the work
that it deferred resumes within a minute.

With --once, it resumes deferred work, runs all jobs or the named ones, and exits. With
--due, it runs only jobs that have come due since their last scheduled run, or whose last
run was killed or could not save its data.

The first SIGTERM or interrupt lets open pages finish and keeps them. All other work is
deferred. A second signal ends the open calls too. With --once the exit code is then 75,
even if no job has started. No job runs twice at once: with a ledger on Redis, a job of a
process that was killed stays locked for up to 30 seconds.

With --quiet only problems are written: failures, outages, and refusals by the upstream
that the ledger did not expect. Deferred work, and jobs that another process runs, are
reported by the exit code alone.

` + onHangup + `

Exit codes: 0 done; 75 deferred (the quota is used up, max_runtime or pages ended the
run, another process runs the job, a fleet has paused it, or a signal stopped it);
78 configuration; 77 credential; 69 upstream or ledger down; 1 some work failed.`,
		Example: `  ingestor run
  ingestor run --once --job trending --region US --region DE
  ingestor run --once --output json
  ingestor run --output json            write a line for each run
  ingestor run --once --due --quiet     for cron; ingestor init shows the line`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runJobs(cmd, &f)
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().BoolVar(&f.once, "once", false, "run the jobs once, and exit")
	cmd.Flags().BoolVar(&f.due, "due", false, "with --once: only jobs that are due")
	cmd.Flags().StringSliceVar(&f.jobs, "job", nil, "with --once: only this `job`; repeat the flag for more")
	cmd.Flags().StringSliceVar(&f.regions, "region", nil, "with --once: only this `region`; repeat the flag for more")
	cmd.Flags().StringVar(&f.metrics, "metrics-file", "", "write a `file` for node_exporter's textfile collector after each run")
	_ = cmd.RegisterFlagCompletionFunc("job", a.complete(jobNames))
	_ = cmd.RegisterFlagCompletionFunc("region", a.complete(regionNames))
	addFlags(cmd, cmd.Flags(), forCounts)
	cmd.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "write only problems, for cron")
	return cmd
}

// works holds everything that runs need, opened.
type works struct {
	settings *settings
	ledger   *quota.Ledger
	catalog  anyCatalog
	runner   *ingest.Runner
	fleet    *fleet.Fleet // nil: the runner works by itself
	clock    quota.Clock
	log      *slog.Logger
}

// run makes a run of a job.
func (w *works) run(ctx context.Context, j *ingest.Job, why ingest.Occasion) (*ingest.Report, error) {
	if w.fleet != nil {
		rep, err := w.fleet.Once(ctx, j, why)
		if errors.Is(err, fleet.ErrPaused) {
			err = fmt.Errorf("%w\nTo resume it: ingestor fleet resume %s", err, j.Name)
		}
		return rep, err
	}
	return w.runner.Run(ctx, j, why)
}

// openWorks opens everything that runs need.
func (a *app) openWorks(ctx context.Context, s *settings, done *closers, progress func(ingest.Progress)) (*works, error) {
	w := &works{settings: s, log: a.log, clock: a.clock}
	deaf := context.AfterFunc(ctx, func() {
		w.log.Info("stopping: open pages are finished and kept; a second signal ends them, too")
	})
	done.add(func() error { deaf(); return nil })
	var err error
	if w.ledger, err = a.openLedger(ctx, s, done); err != nil {
		return nil, err
	}
	if w.catalog, err = a.openCatalog(ctx, s, done); err != nil {
		return nil, err
	}
	if err := a.compare(ctx, s, w.ledger, w.catalog); err != nil {
		return nil, err
	}
	if err := w.joinClock(ctx); err != nil {
		return nil, err
	}
	if err := s.checkLocal(ctx, w.catalog, a.warnLocal); err != nil {
		return nil, err
	}
	return a.withSettings(w, s, progress)
}

// withSettings returns works with a new runner for these settings.
func (a *app) withSettings(w *works, s *settings, progress func(ingest.Progress)) (*works, error) {
	transport, err := a.transport(s, w.ledger)
	if err != nil {
		return nil, err
	}
	client, err := youtube.New(&http.Client{Transport: a.traces.Calls(w.ledger, transport)}, &youtube.Options{UserAgent: "headroom-ingestor"})
	if err != nil {
		return nil, config(err)
	}
	by := *w
	by.settings = s
	by.runner = ingest.NewRunner(&s.Config, w.ledger, w.catalog, client, a.opened, &ingest.Options{Clock: w.clock, Log: a.log, Progress: progress, Tracer: a.traces, Abort: a.abort, Program: a.programs(s, w.ledger)})
	return &by, nil
}

func (a *app) runJobs(cmd *cobra.Command, f *runFlags) (err error) {
	ctx := cmd.Context()
	if !f.once && (f.due || len(f.jobs)+len(f.regions) > 0) {
		return usage("--job, --region and --due go with --once")
	}
	s, err := a.settings(cmd.Flags())
	if err != nil {
		return err
	}
	f.regions = upperCase(f.regions)
	jobs, err := choose(s, f)
	if err != nil {
		return err
	}
	if err := s.priced(jobs); err != nil {
		return err
	}
	file := metricsFile(f.metrics)
	if err := file.check(); err != nil {
		return err
	}
	stopped := exitDeferred
	if !f.once {
		stopped = exitDone // a daemon ends successfully
	}
	var done closers
	defer func() { err = orStopped(ctx, stopped, errors.Join(err, done.close())) }()
	a.trace(ctx, &done)
	if !f.once {
		return a.runDaemon(ctx, s, jobs, file, &done)
	}
	watched := a.watch()
	w, err := a.openWorks(ctx, s, &done, watched.tell)
	if err == nil {
		err = a.logInputs(ctx, w)
	}
	if err != nil {
		watched.close()
		return err
	}
	if err := a.joinFleet(w, jobs, nil, nil); err != nil {
		watched.close()
		return err
	}
	if err := a.countOnce(ctx, s, w.ledger); err != nil {
		watched.close()
		return err
	}
	all := a.once(ctx, w, jobs, f)
	watched.close()
	return a.leave(w, file, all)
}

// runDaemon runs jobs until the program is told to stop.
func (a *app) runDaemon(ctx context.Context, s *settings, jobs []*ingest.Job, file metricsFile, done *closers) error {
	hangups := listenForHangups()
	defer hangups.stop()
	opened, err := a.openDaemon(ctx, s, done)
	if err != nil {
		return err
	}
	if err := a.logInputs(ctx, opened); err != nil {
		return err
	}
	if err := a.watchCounts(ctx, s, opened.ledger, done); err != nil {
		return err
	}
	if err := a.logNextRuns(ctx, opened, jobs); err != nil {
		if s.Database == "" { // the daemon of a fleet waits for its database
			return err
		}
		a.log.Warn("what is next cannot be told", "error", err)
	}
	var works atomic.Pointer[works] // of the settings in force
	works.Store(opened)
	var one sync.Mutex // jobs may end at the same time
	ended := func(j *ingest.Job, rep *ingest.Report, err error) {
		one.Lock()
		defer one.Unlock()
		r := summary(j, rep, err, a.now())
		if err := errors.Join(a.tell(r), file.write(works.Load())); err != nil {
			a.log.Error("report a run", "job", j.Name, "error", err)
		}
	}
	if err := a.joinFleet(opened, jobs, ended, hangups.raise); err != nil {
		return err
	}
	var d daemon = opened.fleet
	if opened.fleet == nil {
		d = ingest.NewDaemon(opened.runner, jobs, ended)
	}
	defer hangups.reload(ctx, a, s, false, func(ctx context.Context, next *settings) error {
		if err := next.priced(next.List()); err != nil {
			return err
		}
		w, err := a.withSettings(opened, next, nil)
		if err != nil {
			return err
		}
		err = d.Reload(ctx, w.runner, next.List(), func() error { return w.ledger.SetBook(next.book) })
		if err != nil {
			return err
		}
		works.Store(w)
		if err := a.logNextRuns(ctx, w, next.List()); err != nil {
			a.log.Warn("what is next cannot be told", "error", err)
		}
		return nil
	})()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if opened.fleet != nil {
		go a.verifyLater(ctx, opened, cancel)
	}
	if err := d.Run(ctx); err != nil {
		return err
	}
	if other, ok := errors.AsType[*exit](context.Cause(ctx)); ok {
		return other
	}
	return nil
}

// logNextRuns logs when each job runs next. A daemon may log nothing for hours after that.
func (a *app) logNextRuns(ctx context.Context, w *works, jobs []*ingest.Job) error {
	for _, j := range jobs {
		next, err := w.runner.NextAt(ctx, j)
		if err != nil {
			return err
		}
		a.log.Info("waiting", "job", j.Name, "schedule", j.Schedule().String(), "next", next.UTC())
	}
	return nil
}

// leave writes the results of runs, and returns their exit code as an error.
func (a *app) leave(w *works, file metricsFile, all []*runView) error {
	codes := map[int]bool{exitDone: true}
	for _, r := range all {
		codes[r.code] = true
	}
	if err := errors.Join(a.show(all), file.write(w)); err != nil {
		codes[exitFailed] = true
		fmt.Fprintf(a.stderr, "ingestor: %s\n", err)
	}
	if code := worst(codes); code != exitDone {
		return &exit{code: code}
	}
	return nil
}

func (a *app) now() time.Time {
	if a.clock != nil {
		return a.clock.Now()
	}
	return time.Now()
}

// upperCase returns regions in capital letters.
func upperCase(regions []string) []string {
	all := slices.Clone(regions)
	for i, region := range all {
		all[i] = strings.ToUpper(region)
	}
	return all
}

// choose returns the jobs that the flags name, or all jobs. If the flags name regions, it
// keeps only jobs that have one of them.
func choose(s *settings, f *runFlags) ([]*ingest.Job, error) {
	all := s.List()
	names := jobNames(s)
	for _, name := range f.jobs {
		if !slices.Contains(names, name) {
			return nil, usage("there is no job %q; the configuration has %s", name, strings.Join(names, ", "))
		}
	}
	var chosen []*ingest.Job
	known := map[string]bool{}
	for _, j := range all {
		if len(f.jobs) > 0 && !slices.Contains(f.jobs, j.Name) {
			continue
		}
		has := len(f.regions) == 0
		for _, region := range f.regions {
			if j.Regional() && slices.Contains(j.Regions, region) {
				has, known[region] = true, true
			}
		}
		if has {
			chosen = append(chosen, j)
		}
	}
	for _, region := range f.regions {
		if !known[region] {
			return nil, usage("none of the jobs has the region %q; regions are two capital letters, as US or DE", region)
		}
	}
	return chosen, nil
}

// regionsOf returns the named regions that the job has.
func regionsOf(j *ingest.Job, asked []string) []string {
	var all []string
	for _, region := range asked {
		if slices.Contains(j.Regions, region) {
			all = append(all, region)
		}
	}
	return all
}

// once makes one run of each job. Deferred work comes first, for all jobs.
func (a *app) once(ctx context.Context, w *works, jobs []*ingest.Job, f *runFlags) (all []*runView) {
	had := map[string][]string{} // by job: the work that was resumed
	stuck := map[string]bool{}
	one := func(j *ingest.Job, why ingest.Occasion) {
		why.Regions = regionsOf(j, f.regions)
		rep, err := w.run(ctx, j, why)
		r := summary(j, rep, err, a.now())
		all = append(all, r)
		if err != nil {
			stuck[j.Name] = true
			if !a.quiet || r.code != exitDeferred { // another process runs the job, which is not a problem
				fmt.Fprintf(a.stderr, "ingestor: %s\n", err)
			}
			return
		}
		for i := range rep.Work {
			had[j.Name] = append(had[j.Name], rep.Work[i].Work)
		}
	}
	whys := a.occasions(ctx, w, jobs, f) // before a run changes what is due
	for _, j := range jobs {
		at, err := w.runner.ResumeAt(ctx, j, nil)
		if err == nil && !at.IsZero() && !at.After(a.now()) {
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

// occasions returns why each job is run, by name. It leaves out jobs that are not due.
func (a *app) occasions(ctx context.Context, w *works, jobs []*ingest.Job, f *runFlags) map[string]ingest.Occasion {
	all := map[string]ingest.Occasion{}
	for _, j := range jobs {
		if !f.due {
			all[j.Name] = ingest.Occasion{}
			continue
		}
		why, due, err := w.runner.Due(ctx, j)
		if due || err != nil { // the run meets the same fault and reports it
			all[j.Name] = why
		}
	}
	return all
}
