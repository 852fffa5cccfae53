package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

// daemon runs jobs when they are due: alone, or as one process of a fleet.
type daemon interface {
	Run(ctx context.Context) error
	Reload(ctx context.Context, r *ingest.Runner, jobs []*ingest.Job, commit func() error) error
}

var (
	_ daemon = (*ingest.Daemon)(nil)
	_ daemon = (*fleet.Fleet)(nil)
)

// joinClock makes the runs of a fleet follow the clock of the database, and makes the tables
// of the fleet.
func (w *works) joinClock(ctx context.Context) error {
	c, ok := w.catalog.(*pgcatalog.Catalog)
	if !ok {
		return nil
	}
	missing, err := c.Missing(ctx, pgcatalog.Schema, fleet.Schema)
	if err := session.Granted(w.settings, missing, err); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, migrating)
	defer cancel()
	if err := fleet.Migrate(soon, c); err != nil {
		return session.UnopenedDatabase(err)
	}
	clock, err := fleet.NewClock(ctx, c)
	if err != nil {
		return session.UnopenedDatabase(err)
	}
	w.clock = clock
	w.board, err = fleet.NewBoard(c)
	return err
}

// migrating is how long making the tables of the fleet may take. Another process may be at it.
const migrating = time.Minute

// joinFleet makes the process one of a fleet, if the catalog is in PostgreSQL.
func joinFleet(a *session.Session, w *works, jobs []*ingest.Job, done func(*ingest.Job, *ingest.Report, error), stale func()) (err error) {
	c, ok := w.catalog.(*pgcatalog.Catalog)
	if !ok {
		return nil
	}
	s := w.settings
	w.fleet, err = fleet.New(c, w.clock.(*fleet.Clock), w.runner, jobs, &fleet.Options{
		Log: a.Log, Version: session.Build().Version, Revision: func() int64 { return w.ledger.Book().Revision },
		Workers: s.Workers, CallTimeout: s.CallTimeout, PollOnly: s.PollOnly, Done: done, Stale: stale, Timing: timing(),
	})
	return err
}

// fleetTiming is set by the linker, and only in tests of a fleet: its times, in JSON.
var fleetTiming = "{}"

func timing() (t fleet.Timing) {
	if err := json.Unmarshal([]byte(fleetTiming), &t); err != nil {
		panic(err) // the linker set it
	}
	return t
}

// openDaemon opens everything that a daemon needs. While the database of the catalog does not
// answer, a file is busy, or a disk is full or for reading only, it waits: a daemon that starts
// before its database, or before somebody makes room, stays.
// One that ended would be back only when somebody starts it again, after the growing pauses of Kubernetes.
func openDaemon(ctx context.Context, a *session.Session, s *settings.Settings, done *console.Closers) (*works, error) {
	for told := (time.Time{}); ; {
		var opened console.Closers
		w, err := openWorks(ctx, a, s, &opened, nil)
		if err == nil {
			done.Add(opened.Close)
			return w, nil
		}
		err = errors.Join(err, opened.Close())
		why, waits := "a file cannot be used now", sqlitefile.Full(err) || sqlitefile.Busy(err) || sqlitefile.ReadOnly(err)
		if _, unanswered := errors.AsType[session.Unanswered](err); unanswered {
			why, waits = "the database does not answer", true
		}
		if !waits || ctx.Err() != nil {
			return nil, err
		}
		if a.Now().Sub(told) > time.Minute {
			a.Log.Warn(why+"; trying again every few seconds", "error", err)
			told = a.Now()
		}
		_ = (quota.SystemClock{}).Sleep(ctx, 3*time.Second) // it fails when the context ends
	}
}

// verifying is how often a daemon looks for a ledger that did not answer when it started.
const verifying = 5 * time.Second

// verifyLater waits for a ledger that did not answer when the daemon started. If it is not the one
// of the fleet, the daemon ends: verifyLater cancels its context.
func verifyLater(ctx context.Context, a *session.Session, w *works, cancel context.CancelCauseFunc) {
	for {
		_, err := a.ChargeTo(ctx, w.settings, w.ledger, w.catalog, false)
		_, other := errors.AsType[*pgcatalog.OtherLedgerError](err)
		if other {
			cancel(err)
		}
		if other || err == nil || errors.Is(err, quota.ErrOutage) && !errors.Is(err, session.ErrUnverified) {
			return
		}
		if (quota.SystemClock{}).Sleep(ctx, verifying) != nil {
			return
		}
	}
}

func FleetCommand(a *session.Session) *cobra.Command {
	var all bool
	cmd := a.Command("fleet", console.Known, func(cmd *cobra.Command, _ []string) error {
		return withFleet(a, cmd, func(ctx context.Context, b *fleet.Board) error {
			status, err := b.Status(ctx)
			if err != nil {
				return err
			}
			return a.Print(view.FleetStatus(status), func(s *console.Sheet) { writeFleet(s, &status, all, a.Loaded.Typed()) })
		})
	})
	cmd.Flags().BoolVar(&all, "all", false, "show also the work that waits until its job is due")
	cmd.AddCommand(
		fleetJobCommand(a, "pause JOB", "%[1]s is paused on all machines. To resume it: ingestor fleet resume %[1]s%[2]s", true, (*fleet.Board).Pause),
		fleetJobCommand(a, "resume JOB", "%[1]s is no longer paused. Its work begins within seconds.", false, (*fleet.Board).Resume),
		fleetRetryCommand(a), fleetDropCommand(a),
	)
	return cmd
}

