package ingest

import (
	"context"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
)

// searchWorks has a unit of work for each region and query.
func searchWorks(r *Runner, j *Job) (all []*Work) {
	for _, region := range j.Regions {
		for _, text := range j.Queries {
			q := youtube.Query{Text: text, Region: region, Since: j.Since, Until: j.Until}
			all = append(all, &Work{Name: region + "/" + text, Region: region, resumable: true, fetch: func(ctx context.Context, at catalog.Cursor) (*catalog.Page, error) {
				return r.upstream.Search(ctx, q, at)
			}})
		}
	}
	return all
}

// uploadsWorks has a unit of work for each channel.
func uploadsWorks(r *Runner, j *Job) (all []*Work) {
	for _, channel := range j.Channels {
		all = append(all, &Work{Name: channel, resumable: true, fetch: func(ctx context.Context, at catalog.Cursor) (*catalog.Page, error) {
			return r.upstream.Uploads(ctx, channel, at)
		}})
	}
	return all
}
