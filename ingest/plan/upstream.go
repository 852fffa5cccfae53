package plan

import (
	"context"
	"net/url"
	"slices"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/internal/youtubesim"
)

// Work names a unit of work of a job, as the catalog does.
type Work struct{ Job, Work string }

// Record is what the runs so far say of a unit of work.
type Record struct {
	Pages   int  // of a pass, as a rule; 0 is not known
	Failing bool // in all recorded runs
}

// rehearsed is the upstream as far as a schedule goes by it: all calls are made by the
// real client, and the answers made as long as the record says.
type rehearsed struct {
	client  *youtube.Client
	sim     *youtubesim.Sim
	records map[Work]Record
}

var _ ingest.Upstream = (*rehearsed)(nil)

// beyond is the token of a page that the record has and the simulated upstream has
// not.
const beyond = "beyond"

// turn fetches the next page of a pass that is as long as its record.
func (u *rehearsed) turn(ctx context.Context, at catalog.Cursor, fetch func(context.Context, catalog.Cursor) (*catalog.Page, error)) (*catalog.Page, error) {
	record := u.records[Work{at.Job, at.Work}]
	if record.Failing {
		ctx = withFailing(ctx)
	}
	asked := at
	if !u.gave(at.Token) { // the first page costs the same
		asked.Token = ""
	}
	p, err := fetch(ctx, asked)
	switch {
	case err != nil:
		return nil, err
	case record.Pages == 0:
	case at.Page+1 >= int64(record.Pages):
		p.Next, p.Done = "", true
	case p.Next == "":
		p.Next, p.Done = beyond, false
	}
	return p, nil
}

// gave reports whether the token of a cursor is of the simulated upstream: one that was
// recorded is of the real one. Some stand in the token among other things.
func (u *rehearsed) gave(token string) bool {
	if v, err := url.ParseQuery(token); err == nil && (v.Has("token") || v.Has("before")) {
		token = v.Get("token")
	}
	return token == "" || u.sim.Knows(token)
}

// Trending implements [ingest.Upstream].
func (u *rehearsed) Trending(ctx context.Context, region, category string, at catalog.Cursor) (*catalog.Page, error) {
	return u.turn(ctx, at, func(ctx context.Context, at catalog.Cursor) (*catalog.Page, error) {
		var ids []string
		p, err := u.client.Trending(withIDs(ctx, &ids), region, category, at)
		if err == nil {
			p.Videos = counted(ids)
		}
		return p, err
	})
}

// counted are videos of which no more is known than that they have statistics.
func counted(ids []string) []catalog.Video {
	all, statistics := make([]catalog.Video, len(ids)), make([]catalog.Statistics, len(ids))
	for i, id := range ids {
		statistics[i].VideoID = id
		all[i] = catalog.Video{ID: id, Statistics: &statistics[i]}
	}
	return all
}

// Search implements [ingest.Upstream].
func (u *rehearsed) Search(ctx context.Context, q youtube.Query, at catalog.Cursor) (*catalog.Page, error) {
	return u.turn(ctx, at, func(ctx context.Context, at catalog.Cursor) (*catalog.Page, error) {
		return u.client.Search(ctx, q, at)
	})
}

// Uploads implements [ingest.Upstream]. In the place of a channel that the simulated
// upstream does not know it asks about another.
func (u *rehearsed) Uploads(ctx context.Context, channel string, at catalog.Cursor) (*catalog.Page, error) {
	if !u.sim.Knows(channel) {
		channel = u.sim.StandIn(channel)
	}
	return u.turn(ctx, at, func(ctx context.Context, at catalog.Cursor) (*catalog.Page, error) {
		return u.client.Uploads(ctx, channel, at)
	})
}

// Statistics implements [ingest.Upstream].
func (u *rehearsed) Statistics(ctx context.Context, ids []string) (*catalog.Page, error) {
	p, err := u.client.Statistics(ctx, ids)
	if err == nil {
		for _, id := range u.real(p, ids) {
			p.Statistics = append(p.Statistics, catalog.Statistics{VideoID: id})
		}
	}
	return p, err
}

// Videos implements [ingest.Upstream].
func (u *rehearsed) Videos(ctx context.Context, ids []string) (*catalog.Page, error) {
	p, err := u.client.Videos(ctx, ids)
	if err == nil {
		all := ids[:0:0]
		for i := range p.Videos {
			all = append(all, p.Videos[i].ID)
		}
		p.Videos = counted(append(all, u.real(p, ids)...))
	}
	return p, err
}

// Channels implements [ingest.Upstream].
func (u *rehearsed) Channels(ctx context.Context, ids []string) (*catalog.Page, error) {
	p, err := u.client.Channels(ctx, ids)
	if err == nil {
		for _, id := range u.real(p, ids) {
			p.Channels = append(p.Channels, catalog.Channel{ID: id})
		}
	}
	return p, err
}

// real takes those ids from what is gone that are the real upstream's: the simulated
// one cannot know them, and they are taken to be there still.
func (u *rehearsed) real(p *catalog.Page, ids []string) []string {
	p.Gone = slices.DeleteFunc(p.Gone, func(id string) bool { return !u.sim.Knows(id) })
	var all []string
	for _, id := range ids {
		if !u.sim.Knows(id) {
			all = append(all, id)
		}
	}
	return all
}
