package youtubesim

// The parts of a video.
const (
	videoID part = 1 << iota
	videoSnippet
	videoContentDetails
	videoStatistics
	videoStatus
	videoPlayer
	videoTopicDetails
	videoLiveStreamingDetails
	videoLocalizations
	videoRecordingDetails
	videoPaidProductPlacementDetails
)

var videosList = &method{
	name: "videos.list", service: "V3DataVideoService.List", kind: "youtube#videoListResponse", pool: Default, oldCost: 1,
	parts: map[string]part{
		"id": videoID, "snippet": videoSnippet, "contentDetails": videoContentDetails, "statistics": videoStatistics,
		"status": videoStatus, "player": videoPlayer, "topicDetails": videoTopicDetails,
		"liveStreamingDetails": videoLiveStreamingDetails, "localizations": videoLocalizations,
		"recordingDetails": videoRecordingDetails, "paidProductPlacementDetails": videoPaidProductPlacementDetails,
		"fileDetails": owners, "processingDetails": owners, "suggestions": owners,
	},
	params: []string{"part", "chart", "id", "myRating", "hl", "locale", "maxHeight", "maxResults", "maxWidth", "onBehalfOfContentOwner", "pageToken", "regionCode", "videoCategoryId"},
	serve:  (*call).videosList,
}

func (c *call) videosList() *failure {
	switch given := c.filters("chart", "id", "myRating"); {
	case len(given) == 0:
		return noFilter("id, myRating, chart")
	case len(given) > 1:
		return incompatible(join(given))
	case given[0] == "myRating":
		return loginRequired()
	case given[0] == "id":
		return c.videosByID()
	default:
		return c.videosByChart()
	}
}

func (c *call) videosByChart() *failure {
	chart, f := c.oneOf("chart", "chartUnspecified", "mostPopular")
	if f != nil {
		return f
	}
	if chart != "mostPopular" {
		return noFilter("id, myRating, chart")
	}
	size, f := c.maxResults(1)
	if f != nil {
		return f
	}
	region, f := c.region("US")
	if f != nil {
		return f
	}
	category, f := c.category()
	if f != nil {
		return f
	}
	for i := range c.within {
		if c.within[i].Do == NoChart {
			return missingChart(c.within[i].Status)
		}
	}
	if !c.world.hasChart(region, category) {
		return missingChart(0)
	}
	token, f := c.page(c.now / hour)
	if f != nil {
		return f
	}
	places := c.sim.last.chartAt(c.world, region, category, token.at)
	from, to, next, prev := c.bounds(token, size, len(places))
	c.videos(next, prev, len(places), to-from, func(show func(v *video)) {
		for _, p := range places[from:to] {
			channel := c.world.channel(int(p.channel))
			v := channel.video(int(p.number))
			show(&v)
		}
	})
	return nil
}

func (c *call) videosByID() *failure {
	if given := c.filters("maxResults", "pageToken", "regionCode", "videoCategoryId"); len(given) > 0 {
		return incompatible(join(append([]string{"id"}, given...)))
	}
	ids, f := c.ids()
	if f != nil {
		return f
	}
	there := c.find(ids)
	c.videos("", "", len(there), len(there), func(show func(v *video)) {
		for i := range there {
			show(&there[i])
		}
	})
	return nil
}

// find returns the visible videos of ids. The others are left out without an error.
func (c *call) find(ids []string) []video {
	there := make([]video, 0, len(ids))
	for _, id := range ids {
		index, number, ok := c.world.findVideo(id)
		if !ok {
			continue
		}
		channel := c.world.channel(index)
		if v := channel.video(number); v.there(c.now) && !suffers(c.within, Vanish, id) {
			there = append(there, v)
		}
	}
	return there
}

// videos writes a list of videos, without those that disappeared since the list was made.
func (c *call) videos(next, prev string, total, size int, each func(show func(v *video))) {
	c.envelope(next, prev, total, size, func() {
		if !c.out.begin("items", '[') {
			return
		}
		each(func(v *video) {
			if id := v.id(); v.there(c.now) && !suffers(c.within, Vanish, id) {
				c.item("youtube#video", id, func() { c.video(v, id) })
			}
		})
		c.out.end(']')
	})
}

