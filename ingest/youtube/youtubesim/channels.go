package youtubesim

import "strconv"

// The parts of a channel.
const (
	channelIDPart part = 1 << iota
	channelSnippet
	channelContentDetails
	channelStatisticsPart
	channelStatus
	channelTopicDetails
	channelBrandingSettings
	channelLocalizations
)

var channelsList = &method{
	name: "channels.list", service: "V3DataChannelService.List", kind: "youtube#channelListResponse", pool: Default, oldCost: 1,
	parts: map[string]part{
		"id": channelIDPart, "snippet": channelSnippet, "contentDetails": channelContentDetails, "statistics": channelStatisticsPart,
		"status": channelStatus, "topicDetails": channelTopicDetails, "brandingSettings": channelBrandingSettings,
		"localizations": channelLocalizations, "auditDetails": owners, "contentOwnerDetails": owners,
	},
	params: []string{"part", "categoryId", "forHandle", "forUsername", "hl", "id", "managedByMe", "maxResults", "mine", "mySubscribers", "onBehalfOfContentOwner", "pageToken"},
	serve:  (*call).channelsList,
}

func (c *call) channelsList() *failure {
	given := c.filters("id", "forHandle", "forUsername", "mine", "managedByMe", "mySubscribers", "categoryId")
	switch {
	case len(given) == 0:
		return noFilter("forHandle, forUsername, managedByMe, categoryId, mine, mySubscribers, id")
	case len(given) > 1:
		return incompatible(join(given))
	}
	if _, f := c.maxResults(0); f != nil {
		return f
	}
	var there []channel
	add := func(index int, ok bool) {
		if !ok {
			return
		}
		if one := c.world.channel(index); one.existed(c.now) {
			there = append(there, one)
		}
	}
	switch given[0] {
	case "id":
		ids, f := c.ids()
		if f != nil {
			return f
		}
		for _, id := range ids {
			add(c.world.findChannel(id))
		}
	case "forHandle":
		add(c.world.findHandle(c.query.Get("forHandle")))
	case "forUsername", "categoryId":
		// old user names and removed guide categories find nothing
	default:
		return loginRequired()
	}
	c.envelope("", "", len(there), max(len(there), 5), func() {
		if len(there) == 0 || !c.out.begin("items", '[') {
			return // unlike videos.list, it has no empty items
		}
		for i := range there {
			one := &there[i]
			c.item("youtube#channel", c.world.channelID(one.index), func() { c.channel(one) })
		}
		c.out.end(']')
	})
	return nil
}

// channel writes the parts of a channel.
func (c *call) channel(one *channel) {
	w, title, description := c.out, one.title(), one.description()
	country := ""
	if one.region < worldwide && one.roll(factLocation)%5 != 0 {
		country = regionCodes[one.region]
	}
	texts := func(name string) {
		if w.begin(name, '{') {
			w.str("title", title)
			w.str("description", description)
			w.end('}')
		}
	}
	if c.parts&channelSnippet != 0 && w.begin("snippet", '{') {
		w.str("title", title)
		w.str("description", description)
		w.str("customUrl", one.handle())
		w.time("publishedAt", one.createdAt())
		w.portraits(one)
		texts("localized") //nolint:misspell // the upstream spells it so
		if country != "" {
			w.str("country", country)
		}
		w.end('}')
	}
	if c.parts&channelContentDetails != 0 && w.begin("contentDetails", '{') {
		if w.begin("relatedPlaylists", '{') {
			w.str("likes", "")
			w.str("uploads", c.world.uploadsID(one.index))
			w.end('}')
		}
		w.end('}')
	}
	if c.parts&channelStatisticsPart != 0 && w.begin("statistics", '{') {
		s := one.statistics(c.now)
		w.count("viewCount", s.views)
		if !s.hidesSubscribers {
			w.count("subscriberCount", s.subscribers)
		}
		w.boolean("hiddenSubscriberCount", s.hidesSubscribers)
		w.count("videoCount", s.videos)
		w.end('}')
	}
	if c.parts&channelTopicDetails != 0 && w.begin("topicDetails", '{') {
		w.texts("topicCategories", []string{"https://en.wikipedia.org/wiki/" + categories[one.category].topic})
		w.end('}')
	}
	if c.parts&channelStatus != 0 && w.begin("status", '{') {
		w.str("privacyStatus", "public")
		w.boolean("isLinked", true)
		w.str("longUploadsStatus", "longUploadsUnspecified")
		w.boolean("madeForKids", one.roll(factStatus)%20 == 0)
		w.end('}')
	}
	if c.parts&channelBrandingSettings != 0 && w.begin("brandingSettings", '{') {
		if w.begin("channel", '{') {
			w.str("title", title)
			w.str("description", description)
			w.str("keywords", `"`+one.word()+`" `+one.language.code)
			if country != "" {
				w.str("country", country)
			}
			w.end('}')
		}
		w.end('}')
	}
	if c.parts&channelLocalizations != 0 && one.roll(factCaption)%3 == 0 && w.begin("localizations", '{') {
		w.mask = append(w.mask, nil) // languages are no fields
		texts(one.language.code)
		w.mask = w.mask[:len(w.mask)-1]
		w.end('}')
	}
}

func (c *channel) description() string {
	return pick(c.language.about, c.roll(factDescription)) + "\n" + pick(c.language.about, c.roll(factTitle)) + "\nhttps://example.com/channel/" + strconv.Itoa(c.index)
}

// portraits are a channel's thumbnails.
func (w *writer) portraits(c *channel) {
	if !w.begin("thumbnails", '{') {
		return
	}
	for _, t := range [...]struct {
		name string
		side int
	}{{"default", 88}, {"medium", 240}, {"high", 800}} {
		if w.begin(t.name, '{') {
			w.str("url", "https://yt3.ggpht.com/"+encode64(c.key)+"=s"+strconv.Itoa(t.side)+"-c-k-c0x00ffffff-no-rj")
			w.number("width", t.side)
			w.number("height", t.side)
			w.end('}')
		}
	}
	w.end('}')
}
