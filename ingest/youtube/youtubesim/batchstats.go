package youtubesim

import (
	"strconv"
	"strings"
)

// The parts of a videoStat.
const (
	statID part = 1 << iota
	statSnippet
	statStatistics
	statContentDetails
)

var videosBatchGetStats = &method{
	name: "videos.batchGetStats", service: "V3DataVideoService.BatchGetStats", kind: "youtube#batchGetStatsResponse", pool: VideoBatchGetStats, oldCost: 1,
	parts:  map[string]part{"id": statID, "snippet": statSnippet, "statistics": statStatistics, "contentDetails": statContentDetails},
	params: []string{"part", "id", "onBehalfOfContentOwner"},
	serve:  (*call).batchGetStats,
}

func (c *call) batchGetStats() *failure {
	ids, f := c.ids()
	if f != nil {
		return f
	}
	if len(ids) == 0 {
		return missingParameter("id")
	}
	there := c.find(ids)
	c.envelope("", "", 0, -1, func() {
		w := c.out
		if !w.begin("items", '[') {
			return
		}
		for i := range there {
			id := there[i].id()
			c.item("youtube#videoStats", id, func() { c.videoStat(&there[i], id) })
		}
		w.end(']')
	})
	return nil
}

func (c *call) videoStat(v *video, id string) {
	w, s := c.out, c.shown(v, id)
	if c.parts&statSnippet != 0 && w.begin("snippet", '{') {
		w.time("publishTime", v.published)
		w.end('}')
	}
	if c.parts&statStatistics != 0 && w.begin("statistics", '{') {
		w.count("viewCount", s.stats.views)
		if !s.stats.hidesLikes {
			w.count("likeCount", s.stats.likes)
		}
		if !s.stats.noComments {
			w.count("commentCount", s.stats.comments)
		}
		w.end('}')
	}
	if c.parts&statContentDetails != 0 && w.begin("contentDetails", '{') {
		switch {
		case s.premiere:
		case v.kind() == live && s.broadcast != "none":
			w.str("duration", "0s")
		default: // seconds here, not the ISO form of videos.list
			w.str("duration", strconv.FormatInt(v.length(), 10)+"s")
		}
		w.end('}')
	}
}

func join(names []string) string { return strings.Join(names, ", ") }

func either(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

// appendDuration writes seconds as PT1H2M3S.
func appendDuration(b []byte, seconds int64) []byte {
	b = append(b, 'P', 'T')
	for _, u := range [...]struct {
		long int64
		name byte
	}{{hour, 'H'}, {60, 'M'}, {1, 'S'}} {
		if n := seconds / u.long; n > 0 {
			b = append(strconv.AppendInt(b, n, 10), u.name)
		}
		seconds %= u.long
	}
	return b
}
