package pgcatalog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/words"
)

// ages are the queries for the age of each kind.
var ages = map[catalog.Kind]string{
	catalog.KindVideos:     "ages_videos",
	catalog.KindStatistics: "ages_statistics",
	catalog.KindChannels:   "ages_channels",
}

// Ages returns data of a kind that was last fetched before a time, the oldest first. A
// limit below 0 is no limit. Videos without statistics count as the oldest statistics.
func (c *Catalog) Ages(ctx context.Context, kind catalog.Kind, before time.Time, limit int) (all []catalog.Age, err error) {
	query, ok := ages[kind]
	if !ok {
		return nil, fmt.Errorf("there is no kind %q", kind)
	}
	var most *int
	if limit >= 0 {
		most = &limit
	}
	err = c.each(ctx, func(scan func(...any) error) error {
		var a catalog.Age
		err := scan(&a.ID, &a.FetchedAt, &a.Brief)
		all = append(all, a)
		return err
	}, sql(query), micros(before), most)
	return all, err
}

// Expire deletes all data that was last fetched before the limits. With a video it
// deletes the video's words, statistics, sightings and places in charts. VACUUM then removes
// what was deleted from the tables. Cursors and the history of runs stay, because they hold no
// data of the upstream. Data with a time in the future, from a clock that was ahead, counts as
// fetched now. Words of another version of the program are made again.
func (c *Catalog) Expire(ctx context.Context, l catalog.Limits) (e catalog.Expired, err error) {
	for _, table := range []string{"videos", "statistics", "channels", "charts", "sightings"} {
		if err == nil {
			err = c.change(ctx, nothing, func(tx *tx, b *pgx.Batch) error {
				b.Queue(sql("rebase_"+table), micros(tx.now))
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
		{"expire_charts", l.Before, &e.Charts},
		{"expire_sightings", l.Before, &e.Sightings},
		{"expire_statistics", l.StatisticsBefore, &e.Statistics},
		{"expire_videos", l.Before, &e.Videos},
		{"expire_channels", l.Before, &e.Channels},
	} {
		for n := 1; n > 0 && err == nil; { // a few at once, as others write too
			err = c.change(ctx, nothing, func(_ *tx, b *pgx.Batch) error {
				b.Queue(sql(step.statement), micros(step.before)).Exec(func(done pgconn.CommandTag) error {
					n = int(done.RowsAffected())
					return nil
				})
				return nil
			})
			if err == nil {
				*step.count += n
				deleted += n
			}
		}
	}
	if err == nil {
		err = c.index(ctx, "stale_words", words.Version)
	}
	if err == nil && deleted > 0 && c.tx == nil {
		err = c.vacuum(ctx)
	}
	return e, c.fault("delete expired data in", err)
}

// vacuum removes deleted rows from the tables. Only their owner may.
func (c *Catalog) vacuum(ctx context.Context) error {
	for _, table := range []string{"videos", "video_words", "statistics", "sightings", "channels", "charts", "chart_entries"} {
		if _, err := c.pool.Exec(ctx, "VACUUM headroom_catalog."+table); err != nil {
			return err
		}
	}
	return nil
}

// ForgetRuns deletes the history of runs that ended before a time.
func (c *Catalog) ForgetRuns(ctx context.Context, before time.Time) error {
	return c.fault("write to", c.change(ctx, nothing, func(_ *tx, b *pgx.Batch) error {
		b.Queue(sql("expire_runs"), micros(before))
		return nil
	}))
}

// index makes the words of the videos that a query returns, a few at once. The last argument of the query is the row to begin after.
func (c *Catalog) index(ctx context.Context, query string, args ...any) (err error) {
	for last, more := int64(0), true; more && err == nil; {
		var rows []row
		var next int64
		err = c.change(ctx, func(b *pgx.Batch) {
			rows, next = nil, last
			b.Queue(sql(query), append(args[:len(args):len(args)], last)...).Query(func(found pgx.Rows) error {
				return eachRow(found, func(scan func(...any) error) error {
					r, err := scanTexts(scan, &next)
					rows = append(rows, r)
					return err
				})
			})
		}, func(_ *tx, b *pgx.Batch) error {
			if len(rows) > 0 {
				saveWords(b, rows)
			}
			return nil
		})
		last, more = next, len(rows) > 0
	}
	return err
}

// scanTexts reads the row and the texts of a video, for its words.
func scanTexts(scan func(...any) error, id *int64) (row, error) {
	r := row{video: &catalog.Video{}}
	return r, scan(id, &r.video.ID, &r.video.Title, &r.video.ChannelTitle, &r.tags, &r.video.Description, &r.digest)
}
