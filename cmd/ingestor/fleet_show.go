package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

func (a *app) fleetCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Show the daemons of a fleet and their work, or pause a job",
		Long: `Show the daemons that share a database: who is alive, the version and price book of each,
and what each holds and has spent. Then show the work: what is queued, what is deferred
until when and why, and what was taken over from a daemon that vanished. Last is the
ledger that the fleet charges.

A fleet needs the setting database. docs/fleet.md describes how to move to one.`,
		Example: `  ingestor fleet
  ingestor fleet pause trending
  ingestor fleet retry`,
		Args: known,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withFleet(cmd, func(ctx context.Context, b *fleet.Board) error {
				status, err := b.Status(ctx)
				if err != nil {
					return err
				}
				return a.print(view.FleetStatus(status), func(s *sheet) { s.fleet(&status, all) })
			})
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "show also the work that waits until its job is due")
	cmd.AddCommand(a.fleetPauseCommand(), a.fleetResumeCommand(), a.fleetRetryCommand(), a.fleetDropCommand())
	return cmd
}

// fleet prints the tables of a fleet.
func (s *sheet) fleet(status *fleet.Status, all bool) {
	if len(status.Daemons) == 0 {
		s.line("No daemon is running.\nTo start one: ingestor run")
	} else {
		s.view(view.DaemonTable(status))
	}
	if work := view.UnitTable(status, all); len(work.Rows) > 0 {
		s.line("")
		s.view(work)
	}
	for _, l := range status.Ledgers {
		s.line("\n%s", view.ChargedTo(l))
	}
	if status.Behind != nil {
		s.line("\nThe slowest replica of the database is %s bytes behind.", view.Number(*status.Behind))
	}
}

// withFleet opens the board of the fleet, and calls f.
func (a *app) withFleet(cmd *cobra.Command, f func(context.Context, *fleet.Board) error) error {
	s, err := a.settings(cmd.Flags())
	if err != nil {
		return err
	}
	if s.Database == "" {
		return config(errors.New("there is no fleet: the setting database is empty\n" +
			"To name the database: ingestor fleet --database postgres://user@host/database, or write database: into ingestor.yaml"))
	}
	return a.withCatalog(cmd, func(ctx context.Context, c anyCatalog) error {
		b, err := openBoard(ctx, c)
		if err != nil {
			return err
		}
		return f(ctx, b)
	})
}

// openBoard returns the board of the fleet, or nil if the catalog is a file.
func openBoard(ctx context.Context, c anyCatalog) (*fleet.Board, error) {
	shared, ok := c.(*pgcatalog.Catalog)
	if !ok {
		return nil, nil //nolint:nilnil // there is none
	}
	if err := fleet.Migrate(ctx, shared); err != nil {
		return nil, unopenedDatabase(err)
	}
	return fleet.NewBoard(shared)
}

// fleetJob is a job of a fleet, and how much of its work goes on, in JSON.
type fleetJob struct {
	Account string `json:"account"`
	Job     string `json:"job"`
	Paused  bool   `json:"paused"`
	Units   int    `json:"retried_units"`
}

// fleetJobs returns the jobs of the fleet with a name, or all of them: those of the settings,
// and those that other daemons work.
func (a *app) fleetJobs(ctx context.Context, b *fleet.Board, name string) ([]fleetJob, error) {
	var all []fleetJob
	for _, j := range a.loaded.List() {
		all = append(all, fleetJob{Account: cmp.Or(j.Account, quota.DefaultAccount), Job: j.Name})
	}
	status, err := b.Status(ctx)
	if err != nil {
		return nil, err
	}
	for i := range status.Units {
		u := &status.Units[i]
		is := fleetJob{Account: u.Account, Job: u.Job}
		if k := slices.Index(all, is); k < 0 && !slices.Contains(all, fleetJob{Account: u.Account, Job: u.Job, Paused: true}) {
			is.Paused = u.Paused
			all = append(all, is)
		} else if k >= 0 {
			all[k].Paused = u.Paused
		}
	}
	if name == "" {
		return all, nil
	}
	var names []string
	for _, j := range all {
		names = append(names, j.Job)
	}
	if all = slices.DeleteFunc(all, func(j fleetJob) bool { return j.Job != name }); len(all) == 0 {
		return nil, usage("there is no job %q; there are %s", name, strings.Join(names, ", "))
	}
	return all, nil
}

