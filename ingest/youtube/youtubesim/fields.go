package youtubesim

import "strings"

// mask is the selection of the fields parameter in an object: names, each with the mask of
// its value. A nil mask selects everything.
type mask struct{ names map[string]*mask }

// sub returns the mask below a name, and whether the name is selected.
func (m *mask) sub(name string) (bool, *mask) {
	if m == nil {
		return true, nil
	}
	below, ok := m.names[name]
	if !ok {
		below, ok = m.names["*"]
	}
	return ok, below
}

// parseFields reads a selector such as
//
//	nextPageToken,items(id,snippet(title,channelTitle)),pageInfo/totalResults
//
// and returns the part of it that is wrong, or "". The empty selector selects
// everything.
func parseFields(s string) (m *mask, wrong string) {
	if s == "" {
		return nil, ""
	}
	p := fieldsParser{rest: s}
	m = &mask{names: map[string]*mask{}}
	if !p.list(m, 0) || p.rest != "" {
		return nil, p.wrong(s)
	}
	return m, ""
}

type fieldsParser struct {
	rest string
	name string // that is unknown
}

func (p *fieldsParser) wrong(all string) string {
	if p.name != "" {
		return p.name
	}
	return all
}

// deepest is the highest depth of a selector; no resource is deeper.
const deepest = 8

// list parses path[,path]...
func (p *fieldsParser) list(into *mask, depth int) bool {
	for {
		if !p.path(into, depth) {
			return false
		}
		if !strings.HasPrefix(p.rest, ",") {
			return true
		}
		p.rest = p.rest[1:]
	}
}

// path parses name[/path] or name(list).
func (p *fieldsParser) path(into *mask, depth int) bool {
	end := strings.IndexAny(p.rest, ",/()")
	if end < 0 {
		end = len(p.rest)
	}
	name := strings.TrimSpace(p.rest[:end])
	p.rest = p.rest[end:]
	if name == "" || depth > deepest {
		return false
	}
	if name != "*" && !fieldNames[name] {
		p.name = name
		return false
	}
	open := byte(0)
	if p.rest != "" {
		open = p.rest[0]
	}
	if open != '/' && open != '(' {
		into.names[name] = nil // everything below it, whatever came before
		return true
	}
	p.rest = p.rest[1:]
	below, ok := into.names[name]
	if !ok {
		below = &mask{names: map[string]*mask{}}
		into.names[name] = below
	}
	if below == nil {
		below = &mask{names: map[string]*mask{}} // all of it is selected already
	}
	if open == '/' {
		return p.path(below, depth+1)
	}
	if !p.list(below, depth+1) || !strings.HasPrefix(p.rest, ")") {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// fieldNames holds all names that a selector may use. The upstream refuses other names.
var fieldNames = setOf(
	// of lists and resources
	"kind", "etag", "nextPageToken", "prevPageToken", "pageInfo", "totalResults", "resultsPerPage", "items", "id", "regionCode",
	"eventId", "tokenPagination", "visitorId",
	"snippet", "contentDetails", "statistics", "status", "player", "topicDetails", "liveStreamingDetails", "localizations", "recordingDetails",
	"paidProductPlacementDetails", "brandingSettings",
	// of snippets
	"publishedAt", "publishTime", "channelId", "title", "description", "thumbnails", "channelTitle", "tags", "categoryId", "liveBroadcastContent",
	"defaultLanguage", "defaultAudioLanguage", "localized", "customUrl", "country", //nolint:misspell // the upstream spells it so
	"playlistId", "position", "resourceId", "videoId", "videoOwnerChannelId", "videoOwnerChannelTitle",
	"default", "medium", "high", "standard", "maxres", "url", "width", "height",
	// of content details
	"duration", "dimension", "definition", "caption", "licensedContent", "projection", "regionRestriction", "allowed", "blocked", "contentRating", "ytRating",
	"hasCustomThumbnail", "relatedPlaylists", "uploads", "likes", "favorites", "videoPublishedAt", "note", "startAt", "endAt", //nolint:misspell // the upstream spells it so
	// of statistics
	"viewCount", "likeCount", "dislikeCount", "favoriteCount", "commentCount", "subscriberCount", "hiddenSubscriberCount", "videoCount",
	// of the rest
	"uploadStatus", "privacyStatus", "license", "embeddable", "publicStatsViewable", "madeForKids", "selfDeclaredMadeForKids", "publishAt",
	"failureReason", "rejectionReason", "containsSyntheticMedia", "isLinked", "longUploadsStatus", "isChannelMonetizationEnabled",
	"embedHtml", "embedHeight", "embedWidth", "topicIds", "relevantTopicIds", "topicCategories",
	"actualStartTime", "actualEndTime", "scheduledStartTime", "scheduledEndTime", "concurrentViewers", "activeLiveChatId",
	"recordingDate", "location", "locationDescription", "hasPaidProductPlacement", "channel", "image", "keywords", "unsubscribedTrailer", "bannerExternalUrl",
)

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}
