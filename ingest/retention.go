package ingest

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// What was fetched leaves before it is 30 days old: the terms of the upstream. It goes
// earlier by the longest day, after which a retention job is due again, and an hour for
// the run. It is fetched again before that, while there are days left in which a quota
// may be short.
const (
	keepFor      = 30*24*time.Hour - longestDay - time.Hour
	refreshAfter = 25 * 24 * time.Hour
)

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

// expire deletes what is too old. It needs no quota, and so is done in any case.
func (r *run) expire() {
	gone, err := r.catalog.Expire(context.WithoutCancel(r.abort), r.clock.Now().Add(-keepFor))
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