// shown is a video in this answer: faults may have changed it.
type shown struct {
	broadcast string
	premiere  bool // upcoming
	stats     statistics
}

func (c *call) shown(v *video, id string) shown {
	s := shown{broadcast: v.broadcast(c.now), stats: v.statistics(c.now)}
	s.premiere = v.kind() == premiere && s.broadcast == "upcoming"
	if suffers(c.within, Premiere, id) {
		s.premiere, s.broadcast = true, "upcoming"
	}
	if suffers(c.within, HideLikes, id) {
		s.stats.hidesLikes = true
	}
	return s
}

// video writes the parts of a video.
func (c *call) video(v *video, id string) {
	if c.parts&^videoID == 0 {
		return
	}
	w, s := c.out, c.shown(v, id)
	var text [2048]byte
	if c.parts&(videoSnippet|videoLocalizations|videoPlayer) != 0 {
		title := string(v.appendTitle(text[:0]))
		description := string(v.appendDescription(text[:0]))
		c.videoTexts(v, id, title, description, s)
	}
	if c.parts&videoContentDetails != 0 && w.begin("contentDetails", '{') {
		c.contentDetails(v, s)
		w.end('}')
	}
	if c.parts&videoStatus != 0 && w.begin("status", '{') {
		r := v.roll(factStatus)
		w.str("uploadStatus", "processed")
		w.str("privacyStatus", "public")
		w.str("license", either(r%20 == 0, "creativeCommon", "youtube"))
		w.boolean("embeddable", r>>8%30 != 0)
		w.boolean("publicStatsViewable", r>>16%30 != 0)
		w.boolean("madeForKids", r>>24%12 == 0)
		w.end('}')
	}
	if c.parts&videoStatistics != 0 && w.begin("statistics", '{') {
		w.count("viewCount", s.stats.views)
		c.counts(s.stats)
		w.end('}')
	}
	if c.parts&videoTopicDetails != 0 && w.begin("topicDetails", '{') {
		w.texts("topicCategories", []string{"https://en.wikipedia.org/wiki/" + categories[v.channel.category].topic})
		w.end('}')
	}
	if c.parts&videoRecordingDetails != 0 && w.begin("recordingDetails", '{') {
		if v.roll(factLocation)%4 == 0 {
			w.time("recordingDate", v.published/day*day)
		}
		w.end('}')
	}
	if c.parts&videoLiveStreamingDetails != 0 && (v.kind() != plain || s.premiere) && w.begin("liveStreamingDetails", '{') {
		c.liveStreamingDetails(v, s)
		w.end('}')
	}
	if c.parts&videoPaidProductPlacementDetails != 0 && w.begin("paidProductPlacementDetails", '{') {
		w.boolean("hasPaidProductPlacement", v.roll(factStatus)>>32%15 == 0)
		w.end('}')
	}
}

// counts writes the counts, which may be hidden.
func (c *call) counts(s statistics) {
	if !s.hidesLikes {
		c.out.count("likeCount", s.likes)
	}
	c.out.count("favoriteCount", 0)
	if !s.noComments {
		c.out.count("commentCount", s.comments)
	}
}

