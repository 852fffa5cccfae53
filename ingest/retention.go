package ingest

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// YouTube's terms allow fetched data to be kept for 30 days. A retention job deletes data
// before that: it may be due again only after the longest day, and its run may take an
// hour. It fetches data again after 25 days, so that the quota may be short on some days.
// Only statistics may be kept longer: see [Config].KeepStatisticsDays.
const (
	keepDays     = 30
	refreshAfter = 25 * 24 * time.Hour
)

// expireBefore returns the time before which fetched data is deleted, if it may be kept for
// this number of days.
func (r *Runner) expireBefore(days int) time.Time { return r.clock.Now().Add(-keptFor(days)) }

// keptFor returns the age at which retention deletes data that may be kept for a number of days.
func keptFor(days int) time.Duration {
	return time.Duration(days)*24*time.Hour - longestDay - time.Hour
}

// Expires returns when retention deletes a video or its statistics, unless they are fetched
// again before.
func (r *Runner) Expires(v *catalog.Video) time.Time {
	at := v.FetchedAt.Add(keptFor(keepDays))
	if v.Statistics == nil {
		return at
	}
	if counted := v.Statistics.FetchedAt.Add(keptFor(r.keepStatisticsDays)); counted.Before(at) {
		return counted
	}
	return at
}

func (r *Runner) aging() time.Time { return r.clock.Now().Add(-refreshAfter) }

// batch is the number of ids that one call takes.
const batch = 50

// refresh returns a function that fetches data again that was last fetched before a time,
// oldest first.
func (r *Runner) refresh(kind catalog.Kind, before func() time.Time, fetch func(Upstream, context.Context, []string) (*catalog.Page, error)) func(context.Context, catalog.Cursor) (*catalog.Page, error) {
	return func(ctx context.Context, _ catalog.Cursor) (*catalog.Page, error) {
		old, err := r.catalog.Ages(ctx, kind, before(), batch+1)
		if err != nil {
			return nil, &kindError{err, errCatalog}
		}
		if len(old) == 0 {
			return &catalog.Page{Done: true}, nil
		}
		more := len(old) > batch
		var ids []string
		for _, a := range old[:min(len(old), batch)] {
			ids = append(ids, a.ID)
		}
		p, err := fetch(r.upstream, ctx, ids)
		if err != nil {
			return nil, err
		}
		if p.Next, p.Done = "", !more; more {
			p.Next = "more" // the next call selects the next ids by itself
		}
		return p, nil
	}
}

func statsWorks(r *Runner, _ *Job) []*Work {
	w := &Work{Name: "statistics"}
	w.fetch = r.refresh(catalog.KindStatistics, func() time.Time { return w.began }, Upstream.Statistics)
	return []*Work{w}
}

func retentionWorks(r *Runner, _ *Job) []*Work {
	return []*Work{
		{Name: "videos", fetch: r.refresh(catalog.KindVideos, r.aging, Upstream.Videos)},
		{Name: "channels", fetch: r.refresh(catalog.KindChannels, r.aging, Upstream.Channels)},
	}
}

// expire deletes data that is too old. It needs no quota, so every run does it.
func (r *Run) expire() error {
	gone, err := r.catalog.Expire(context.WithoutCancel(r.abort), catalog.Limits{Before: r.expireBefore(keepDays), StatisticsBefore: r.expireBefore(r.keepStatisticsDays)})
	if err == nil {
		err = r.catalog.ForgetRuns(context.WithoutCancel(r.abort), r.clock.Now().Add(-historyFor))
	}
	if err != nil {
		r.log.Error("delete data that is too old", "error", err)
		return &kindError{err, errCatalog}
	}
	if gone != (catalog.Expired{}) {
		r.log.Info("deleted data that was not fetched again in time", "videos", gone.Videos, "channels", gone.Channels, "statistics", gone.Statistics, "charts", gone.Charts)
	}
	return nil
}

// historyFor is how long the history keeps runs.
const historyFor = 90 * 24 * time.Hour
