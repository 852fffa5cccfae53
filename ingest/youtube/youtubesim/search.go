package youtubesim

import (
	"container/heap"
	"slices"
	"strings"
)

const searchSnippet part = 1

var searchList = &method{
	name: "search.list", service: "V3DataSearchService.List", kind: "youtube#searchListResponse", pool: SearchList, oldCost: 100,
	parts: map[string]part{"id": 1 << 1, "snippet": searchSnippet},
	params: []string{
		"part", "channelId", "channelType", "eventType", "forContentOwner", "forDeveloper", "forMine", "location", "locationRadius", "maxResults",
		"onBehalfOfContentOwner", "order", "pageToken", "publishedAfter", "publishedBefore", "q", "regionCode", "relevanceLanguage", "safeSearch",
		"topicId", "type", "videoCaption", "videoCategoryId", "videoDefinition", "videoDimension", "videoDuration", "videoEmbeddable", "videoLicense",
		"videoPaidProductPlacement", "videoSyndicated", "videoType",
	},
	serve: (*call).searchList,
}

// maxFound is the highest number of results of a search, whatever its estimate of the total
// says.
const maxFound = 500

// query holds the parameters of a search.
type query struct {
	region          int
	after, before   int64
	order           string
	words           string
	channel         int // or -1
	category        int // of the filter, or -1
	event           string
	videos, persons bool
}

func (c *call) searchList() *failure {
	q, f := c.readQuery()
	if f != nil {
		return f
	}
	size, f := c.maxResults(0)
	if f != nil {
		return f
	}
	token, f := c.page(c.now)
	if f != nil {
		return f
	}
	q.before = min(q.before, token.at)
	found, total := c.world.search(q, token.at)
	from, to, next, prev := c.bounds(token, size, len(found))
	if size == 0 {
		next = "" // a walk in empty pages would not end
	}
	c.envelopeOf(q, next, prev, total, size, found[from:to])
	return nil
}

func (c *call) envelopeOf(q query, next, prev string, total, size int, found []result) {
	c.envelope(next, prev, total, size, func() {
		w := c.out
		w.str("regionCode", regionCodes[q.region])
		if !w.begin("items", '[') {
			return
		}
		for i := range found {
			channel := c.world.channel(int(found[i].channel))
			if found[i].number < 0 {
				c.item("youtube#searchResult", "", func() { c.foundChannel(&channel) })
				continue
			}
			v := channel.video(int(found[i].number))
			if id := v.id(); v.there(c.now) && !suffers(c.within, Vanish, id) {
				c.item("youtube#searchResult", "", func() { c.foundVideo(&v, id) })
			}
		}
		w.end(']')
	})
}

func (c *call) readQuery() (q query, f *failure) {
	if given := c.filters("forContentOwner", "forDeveloper", "forMine"); len(given) > 0 {
		return q, loginRequired()
	}
	types := c.list("type")
	for _, t := range types {
		if t != "video" && t != "channel" && t != "playlist" {
			return q, invalidParameter("type", "Invalid string value: '"+t+"'. Allowed values: [video, channel, playlist]")
		}
	}
	if given := c.filters("eventType", "videoCaption", "videoCategoryId", "videoDefinition", "videoDimension", "videoDuration", "videoEmbeddable", "videoLicense", "videoPaidProductPlacement", "videoSyndicated", "videoType", "location"); len(given) > 0 && (len(types) != 1 || types[0] != "video") {
		return q, failed(400, "youtube.search", "invalidSearchFilter", "The request contains an invalid combination of search filters and/or restrictions: set type to video with "+join(given)+".").at("type", "parameter")
	}
	q.videos = len(types) == 0 || slices.Contains(types, "video")
	q.persons = len(types) == 0 || slices.Contains(types, "channel")
	if q.order, f = c.oneOf("order", "date", "rating", "relevance", "title", "videoCount", "viewCount", "searchSortUnspecified"); f != nil {
		return q, f
	}
	if q.event, f = c.oneOf("eventType", "none", "upcoming", "live", "completed"); f != nil {
		return q, f
	}
	if q.after, f = c.moment("publishedAfter", 0); f != nil {
		return q, f
	}
	if q.before, f = c.moment("publishedBefore", 1<<40); f != nil {
		return q, f
	}
	if q.region, f = c.region("US"); f != nil {
		return q, f
	}
	if q.category, f = c.category(); f != nil {
		return q, f
	}
	q.channel = -1
	if id := c.query.Get("channelId"); id != "" {
		index, ok := c.world.findChannel(id)
		if !ok {
			return q, failed(400, "youtube.search", "invalidChannelId", "The channelId parameter specified an invalid channel ID.").at("channelId", "parameter")
		}
		q.channel = index
	}
	q.words = strings.TrimSpace(c.query.Get("q"))
	return q, nil
}

// result is a video or, with number -1, a channel.
type result struct {
	channel, number int32
	published       int64
	rank            uint64
}

// search finds videos published from after to before, both included. It returns the newest
// maxFound in the order of the query, and an estimate of the total.
func (w world) search(q query, at int64) (found []result, total int) {
	if !q.videos && !q.persons {
		return nil, 0
	}
	sources := w.sources(q)
	newest := make(latest, 0, len(sources))
	for i := range sources {
		c := &sources[i]
		last, first := c.uploads(q.before)-1, c.uploads(q.after-1)
		if last < first {
			continue
		}
		total += last - first + 1
		newest = append(newest, source{index: i, number: last, first: first, published: c.publishedAt(last)})
	}
	heap.Init(&newest)
	for len(newest) > 0 && len(found) < maxFound {
		s := &newest[0]
		c := &sources[s.index]
		v := c.video(s.number)
		if v.there(at) && (q.event == "" || v.event(at) == q.event) {
			found = w.keep(found, q, &v)
		}
		if s.number--; s.number < s.first {
			heap.Pop(&newest)
			continue
		}
		s.published = c.publishedAt(s.number)
		heap.Fix(&newest, 0)
	}
	w.sortFound(found, q, at)
	return found[:min(len(found), maxFound)], total + total/7 // the upstream's estimate is inexact, too
}