// videoTexts writes the parts that hold the title.
func (c *call) videoTexts(v *video, id, title, description string, s shown) {
	w := c.out
	if c.parts&videoSnippet != 0 && w.begin("snippet", '{') {
		w.time("publishedAt", v.published)
		w.str("channelId", c.world.channelID(v.channel.index))
		w.str("title", title)
		w.str("description", description)
		w.thumbnails(id)
		w.str("channelTitle", v.channel.title())
		w.texts("tags", v.tags())
		w.str("categoryId", categories[v.channel.category].id)
		w.str("liveBroadcastContent", s.broadcast)
		if r := v.roll(factCaption); r%10 < 7 {
			if r%10 < 4 {
				w.str("defaultLanguage", v.channel.language.code)
			}
			w.str("defaultAudioLanguage", v.channel.language.code)
		}
		if w.begin("localized", '{') { //nolint:misspell // the upstream spells it so
			w.str("title", title)
			w.str("description", description)
			w.end('}')
		}
		w.end('}')
	}
	if c.parts&videoPlayer != 0 && w.begin("player", '{') {
		w.str("embedHtml", `<iframe width="480" height="270" src="//www.youtube.com/embed/`+id+`" frameborder="0" allowfullscreen></iframe>`)
		w.end('}')
	}
	if c.parts&videoLocalizations != 0 && v.roll(factCaption)%10 < 4 && w.begin("localizations", '{') {
		w.mask = append(w.mask, nil) // languages are no fields
		if w.begin(v.channel.language.code, '{') {
			w.str("title", title)
			w.str("description", description)
			w.end('}')
		}
		w.mask = w.mask[:len(w.mask)-1]
		w.end('}')
	}
}

func (c *call) contentDetails(v *video, s shown) {
	w, r := c.out, v.roll(factCaption)
	switch {
	case s.premiere:
		// not known until it starts
	case v.kind() == live && s.broadcast != "none":
		w.str("duration", "P0D")
	default:
		var b [32]byte
		w.str("duration", string(appendDuration(b[:0], v.length())))
	}
	w.str("dimension", "2d")
	w.str("definition", either(r>>8%10 == 0, "sd", "hd"))
	w.str("caption", either(r>>16%5 == 0, "true", "false"))
	w.boolean("licensedContent", r>>24%2 == 0)
	if restriction := v.roll(factRestriction); restriction%20 == 0 && w.begin("regionRestriction", '{') {
		codes := make([]string, 0, 4)
		for i := range 1 + restriction>>8%4 {
			codes = append(codes, regionCodes[(restriction>>16+i*7)%uint64(len(regionCodes))])
		}
		w.texts(either(restriction>>12%3 == 0, "allowed", "blocked"), codes)
		w.end('}')
	}
	if w.begin("contentRating", '{') {
		if r>>32%50 == 0 {
			w.str("ytRating", "ytAgeRestricted")
		}
		w.end('}')
	}
	w.str("projection", either(r>>40%100 == 0, "360", "rectangular"))
}

func (c *call) liveStreamingDetails(v *video, s shown) {
	w, starts := c.out, v.starts()
	if s.premiere && starts <= c.now {
		starts = c.now/day*day + 2*day
	}
	if s.broadcast != "upcoming" {
		w.time("actualStartTime", starts+int64(v.roll(factStart)>>40%60))
		if s.broadcast == "none" {
			w.time("actualEndTime", v.ends())
		}
	}
	w.time("scheduledStartTime", starts)
	if s.broadcast == "live" {
		w.count("concurrentViewers", s.stats.views/50)
		w.str("activeLiveChatId", encode64(v.key))
	}
}

// thumbnails of a video.
func (w *writer) thumbnails(id string) {
	if !w.begin("thumbnails", '{') {
		return
	}
	for _, t := range [...]struct {
		name, file    string
		width, height int
	}{
		{"default", "default", 120, 90},
		{"medium", "mqdefault", 320, 180},
		{"high", "hqdefault", 480, 360},
		{"standard", "sddefault", 640, 480},
		{"maxres", "maxresdefault", 1280, 720},
	} {
		if !w.begin(t.name, '{') {
			continue
		}
		if w.key("url") {
			w.buf = append(w.buf, `"https://i.ytimg.com/vi/`...)
			w.buf = append(w.buf, id...)
			w.buf = append(w.buf, '/')
			w.buf = append(w.buf, t.file...)
			w.buf = append(w.buf, `.jpg"`...)
		}
		w.number("width", t.width)
		w.number("height", t.height)
		w.end('}')
	}
	w.end('}')
}
