package youtube

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/headroom-quota/headroom/ingest/catalog"
	sdk "google.golang.org/api/youtube/v3"
)

// Uploads fetches a page of the uploads of a channel, newest first. Channel is an id or a
// @handle. The first page of a pass also fetches the channel. A pass ends where the last
// complete pass began, and the first pass fetches every upload.
func (c *Client) Uploads(ctx context.Context, channel string, at catalog.Cursor) (*catalog.Page, error) {
	p := &catalog.Page{Cursor: at}
	playlist, token, err := c.playlist(ctx, channel, p)
	if err != nil {
		return nil, err
	}
	if playlist == "" {
		p.Done = true // a channel may have no uploads of its own
		return p, nil
	}
	call := c.api.PlaylistItems.List([]string{"snippet", "contentDetails"}).PlaylistId(playlist).MaxResults(most).Context(ctx)
	if token != "" {
		call.PageToken(token)
	}
	list, err := answered(call.Do())
	if err != nil {
		failure := failed("playlistItems.list", "of the uploads of "+channel, err)
		if failure.Status == http.StatusNotFound && failure.Reason == "playlistNotFound" {
			p.Done = true // the channel has uploaded nothing
			return p, nil
		}
		return nil, failure
	}
	for _, item := range list.Items {
		v, ok := playlistVideo(item)
		if !ok {
			continue
		}
		p.Videos = append(p.Videos, v)
		if v.PublishedAt.After(p.High) {
			p.High = v.PublishedAt
		}
	}
	if n := len(p.Videos); list.NextPageToken == "" || n > 0 && !p.Videos[n-1].PublishedAt.After(at.Mark) {
		p.Done = true
		return p, nil
	}
	p.Next = url.Values{"playlist": {playlist}, "token": {list.NextPageToken}}.Encode()
	return p, nil
}

// playlist returns the playlist of a channel's uploads, and the token of the next page. At
// the start of a pass it fetches the channel and adds it to the page. After that the cursor
// has the playlist in its token.
func (c *Client) playlist(ctx context.Context, channel string, p *catalog.Page) (playlist, token string, err error) {
	about := "of the channel " + channel
	if p.Cursor.Token != "" {
		v, err := url.ParseQuery(p.Cursor.Token)
		if err != nil || v.Get("playlist") == "" || v.Get("token") == "" {
			return "", "", &Error{Method: "playlistItems.list", About: about, Err: ErrPageToken}
		}
		return v.Get("playlist"), v.Get("token"), nil
	}
	call := c.api.Channels.List(channelParts).Context(ctx)
	if strings.HasPrefix(channel, "@") {
		call.ForHandle(channel)
	} else {
		call.Id(channel)
	}
	list, err := answered(call.Do())
	if err != nil {
		return "", "", failed("channels.list", about, err)
	}
	if p.Channels = channels(list.Items); len(p.Channels) == 0 {
		return "", "", &Error{Method: "channels.list", About: about, Err: errNoChannel}
	}
	return p.Channels[0].Uploads, "", nil
}

var errNoChannel = errors.New("no such channel: it was deleted, or the id is misspelt")

// playlistVideo converts an item of a playlist. It returns false for a deleted or private video,
// which has no time of publication.
func playlistVideo(item *sdk.PlaylistItem) (v catalog.Video, ok bool) {
	if item == nil || item.Snippet == nil || item.ContentDetails == nil || item.ContentDetails.VideoPublishedAt == "" {
		return v, false
	}
	s := item.Snippet
	v = catalog.Video{
		ID: item.ContentDetails.VideoId, ChannelID: s.VideoOwnerChannelId, ChannelTitle: s.VideoOwnerChannelTitle,
		Title: s.Title, Description: s.Description, Thumbnail: thumbnail(s.Thumbnails),
		PublishedAt: parseTime(item.ContentDetails.VideoPublishedAt), Brief: true,
	}
	return v, v.ID != ""
}
