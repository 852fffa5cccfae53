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
		old, err := r.catalog.Ages(ctx, kind, before(), batch+1)
		if err != nil {
			return nil, &catalogError{err}
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
			p.Next = "more" // the question itself moves on
		}
		return p, nil
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
