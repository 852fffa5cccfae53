package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/quota"
)

// runFlags are those of ingestor run.
type runFlags struct {
	once    bool
	due     bool
	jobs    []string
	regions []string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the jobs when they are due, or once and leave",
		Long: `Without --once it stays and runs each job when it is due; what had to be deferred
goes on at the time that the ledger named. With --once it does what was deferred
and all jobs, or those named, and leaves.

Exit codes: 0 done, 75 deferred (the quota is gone, or another process has the job),
78 configuration, 77 credential, 69 upstream or ledger down, 1 some work failed.`,
		Example: `  ingestor run
  ingestor run --once --job trending --region US --region DE
  0 * * * *  ingestor run --once --due --quiet`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runJobs(cmd, &f)
		},
	}
	cmd.Flags().BoolVar(&f.once, "once", false, "do what there is to do, and leave")
	cmd.Flags().BoolVar(&f.due, "due", false, "with --once: only jobs that are due by their schedule")
	cmd.Flags().StringSliceVar(&f.jobs, "job", nil, "with --once: only this `job` (repeat it for more)")
	cmd.Flags().StringSliceVar(&f.regions, "region", nil, "with --once: only this `region` (repeat it for more)")
	cmd.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "write problems only, as for the mail of cron")
	return cmd
}

// works is all that runs need, opened.
type works struct {
	settings *settings
	ledger   *quota.Ledger
	catalog  *catalog.Catalog
	runner   *ingest.Runner
}

// openWorks opens all that runs need.
func (a *app) openWorks(ctx context.Context, s *settings, done *closers, progress func(ingest.Progress)) (*works, error) {
	w := &works{settings: s}
	var err error
	var locks ingest.Locker
	if w.ledger, locks, err = a.openLedger(ctx, s, done); err != nil {
		return nil, err
	}
	if w.catalog, err = a.openCatalog(ctx, s, done); err != nil {
		return nil, err
	}
	transport, err := a.transport(s, w.ledger)
	if err != nil {
		return nil, err
	}
	client, err := youtube.New(&http.Client{Transport: transport}, &youtube.Options{UserAgent: "headroom-ingestor"})
	if err != nil {
		return nil, config(err)
	}
	w.runner = ingest.NewRunner(&s.Config, w.ledger, w.catalog, client, locks, &ingest.Options{Log: a.log, Progress: progress, Abort: a.abort})
	return w, nil
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
	jobs, err := choose(s, f.jobs)
	if err != nil {
		return err
	}
	var done closers
	defer func() { err = errors.Join(err, done.close()) }()
	w, err := a.openWorks(ctx, s, &done, nil)
	if err != nil {
		return err
	}
	if !f.once {
		return ingest.NewDaemon(w.runner, jobs, a.reported).Run(ctx)
	}
	codes := map[int]bool{}
	for _, j := range jobs {
		codes[a.runOnce(ctx, w, j, f)] = true
	}
	if code := worst(codes); code != exitDone {
		return &exit{code: code}
	}
	return nil
}

// choose returns the jobs of these names; none is all.
func choose(s *settings, names []string) ([]*ingest.Job, error) {
	all := s.List()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []*ingest.Job
	for _, name := range names {
		i := slices.IndexFunc(all, func(j *ingest.Job) bool { return j.Name == name })
		if i < 0 {
			var there []string
			for _, j := range all {
				there = append(there, j.Name)
			}
			return nil, usage("there is no job %q; the configuration has %s", name, strings.Join(there, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// runOnce makes one run of a job, and returns its exit code.
func (a *app) runOnce(ctx context.Context, w *works, j *ingest.Job, f *runFlags) int {
	rep, err := w.runner.Run(ctx, j, ingest.Occasion{Regions: f.regions})
	a.reported(j, rep, err)
	if err != nil {
		return exitCode(err)
	}
	return reportCode(rep)
}

// reported tells of a run that has ended.
func (a *app) reported(j *ingest.Job, rep *ingest.Report, err error) {
	if err != nil {
		fmt.Fprintf(a.stderr, "ingestor: %s\n", err)
		return
	}
	for _, w := range rep.Work {
		fmt.Fprintf(a.stdout, "%s\t%s\t%d pages\t%d units\t%s\n", j.Name, w.Work, w.Pages, w.Units, w.State)
	}
}
