package catalog

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// Kind is a kind of data that has to be refreshed or deleted.
type Kind string

// The kinds.
const (
	KindVideos     Kind = "videos"
	KindStatistics Kind = "statistics"
	KindChannels   Kind = "channels"
)

// Age says when a video, its statistics or a channel was last fetched.
type Age struct {
	ID        string
	FetchedAt time.Time // zero if a video has no statistics
	Brief     bool      // of a video: see [Video].Brief
}

// Ages returns data of a kind that was last fetched before a time, the oldest first. A
// limit below 0 is no limit. Videos without statistics count as the oldest statistics.
func (e *Engine) Ages(ctx context.Context, kind Kind, before time.Time, limit int) ([]Age, error) {
	if !slices.Contains([]Kind{KindVideos, KindStatistics, KindChannels}, kind) {
		return nil, fmt.Errorf("there is no kind %q", kind)
	}
	if limit < 0 {
		limit = math.MaxInt64
	}
	return list(ctx, e, func(a *Age) []any { return []any{&a.ID, &a.FetchedAt, &a.Brief} }, "ages_"+string(kind), before, limit)
}

// Limits are the limits of the age of data. Older data is deleted.
type Limits struct {
	Before           time.Time // for all data but statistics
	StatisticsBefore time.Time // for statistics
}

// Expired counts the data that was deleted.
type Expired struct{ Videos, Channels, Statistics, Sightings, Charts int }

// Expire deletes all data that was last fetched before the limits. With a video it
// deletes the video's words, statistics, sightings and places in charts. Cursors and the history
// of runs stay, because they hold no data of the upstream. Data with a time in the future, from a
// clock that was ahead, counts as fetched now.
//
// Deleted data leaves a file, and also the -wal beside it unless someone reads at that moment. In
// PostgreSQL it leaves the tables with the VACUUM that Expire runs, and words of another version
// of the program are made again.
func (e *Engine) Expire(ctx context.Context, l Limits) (x Expired, err error) {
	for _, table := range []string{"videos", "statistics", "channels", "charts", "sightings"} {
		if err == nil {
			err = e.home.Change(ctx, nothing, func(tx Tx) error {
				tx.Exec("rebase_"+table, tx.Now)
				return nil
			})
		}
	}
	deleted := 0
	for _, step := range []struct {
		statement string
		before    time.Time
		count     *int
	}{ // an entry of a chart is as old as the chart
		{"expire_charts", l.Before, &x.Charts},
		{"expire_sightings", l.Before, &x.Sightings},
		{"expire_statistics", l.StatisticsBefore, &x.Statistics},
		{"videos_aged", l.Before, &x.Videos},
		{"expire_channels", l.Before, &x.Channels},
	} {
		for n := 1; n > 0 && err == nil; { // a few at once, as others write too
			if step.count == &x.Videos {
				n, err = e.expireVideos(ctx, step.statement, step.before)
			} else {
				err = e.home.Change(ctx, nothing, func(tx Tx) error {
					tx.Count(&n, step.statement, step.before)
					return nil
				})
			}
			if err == nil {
				*step.count += n
				deleted += n
			}
		}
	}
	if err == nil {
		err = e.home.Expired(ctx, l, deleted)
	}
	return x, e.home.Fault("delete expired data in", err)
}

func (e *Engine) expireVideos(ctx context.Context, query string, before time.Time) (int, error) {
	var ids []string
	err := e.home.Change(ctx, func(b Batch) {
		ids = nil
		b.Query(func(scan Scan) error {
			ids = append(ids, "")
			return scan(&ids[len(ids)-1])
		}, query, before)
	}, func(tx Tx) error {
		if len(ids) > 0 {
			e.home.RemoveVideos(tx, ids)
		}
		return nil
	})
	return len(ids), err
}

// ForgetRuns deletes the history of runs that ended before a time.
func (e *Engine) ForgetRuns(ctx context.Context, before time.Time) error {
	return e.write(ctx, "write to", func(tx Tx) { tx.Exec("expire_runs", before) })
}