func writeFleet(s *console.Sheet, status *fleet.Status, all bool, typed string) {
	for _, n := range verdict.OfFleet(status, nil, typed) {
		s.Line("%s", n.Says)
	}
	if len(status.Daemons) > 0 {
		if len(status.Findings) > 0 {
			s.Line("")
		}
		s.View(view.DaemonTable(status))
	}
	if work := view.UnitTable(status, all); len(work.Rows) > 0 {
		s.Line("")
		s.View(work)
	}
	for _, l := range status.Ledgers {
		s.Line("\n%s", view.ChargedTo(l))
	}
	if status.Behind != nil {
		s.Line("\nThe slowest replica of the database is %s bytes behind.", view.Number(*status.Behind))
	}
}

func withFleet(a *session.Session, cmd *cobra.Command, f func(context.Context, *fleet.Board) error) error {
	s, err := a.Settings(cmd.Flags())
	if err != nil {
		return err
	}
	if s.Database == "" {
		return console.Config(errors.New("there is no fleet: the setting database is empty\n" +
			"To name the database: ingestor fleet --database postgres://user@host/database, or write database: into ingestor.yaml"))
	}
	return a.WithCatalog(cmd, func(ctx context.Context, c session.AnyCatalog) error {
		b, err := session.OpenBoard(ctx, c)
		if err != nil {
			return err
		}
		err = f(ctx, b)
		if _, locked := errors.AsType[*fleet.LockedError](err); locked {
			return session.UnopenedDatabase(err)
		}
		return err
	})
}

// fleetJob is a job of a fleet, and how much of its work goes on, in JSON.
type fleetJob struct {
	Account string `json:"account"`
	Job     string `json:"job"`
	Paused  bool   `json:"paused"`
	Units   int    `json:"retried_units"`

	did string // in place of what the command says: a format of the job, and of the flags of a command
}

// fleetJobs returns the jobs of the fleet with a name, or all of them: those of the settings,
// and those that other daemons work.
func fleetJobs(ctx context.Context, a *session.Session, b *fleet.Board, name string) ([]fleetJob, error) {
	var all []fleetJob
	for _, j := range a.Loaded.List() {
		all = append(all, fleetJob{Account: cmp.Or(j.Account, quota.DefaultAccount), Job: j.Name})
	}
	status, err := b.Status(ctx)
	if err != nil {
		return nil, err
	}
	for i := range status.Units {
		u := &status.Units[i]
		if is := (fleetJob{Account: u.Account, Job: u.Job}); !slices.Contains(all, is) {
			all = append(all, is)
		}
	}
	for i := range all {
		all[i].Paused = status.Paused(all[i].Account, all[i].Job)
	}
	if name == "" {
		return all, nil
	}
	var names []string
	for _, j := range all {
		names = append(names, j.Job)
	}
	if all = slices.DeleteFunc(all, func(j fleetJob) bool { return j.Job != name }); len(all) == 0 {
		return nil, console.Usage("there is no job %q; there are %s", name, strings.Join(names, ", "))
	}
	return all, nil
}

// changeFleet does something to jobs, and prints what it did.
func changeFleet(a *session.Session, cmd *cobra.Command, args []string, did string, do func(context.Context, *fleet.Board, *fleetJob) error) error {
	return withFleet(a, cmd, func(ctx context.Context, b *fleet.Board) error {
		jobs, err := fleetJobs(ctx, a, b, strings.Join(args, ""))
		if err != nil {
			return err
		}
		for i := range jobs {
			if err := do(ctx, b, &jobs[i]); err != nil {
				if _, coded := errors.AsType[*console.Exit](err); coded {
					return err
				}
				return session.UnopenedDatabase(err)
			}
		}
		return a.Print(jobs, func(s *console.Sheet) {
			for _, j := range jobs {
				if text := cmp.Or(j.did, did); text != "" {
					s.Line(text, j.Job, a.Loaded.Typed())
				} else {
					s.Line("%s: %d deferred units of work resume now.", j.Job, j.Units)
					if j.Paused {
						s.Line("The job is paused. To resume it: ingestor fleet resume %s%s", j.Job, a.Loaded.Typed())
					}
				}
			}
		})
	})
}

// fleetJobCommand makes a command that pauses or resumes a job, and says so when it is done.
func fleetJobCommand(a *session.Session, use, done string, paused bool, change func(*fleet.Board, context.Context, string, string) error) *cobra.Command {
	return a.Command(use, console.Takes(1, 1, "one job"), func(cmd *cobra.Command, args []string) error {
		return changeFleet(a, cmd, args, done, func(ctx context.Context, b *fleet.Board, j *fleetJob) error {
			if !paused && !j.Paused {
				j.did = "%[1]s was not paused."
			}
			j.Paused = paused
			return change(b, ctx, j.Account, j.Job)
		})
	}, a.CompleteFirst(session.JobNames))
}

func fleetDropCommand(a *session.Session) *cobra.Command {
	return a.Command("drop JOB", console.Takes(1, 1, "one job"), func(cmd *cobra.Command, args []string) error {
		return changeFleet(a, cmd, args, "Dropped the work of %[1]s.", func(ctx context.Context, b *fleet.Board, j *fleetJob) (err error) {
			_, err = b.Drop(ctx, j.Account, j.Job)
			if held, ok := errors.AsType[*fleet.HeldError](err); ok {
				return console.Config(fmt.Errorf("%w\nRemove it there, and reload or restart the daemon", held))
			}
			return err
		})
	}, a.CompleteFirst(session.JobNames))
}

func fleetRetryCommand(a *session.Session) *cobra.Command {
	return a.Command("retry [JOB]", console.Takes(0, 1, "one job, or none for all"), func(cmd *cobra.Command, args []string) error {
		return changeFleet(a, cmd, args, "", func(ctx context.Context, b *fleet.Board, j *fleetJob) (err error) {
			j.Units, err = b.Retry(ctx, j.Account, j.Job)
			return err
		})
	}, a.CompleteFirst(session.JobNames))
}
