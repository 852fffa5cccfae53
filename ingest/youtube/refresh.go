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
	p := &catalog.Page{Done: true}
	err := refresh("videos.batchGetStats", "videos", ids, func() error {
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
	return done(p, err)
}

// Videos fetches at most 50 videos again. The page is a whole pass, without a cursor. Videos
// that were not returned are gone.
func (c *Client) Videos(ctx context.Context, ids []string) (*catalog.Page, error) {
	p := &catalog.Page{Done: true}
	err := refresh("videos.list", "videos", ids, func() error {
		ctx, answer := record(ctx)
		list, err := answered(c.api.Videos.List(videoParts).Id(ids...).Context(ctx).Do())
		if err != nil {
			return err
		}
		p.Videos, err = videos(list.Items, answer)
		p.Gone = missing(ids, p.Videos, func(v *catalog.Video) string { return v.ID })
		return err
	})
	return done(p, err)
}

// Channels fetches at most 50 channels again. The page is a whole pass, without a cursor.
// Channels that were not returned are gone.
func (c *Client) Channels(ctx context.Context, ids []string) (*catalog.Page, error) {
	p := &catalog.Page{Done: true}
	err := refresh("channels.list", "channels", ids, func() error {
		list, err := answered(c.api.Channels.List(channelParts).Id(ids...).MaxResults(most).Context(ctx).Do())
		if err != nil {
			return err
		}
		p.Channels = channels(list.Items)
		p.Gone = missing(ids, p.Channels, func(ch *catalog.Channel) string { return ch.ID })
		return nil
	})
	return done(p, err)
}

// refresh makes a call for ids. Without ids it makes none, because that would be charged.
func refresh(method, of string, ids []string, call func() error) error {
	about := fmt.Sprintf("of %d %s", len(ids), of)
	if len(ids) == 1 {
		about = strings.TrimSuffix(about, "s")
	}
	if len(ids) > most {
		return &Error{Method: method, About: about, Err: fmt.Errorf("it takes at most %d ids", most)}
	}
	if len(ids) == 0 {
		return nil
	}
	if err := call(); err != nil {
		return failed(method, about, err)
	}
	return nil
}

func done(p *catalog.Page, err error) (*catalog.Page, error) {
	if err != nil {
		return nil, err
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
