package metrics

import (
	"context"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
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
		is := 0.0
		if last.State == state {
			is = 1
		}
		r.add(runState, is, j.Name, string(state))
	}
	units, pages := int64(0), 0
	for _, w := range last.Work {
		units += w.Units
		pages += w.Pages
	}
	r.add(runUnits, float64(units), j.Name)
	r.add(runPages, float64(pages), j.Name)
	r.add(runStarted, instant(last.StartedAt), j.Name)
	if !last.EndedAt.IsZero() {
		r.add(runEnded, instant(last.EndedAt), j.Name)
	}
	r.add(jobDue, instant(j.Schedule().Next(last.StartedAt)), j.Name)
}
