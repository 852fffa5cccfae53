package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// Metrics from the catalog.
var (
	catalogUp = gauge("ingestor_catalog_up", "Whether the catalog could be read, and written by the server.")

	runState   = gauge("ingestor_run_state", "Whether the job's last run is in this state.", "job", "state")
	runUnits   = gauge("ingestor_run_units", "Units that the job's last run spent.", "job")
	runPages   = gauge("ingestor_run_pages", "Pages that the job's last run saved.", "job")
	runStarted = gauge("ingestor_run_started_timestamp_seconds", "When the job's last run began.", "job")
	runEnded   = gauge("ingestor_run_ended_timestamp_seconds", "When the job's last run ended.", "job")

	jobDue  = gauge("ingestor_job_due_timestamp_seconds", "When the job was to run next after its last run began; long past, nobody runs it.", "job")
	jobNext = gauge("ingestor_job_next_timestamp_seconds", "When the job goes on with what was deferred, or is due again.", "job")

	regionCompleted = gauge("ingestor_region_completed_timestamp_seconds", "When the job last completed a region: its stalest work; 0 is never.", "job", "region")
	feedFetched     = gauge("ingestor_feed_fetched_timestamp_seconds", "When the chart was last fetched as a whole; 0 is never.", "region", "category")
	feedVideos      = gauge("ingestor_feed_videos", "Videos in the chart.", "region", "category")
)

// readCatalog reads the charts and the runs of jobs.
func readCatalog(ctx context.Context, src *view.Sources) (r readings, err error) {
	feeds, err := src.Catalog.Feeds(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range feeds {
		r.add(feedFetched, instant(f.FetchedAt), f.Region, f.Category)
		r.add(feedVideos, float64(f.Entries), f.Region, f.Category)
	}
	for _, j := range src.Jobs {
		if err := r.job(ctx, src, j); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// job reads the last run and the freshness of a job.
func (r *readings) job(ctx context.Context, src *view.Sources, j *ingest.Job) error {
	runs, err := src.Catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Limit: 1, Made: true})
	if err != nil {
		return err
	}
	for i := range runs {
		r.run(&runs[i], j)
	}
	next, err := src.Runner.NextAt(ctx, j)
	if err != nil {
		return err
	}
	r.add(jobNext, instant(next), j.Name)
	fresh, err := src.Runner.Freshness(ctx, j)
	if err != nil {
		return err
	}
	for _, f := range fresh {
		r.add(regionCompleted, instant(f.CompletedAt), j.Name, f.Region)
	}
	return nil
}

func (r *readings) run(last *catalog.RunRecord, j *ingest.Job) {
	for _, state := range []catalog.State{catalog.Running, catalog.Done, catalog.Deferred, catalog.Failed, catalog.Skipped} {
		r.add(runState, truth(last.State == state), j.Name, string(state))
	}
	sum := view.Total(last)
	r.add(runUnits, float64(sum.Units), j.Name)
	r.add(runPages, float64(sum.Pages), j.Name)
	r.add(runStarted, instant(last.StartedAt), j.Name)
	if !last.EndedAt.IsZero() {
		r.add(runEnded, instant(last.EndedAt), j.Name)
	}
	r.add(jobDue, instant(j.Schedule().Next(last.StartedAt)), j.Name)
}

// Metrics from the daemons of a fleet. They are missing if the catalog is a file. No label
// names a daemon, because each start of one has a new name.
var (
	fleetUp = gauge("ingestor_fleet_up", "Whether the state of the fleet could be read.")

	fleetDaemons = gauge("ingestor_fleet_daemons", "Daemons that were seen in the last seconds.")
	fleetSilent  = gauge("ingestor_fleet_silent_daemons", "Daemons that did not end by themselves and have not been seen for some seconds. They are forgotten after a day.")
	fleetLocks   = gauge("ingestor_fleet_locks", "Locks on tables of the fleet that keep the daemons from working.")
	fleetLeader  = gauge("ingestor_fleet_leader", "Whether one of the daemons leads: it wakes deferred work, and takes over the work of programs.")
	fleetSkew    = gauge("ingestor_fleet_clock_skew_seconds", "By how much the worst clock of a daemon differs from the database's.")
	fleetUnits   = gauge("ingestor_fleet_work", "Units of work of the job in this state.", "job", "state")
	fleetPaused  = gauge("ingestor_fleet_paused", "Whether a person paused the job.", "job")
	fleetUntil   = gauge("ingestor_fleet_deferred_timestamp_seconds", "When the job's work resumes that is deferred for longest.", "job")
	fleetSince   = gauge("ingestor_fleet_deferred_since_timestamp_seconds", "Since when the job's work has been deferred that was not completed for longest.", "job")
	fleetTaken   = gauge("ingestor_fleet_taken_over_timestamp_seconds", "When work of the job was last taken over from a daemon that vanished.", "job")
	fleetBehind  = gauge("ingestor_database_replication_behind_bytes", "Bytes of the database's log that its slowest replica lacks. Missing without a replica.")
)

type workOf struct {
	states              map[fleet.UnitState]int
	paused              bool
	until, since, taken time.Time
}

// readFleet reads the daemons and the work of a fleet.
func readFleet(ctx context.Context, src *view.Sources) (r readings, err error) {
	s, err := src.Fleet.Status(ctx)
	if locked, is := errors.AsType[*fleet.LockedError](err); is { // the rest cannot be read
		r.add(fleetLocks, float64(len(locked.Locks)))
		return r, err
	}
	if err != nil {
		return nil, err
	}
	n, leader, skew := s.Alive()
	r.add(fleetDaemons, float64(n))
	r.add(fleetSilent, float64(len(s.Daemons)-n))
	r.add(fleetLocks, float64(len(s.Locks)))
	r.add(fleetLeader, truth(leader))
	r.add(fleetSkew, skew.Seconds())
	if s.Behind != nil {
		r.add(fleetBehind, float64(*s.Behind))
	}
	jobs := map[string]*workOf{}
	for i := range s.Units {
		u := &s.Units[i]
		j := jobs[u.Job]
		if j == nil {
			j = &workOf{states: map[fleet.UnitState]int{}}
			jobs[u.Job] = j
		}
		j.states[u.State]++
		j.paused = j.paused || u.Paused
		if u.State == fleet.UnitDeferred && u.NextAt.After(j.until) {
			j.until = u.NextAt
		}
		if at := u.DeferredSince; !at.IsZero() && (j.since.IsZero() || at.Before(j.since)) {
			j.since = at
		}
		if u.TakenAt.After(j.taken) {
			j.taken = u.TakenAt
		}
	}
	for name, j := range jobs {
		for _, state := range []fleet.UnitState{fleet.UnitIdle, fleet.UnitQueued, fleet.UnitRunning, fleet.UnitDeferred} {
			r.add(fleetUnits, float64(j.states[state]), name, string(state))
		}
		r.add(fleetPaused, truth(j.paused), name)
		if !j.until.IsZero() {
			r.add(fleetUntil, instant(j.until), name)
		}
		if !j.since.IsZero() {
			r.add(fleetSince, instant(j.since), name)
		}
		if !j.taken.IsZero() {
			r.add(fleetTaken, instant(j.taken), name)
		}
	}
	return r, nil
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
