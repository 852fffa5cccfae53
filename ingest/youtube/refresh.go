package youtube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Statistics fetches the statistics of at most 50 videos. The page is a whole pass, without
// a cursor. Videos that were not returned are gone.
func (c *Client) Statistics(ctx context.Context, ids []string) (*catalog.Page, error) {
	return refresh("videos.batchGetStats", "videos", ids, func(p *catalog.Page) error {
		ctx, answer := record(ctx)
		list, err := answered(c.api.Videos.BatchGetStats().Part("id", "statistics").Id(ids...).Context(ctx).Do())
		if err != nil {
			return err
		}
		counts, err := statistics(answer)
		if err != nil {
			return err
		}
		for i, item := range list.Items {
			if item == nil {
				continue
			}
			s := catalog.Statistics{}
			if counts[i] != nil {
				s = *counts[i]
			}
			s.VideoID = item.Id
			p.Statistics = append(p.Statistics, s)
		}
		p.Gone = missing(ids, p.Statistics, func(s *catalog.Statistics) string { return s.VideoID })
		return nil
	})
}

// Videos fetches at most 50 videos again. The page is a whole pass, without a cursor. Videos
// that were not returned are gone.
func (c *Client) Videos(ctx context.Context, ids []string) (*catalog.Page, error) {
	return refresh("videos.list", "videos", ids, func(p *catalog.Page) error {
		ctx, answer := record(ctx)
		list, err := answered(c.api.Videos.List(videoParts).Id(ids...).Context(ctx).Do())
		if err != nil {
			return err
		}
		p.Videos, err = videos(list.Items, answer)
		p.Gone = missing(ids, p.Videos, func(v *catalog.Video) string { return v.ID })
		return err
	})
}

// Channels fetches at most 50 channels again. The page is a whole pass, without a cursor.
// Channels that were not returned are gone.
func (c *Client) Channels(ctx context.Context, ids []string) (*catalog.Page, error) {
	return refresh("channels.list", "channels", ids, func(p *catalog.Page) error {
		list, err := answered(c.api.Channels.List(channelParts).Id(ids...).MaxResults(most).Context(ctx).Do())
		if err != nil {
			return err
		}
		p.Channels = channels(list.Items)
		p.Gone = missing(ids, p.Channels, func(ch *catalog.Channel) string { return ch.ID })
		return nil
	})
}

// refresh makes a call for ids, which fills the page. Without ids it makes none, because that
// would be charged.
func refresh(method, of string, ids []string, call func(*catalog.Page) error) (*catalog.Page, error) {
	about, p := fmt.Sprintf("of %d %s", len(ids), of), &catalog.Page{Done: true}
	if len(ids) == 1 {
		about = strings.TrimSuffix(about, "s")
	}
	if len(ids) > most {
		return nil, &Error{Method: method, About: about, Err: fmt.Errorf("it takes at most %d ids", most)}
	}
	if len(ids) > 0 {
		if err := call(p); err != nil {
			return nil, failed(method, about, err)
		}
	}
	return p, nil
}

// missing returns the ids that were requested and not returned.
func missing[T any](asked []string, returned []T, id func(*T) string) (gone []string) {
	for _, a := range asked {
		if !slices.ContainsFunc(returned, func(t T) bool { return id(&t) == a }) {
			gone = append(gone, a)
		}
	}
	return gone
}