// changeFleet does something to jobs, and prints what it did.
func (a *app) changeFleet(cmd *cobra.Command, args []string, did string, do func(context.Context, *fleet.Board, *fleetJob) error) error {
	return a.withFleet(cmd, func(ctx context.Context, b *fleet.Board) error {
		jobs, err := a.fleetJobs(ctx, b, strings.Join(args, ""))
		if err != nil {
			return err
		}
		for i := range jobs {
			if err := do(ctx, b, &jobs[i]); err != nil {
				if _, coded := errors.AsType[*exit](err); coded {
					return err
				}
				return unopenedDatabase(err)
			}
		}
		return a.print(jobs, func(s *sheet) {
			for _, j := range jobs {
				if did != "" {
					s.line(did, j.Job)
				} else {
					s.line("%s: %d deferred units of work resume now.", j.Job, j.Units)
					if j.Paused {
						s.line("The job is paused. To resume it: ingestor fleet resume %s", j.Job)
					}
				}
			}
		})
	})
}

func (a *app) fleetPauseCommand() *cobra.Command {
	return a.fleetJobCommand(&cobra.Command{
		Use:   "pause JOB",
		Short: "Stop the work of a job on all machines",
		Long: `Stop the work of a job on all machines. A slice of work that has begun ends first, which
takes up to 90 seconds. A program of a job that has begun runs to its end. The job's runs
are still queued when they are due.`,
		Example: `  ingestor fleet pause trending`,
	}, "%s is paused on all machines. To resume it: ingestor fleet resume %[1]s", true, (*fleet.Board).Pause)
}

func (a *app) fleetResumeCommand() *cobra.Command {
	return a.fleetJobCommand(&cobra.Command{
		Use:     "resume JOB",
		Short:   "End the pause of a job",
		Long:    `End the pause of a job. All daemons that have the job work on it again.`,
		Example: `  ingestor fleet resume trending`,
	}, "%s is not paused.", false, (*fleet.Board).Resume)
}

// fleetJobCommand makes a command that pauses or resumes a job, and says so when it is done.
func (a *app) fleetJobCommand(cmd *cobra.Command, done string, paused bool, change func(*fleet.Board, context.Context, string, string) error) *cobra.Command {
	cmd.Args = takes(1, 1, "one job")
	cmd.ValidArgsFunction = a.completeFirst(jobNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.changeFleet(cmd, args, done, func(ctx context.Context, b *fleet.Board, j *fleetJob) error {
			j.Paused = paused
			return change(b, ctx, j.Account, j.Job)
		})
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) fleetDropCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drop JOB",
		Short: "Forget the work of a job that was removed from the settings",
		Long: `Forget the queued and deferred work of a job that no daemon has in its settings any more,
and end its runs. The fetched data, the position of the job and its history stay.`,
		Example: `  ingestor fleet drop trending`,
		Args:    takes(1, 1, "one job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeFleet(cmd, args, "Dropped the work of %s.", func(ctx context.Context, b *fleet.Board, j *fleetJob) (err error) {
				_, err = b.Drop(ctx, j.Account, j.Job)
				if held, ok := errors.AsType[*fleet.HeldError](err); ok {
					return config(fmt.Errorf("%w\nRemove it there, and reload or restart the daemon", held))
				}
				return err
			})
		},
		ValidArgsFunction: a.completeFirst(jobNames),
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) fleetRetryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry [JOB]",
		Short: "Let deferred work resume now",
		Long: `Let the deferred work of a job, or of all jobs, resume now. Each call still reserves its
units. If the quota does not allow it, the work is deferred again.`,
		Example: `  ingestor fleet retry trending
  ingestor fleet retry`,
		Args: takes(0, 1, "one job, or none for all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeFleet(cmd, args, "", func(ctx context.Context, b *fleet.Board, j *fleetJob) (err error) {
				j.Units, err = b.Retry(ctx, j.Account, j.Job)
				return err
			})
		},
		ValidArgsFunction: a.completeFirst(jobNames),
	}
	a.outputFlag(cmd)
	return cmd
}