// keep adds a video and, if the search includes channels, sometimes its channel.
func (w world) keep(found []result, q query, v *video) []result {
	r := result{channel: int32(v.channel.index), number: int32(v.number), published: v.published}
	if q.videos {
		found = append(found, r)
	}
	if q.persons && !slices.ContainsFunc(found, func(o result) bool { return o.number < 0 && o.channel == r.channel }) &&
		(!q.videos || v.key%10 == 0) {
		r.number = -1
		found = append(found, r)
	}
	return found
}

// sources returns the channels that a search covers.
func (w world) sources(q query) []channel {
	if q.channel >= 0 {
		return []channel{w.channel(q.channel)}
	}
	category, topic := w.topicOf(q.words)
	if q.category >= 0 {
		category = q.category
	}
	if category >= len(categories) {
		return nil // nothing is in it
	}
	all := make([]channel, 0, groupSize)
	for j := topic; j < groupSize; j += topicsEach {
		all = append(all, w.channel(group(q.region, category)+j))
	}
	for j := topic; j < groupSize; j += 4 * topicsEach {
		all = append(all, w.channel(group(worldwide, category)+j))
	}
	return all
}

// event returns the value that eventType filters by.
func (v *video) event(at int64) string {
	b := v.broadcast(at)
	if b == "none" && v.kind() == live {
		return "completed"
	}
	return b
}

// sortFound sorts the results, which come by date.
func (w world) sortFound(found []result, q query, at int64) {
	if q.order == "date" {
		return
	}
	words := w.hashText(ofQuery, q.words)
	for i := range found {
		r := &found[i]
		c := w.channel(int(r.channel))
		v := c.video(int(max(r.number, 0)))
		switch q.order {
		case "viewCount", "videoCount":
			r.rank = v.statistics(at).views
		case "rating":
			r.rank = v.roll(factRatio) % 60
		default: // newer videos tend to be more relevant
			age := uint64((at-r.published)/day) + 10
			r.rank = (1_000_000 + mix64(v.key+words)%4_000_000) / age
		}
	}
	if q.order == "title" {
		title := func(r result) string {
			c := w.channel(int(r.channel))
			if r.number < 0 {
				return c.title()
			}
			v := c.video(int(r.number))
			return string(v.appendTitle(nil))
		}
		slices.SortStableFunc(found, func(a, b result) int { return strings.Compare(title(a), title(b)) })
		return
	}
	slices.SortStableFunc(found, func(a, b result) int {
		switch {
		case a.rank > b.rank:
			return -1
		case a.rank < b.rank:
			return 1
		default:
			return 0
		}
	})
}

// source is a channel of a search, with its videos from number down to first.
type source struct {
	index, number, first int
	published            int64 // the number-th
}

// latest is a heap with the newest video on top.
type latest []source

func (l latest) Len() int { return len(l) }

func (l latest) Less(i, j int) bool {
	return l[i].published > l[j].published || l[i].published == l[j].published && l[i].index < l[j].index
}

func (l latest) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *latest) Push(x any)   { *l = append(*l, x.(source)) }

// Pop drops the last one; no caller uses the result.
func (l *latest) Pop() any {
	*l = (*l)[:len(*l)-1]
	return nil
}

// entities is the HTML escaping of titles in search results, and only there.
var entities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

func (c *call) foundVideo(v *video, id string) {
	w := c.out
	if w.begin("id", '{') {
		w.str("kind", "youtube#video")
		w.str("videoId", id)
		w.end('}')
	}
	if c.parts&searchSnippet == 0 || !w.begin("snippet", '{') {
		return
	}
	w.time("publishedAt", v.published)
	w.str("channelId", c.world.channelID(v.channel.index))
	w.str("title", entities.Replace(string(v.appendTitle(nil))))
	w.str("description", excerpt(string(v.appendDescription(nil))))
	w.thumbnails(id)
	w.str("channelTitle", entities.Replace(v.channel.title()))
	w.str("liveBroadcastContent", c.shown(v, id).broadcast)
	w.end('}')
}

func (c *call) foundChannel(channel *channel) {
	w := c.out
	id := c.world.channelID(channel.index)
	if w.begin("id", '{') {
		w.str("kind", "youtube#channel")
		w.str("channelId", id)
		w.end('}')
	}
	if c.parts&searchSnippet == 0 || !w.begin("snippet", '{') {
		return
	}
	w.time("publishedAt", channel.createdAt())
	w.str("channelId", id)
	w.str("title", entities.Replace(channel.title()))
	w.str("description", excerpt(channel.description()))
	w.portraits(channel)
	w.str("channelTitle", entities.Replace(channel.title()))
	w.str("liveBroadcastContent", "none")
	w.end('}')
}

// excerpt returns the start of a description on one line.
func excerpt(s string) string {
	cut := s
	for i := range s {
		if i > 150 {
			cut = s[:i]
			break
		}
	}
	line := strings.Join(strings.Fields(cut), " ")
	if len(cut) < len(s) {
		line += " ..."
	}
	return line
}
