package pgcatalog

import (
	"context"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Video returns a video with its statistics, or [catalog.ErrNotFound].
func (c *Catalog) Video(ctx context.Context, id string) (v catalog.Video, err error) {
	there := false
	err = c.each(ctx, func(scan func(...any) error) error {
		there = true
		return scanVideo(scan, &v)
	}, sql("video_find"), valid(id))
	if err == nil && !there {
		err = fmt.Errorf("video %q: %w", id, catalog.ErrNotFound)
	}
	return v, err
}

// scanVideo reads dest and then the columns of a video.
func scanVideo(scan func(...any) error, v *catalog.Video, dest ...any) error {
	var tags string
	var seconds int64
	var counted catalog.Statistics
	err := scan(append(dest, &v.ID, &v.ChannelID, &v.ChannelTitle, &v.Title, &v.Description, &tags, &v.Category, &v.Live,
		&v.Language, &v.Thumbnail, &seconds, &v.PublishedAt, &v.Brief, &v.FetchedAt, &counted.FetchedAt, &counted.Views, &counted.Likes, &counted.Comments)...)
	if err != nil {
		return err
	}
	v.Duration = time.Duration(seconds) * time.Second
	if !counted.FetchedAt.IsZero() {
		counted.VideoID = v.ID
		v.Statistics = &counted
	}
	return v.SetTags(tags)
}

// Channel returns a channel, or [catalog.ErrNotFound].
func (c *Catalog) Channel(ctx context.Context, id string) (ch catalog.Channel, err error) {
	there := false
	err = c.each(ctx, func(scan func(...any) error) error {
		there = true
		return scan(&ch.ID, &ch.Title, &ch.Description, &ch.Handle, &ch.Country, &ch.Uploads, &ch.PublishedAt, &ch.FetchedAt)
	}, sql("channel_find"), valid(id))
	if err == nil && !there {
		err = fmt.Errorf("channel %q: %w", id, catalog.ErrNotFound)
	}
	return ch, err
}

// Chart returns the last complete chart of a region and category, or [catalog.ErrNotFound].
func (c *Catalog) Chart(ctx context.Context, region, category string) (catalog.Chart, error) {
	ch, there := catalog.Chart{Region: region, Category: category}, false
	err := c.each(ctx, func(scan func(...any) error) error {
		var e catalog.Entry
		var entry bool
		err := scanVideo(scan, &e.Video, &ch.FetchedAt, &entry, &e.Rank)
		if there = true; entry {
			ch.Entries = append(ch.Entries, e)
		}
		return err
	}, sql("chart_find"), valid(region), valid(category))
	if err == nil && !there {
		err = fmt.Errorf("chart of %q, category %q: %w", region, category, catalog.ErrNotFound)
	}
	if err != nil {
		return catalog.Chart{}, err
	}
	return ch, nil
}

// Feeds returns the freshness of every chart, by region and category.
func (c *Catalog) Feeds(ctx context.Context) (all []catalog.Feed, err error) {
	err = c.each(ctx, func(scan func(...any) error) error {
		var f catalog.Feed
		err := scan(&f.Region, &f.Category, &f.FetchedAt, &f.Entries, &f.PendingSince, &f.Pending)
		all = append(all, f)
		return err
	}, sql("feeds"))
	return all, err
}

// Runs returns runs, the latest first. Their work is sorted by name.
func (c *Catalog) Runs(ctx context.Context, q catalog.RunsQuery) (all []catalog.RunRecord, err error) {
	if q.Limit <= 0 {
		q.Limit = catalog.DefaultRuns
	}
	var ids []int64
	byID := map[int64]int{}
	err = c.each(ctx, func(scan func(...any) error) error {
		var r catalog.RunRecord
		err := scan(&r.ID, &r.Job, &r.Scheduled, &r.StartedAt, &r.EndedAt, (*string)(&r.State), &r.ResumeAt, &r.Error)
		byID[r.ID] = len(all)
		ids, all = append(ids, r.ID), append(all, r)
		return err
	}, sql("runs_find"), q.Job, q.Before, q.Limit, q.Made, micros(q.Due))
	if err != nil || len(all) == 0 || q.Bare {
		return all, err
	}
	err = c.each(ctx, func(scan func(...any) error) error {
		var w catalog.WorkRecord
		var run int64
		err := scan(&run, &w.Work, &w.Region, &w.Pages, &w.Units, &w.New, &w.Updated, &w.Unchanged, &w.Statistics, &w.Gone,
			(*string)(&w.State), &w.EndedAt, &w.ResumeAt, &w.Error, &w.Cause, &w.Pool, &w.Refused)
		all[byID[run]].Work = append(all[byID[run]].Work, w)
		return err
	}, sql("work_find"), ids)
	return all, err
}
