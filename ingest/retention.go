package ingest

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// YouTube's terms allow fetched data to be kept for 30 days. Data is deleted earlier, by
// the longest day, after which a retention job is due again, and by an hour for the run.
// Data is fetched again before that, while there are days left in which a quota may be
// short. Only statistics may be kept longer: see [Config].KeepStatisticsDays.
const (
	keepDays     = 30
	refreshAfter = 25 * 24 * time.Hour
)

// expireBefore is the time before which what was fetched is deleted, if it may be kept
// for so many days.
func (r *Runner) expireBefore(days int) time.Time {
	return r.clock.Now().Add(longestDay + time.Hour - time.Duration(days)*24*time.Hour)
}

func (r *Runner) aging() time.Time { return r.clock.Now().Add(-refreshAfter) }

// batch is how many ids one call takes.
const batch = 50

// refresh fetches what was last fetched before a time, the oldest first.
func (r *Runner) refresh(kind catalog.Kind, before func() time.Time, fetch func(Upstream, context.Context, []string) (*catalog.Page, error)) func(context.Context, catalog.Cursor) (*catalog.Page, error) {
	return func(ctx context.Context, _ catalog.Cursor) (*catalog.Page, error) {
		ids, err := r.catalog.Aging(ctx, kind, before(), batch+1)
		if err != nil {
			return nil, &catalogError{err}
		}
		if len(ids) == 0 {
			return &catalog.Page{Done: true}, nil
		}
		more := len(ids) > batch
		p, err := fetch(r.upstream, ctx, ids[:min(len(ids), batch)])
		if err != nil {
			return nil, err
		}
		if p.Next, p.Done = "", !more; more {
			p.Next = "more" // the question itself moves on
		}
		return p, nil
	}
}

// statsWorks has one unit of work, the statistics of every known video.
func statsWorks(r *Runner, _ *Job) []*Work {
	began := r.clock.Now()
	return []*Work{{Name: "statistics", fetch: r.refresh(catalog.KindStatistics, func() time.Time { return began }, Upstream.Statistics)}}
}

// retentionWorks has a unit of work for videos, and one for channels.
func retentionWorks(r *Runner, _ *Job) []*Work {
	return []*Work{
		{Name: "videos", fetch: r.refresh(catalog.KindVideos, r.aging, Upstream.Videos)},
		{Name: "channels", fetch: r.refresh(catalog.KindChannels, r.aging, Upstream.Channels)},
	}
}

// expire deletes what is too old. It needs no quota, and so is done in any case.
func (r *run) expire() {
	gone, err := r.catalog.Expire(context.WithoutCancel(r.abort), catalog.Limits{Before: r.expireBefore(keepDays), StatisticsBefore: r.expireBefore(r.keepStatisticsDays)})
	if err == nil {
		err = r.catalog.ForgetRuns(context.WithoutCancel(r.abort), r.clock.Now().Add(-historyFor))
	}
	if err != nil {
		r.report.Err = &catalogError{err}
		r.log.Error("delete what is too old", "error", err)
		return
	}
	if gone != (catalog.Expired{}) {
		r.log.Info("deleted what could not be fetched again in time", "videos", gone.Videos, "channels", gone.Channels, "statistics", gone.Statistics, "charts", gone.Charts)
	}
}

// historyFor is how long runs are remembered.
const historyFor = 90 * 24 * time.Hour
