package youtubesim

import (
	"encoding/base64"
	"strings"
)

// The parts of a playlist item.
const (
	playlistItemID part = 1 << iota
	playlistItemSnippet
	playlistItemContentDetails
	playlistItemStatus
)

var playlistItemsList = &method{
	name: "playlistItems.list", service: "V3DataPlaylistItemService.List", kind: "youtube#playlistItemListResponse", pool: Default, oldCost: 1,
	parts:  map[string]part{"id": playlistItemID, "snippet": playlistItemSnippet, "contentDetails": playlistItemContentDetails, "status": playlistItemStatus},
	params: []string{"part", "id", "maxResults", "onBehalfOfContentOwner", "pageToken", "playlistId", "videoId"},
	serve:  (*call).playlistItemsList,
}

// playlistItemsList answers for the playlists of uploads: the newest first, without videos
// that disappeared.
func (c *call) playlistItemsList() *failure {
	given := c.filters("playlistId", "id")
	switch {
	case len(given) == 0:
		return noFilter("id, playlistId")
	case len(given) > 1:
		return incompatible(join(given))
	case given[0] == "id":
		return c.playlistItemsByID()
	}
	size, f := c.maxResults(0)
	if f != nil {
		return f
	}
	index, ok := c.world.findUploads(c.query.Get("playlistId"))
	one := c.world.channel(index)
	if !ok || !one.existed(c.now) {
		return failed(404, "youtube.playlistItem", "playlistNotFound", "The playlist identified with the request's <code>playlistId</code> parameter cannot be found.").at("playlistId", "parameter")
	}
	token, f := c.page(c.now)
	if f != nil {
		return f
	}
	total := one.uploads(token.at)
	if c.query.Get("pageToken") == "" {
		token.number = int64(total)
	}
	page, number := c.uploads(&one, int(token.number), size, token.at)
	next, prev := "", ""
	if size > 0 && (number > 0 || c.endless()) {
		t := token
		t.offset, t.number = t.offset+int64(len(page)), int64(number)
		if number == 0 {
			t.offset, t.number = 0, int64(total)
		}
		next = c.world.encodeToken(t)
	}
	if token.offset > 0 {
		t := token
		t.offset, t.number = c.before(&one, token, size, total)
		prev = c.world.encodeToken(t)
	}
	c.envelope(next, prev, total, size, func() {
		if !c.out.begin("items", '[') {
			return
		}
		for i, v := range page {
			if only := c.query.Get("videoId"); only == "" || only == v.id() {
				c.playlistItem(&v, int(token.offset)+i)
			}
		}
		c.out.end(']')
	})
	return nil
}

// uploads returns videos below a number, and the number where the next page starts.
func (c *call) uploads(one *channel, below, size int, at int64) (page []video, rest int) {
	for below > 0 && len(page) < size {
		below--
		if v := one.video(below); v.there(at) && v.there(c.now) && !suffers(c.within, Vanish, v.id()) {
			page = append(page, v)
		}
	}
	return page, below
}

// before returns where the page before a token starts.
func (c *call) before(one *channel, t pageToken, size, total int) (offset, number int64) {
	offset, number = t.offset, t.number
	for offset > max(t.offset-int64(size), 0) && number < int64(total) {
		if v := one.video(int(number)); v.there(t.at) {
			offset--
		}
		number++
	}
	return offset, number
}

// itemID names a video in the playlist of its channel's uploads.
func itemID(playlist, video string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(playlist + "." + video))
}

func (c *call) playlistItemsByID() *failure {
	if given := c.filters("pageToken"); len(given) > 0 {
		return incompatible(join(append([]string{"id"}, given...)))
	}
	ids, f := c.ids()
	if f != nil {
		return f
	}
	var names []string
	for _, id := range ids {
		b, err := base64.RawURLEncoding.Strict().DecodeString(id)
		playlist, video, ok := strings.Cut(string(b), ".")
		if index, _, known := c.world.findVideo(video); err == nil && ok && known && c.world.uploadsID(index) == playlist {
			names = append(names, video)
		}
	}
	there := c.find(names)
	c.envelope("", "", len(there), max(len(there), 5), func() {
		if !c.out.begin("items", '[') {
			return
		}
		for i := range there {
			v := &there[i]
			c.playlistItem(v, v.channel.uploads(c.now)-1-v.number)
		}
		c.out.end(']')
	})
	return nil
}

func (c *call) playlistItem(v *video, position int) {
	id, playlist := v.id(), c.world.uploadsID(v.channel.index)
	channelID, channelTitle := c.world.channelID(v.channel.index), v.channel.title()
	c.item("youtube#playlistItem", itemID(playlist, id), func() {
		w := c.out
		if c.parts&playlistItemSnippet != 0 && w.begin("snippet", '{') {
			w.time("publishedAt", v.published)
			w.str("channelId", channelID)
			w.str("title", string(v.appendTitle(nil)))
			w.str("description", string(v.appendDescription(nil)))
			w.thumbnails(id)
			w.str("channelTitle", channelTitle)
			w.str("playlistId", playlist)
			w.number("position", position)
			if w.begin("resourceId", '{') {
				w.str("kind", "youtube#video")
				w.str("videoId", id)
				w.end('}')
			}
			w.str("videoOwnerChannelTitle", channelTitle)
			w.str("videoOwnerChannelId", channelID)
			w.end('}')
		}
		if c.parts&playlistItemContentDetails != 0 && w.begin("contentDetails", '{') {
			w.str("videoId", id)
			w.time("videoPublishedAt", v.published)
			w.end('}')
		}
		if c.parts&playlistItemStatus != 0 && w.begin("status", '{') {
			w.str("privacyStatus", "public")
			w.end('}')
		}
	})
}
