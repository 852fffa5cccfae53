package youtubesim

import (
	"slices"
	"sync"
)

// A chart of a region and category is a list of entries. A new entry starts every 36
// minutes, and the latest 200 are the chart. An entry is the newest video of one channel at
// that time, so new videos arrive all day. The order changes every hour. Nothing is stored:
// any hour of any chart can be computed, and a page token names the hour.
const (
	bornEvery   = 36 * 60
	chartLength = 200
	everywhere  = 5 // one entry in so many is the same in all regions
)

// lastChart caches the last chart, because its next page is often next.
type lastChart struct {
	mu               sync.Mutex
	region, category int
	hours            int64
	places           []place
}

// chartAt is [world.chartAt] with a cache for the pages of a chart. Do not change the result.
func (l *lastChart) chartAt(w world, region, category int, hours int64) []place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.places == nil || l.region != region || l.category != category || l.hours != hours {
		l.region, l.category, l.hours, l.places = region, category, hours, w.chartAt(region, category, hours)
	}
	return l.places
}

// chartAt returns the chart of an hour, the best first. The category -1 means all.
func (w world) chartAt(region, category int, hours int64) []place {
	at := hours * hour
	places := make([]place, 0, chartLength+charted)
	if category >= 0 {
		places = w.enter(places, region, category, at, chartLength)
	} else {
		for c := range charted {
			places = w.enter(places, region, c, at, chartLength/charted+1)
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.score != b.score {
			return int(b.score - a.score)
		}
		return int(b.key>>1) - int(a.key>>1) // ties are broken by the key, not by the order above
	})
	return places[:min(len(places), chartLength)]
}

// place is a place in a chart: the video and its score.
type place struct {
	channel, number int32
	score           int64
	key             uint64
}

// enter adds the newest entries of a region and category.
func (w world) enter(places []place, region, category int, at int64, count int) []place {
	newest := (at - begun) / bornEvery
	for e := newest; e > newest-int64(count) && e >= 0; e-- {
		home, turn := region, e
		if e%everywhere == 0 {
			home, turn = worldwide, e/everywhere
		}
		// Steps through the group meet every channel before any twice.
		key := w.hash(ofChart, uint64(home), uint64(category))
		step := 1 + key%(groupSize-1)
		index := group(home, category) + int((uint64(turn)*step+key>>32)%groupSize)
		c := w.channel(index)
		born := begun + e*bornEvery
		number := c.uploads(born) - 1
		if number < 0 {
			continue // it has not started
		}
		v := c.video(number)
		if !v.there(at) {
			continue
		}
		luck := mix64(v.key + uint64(region))
		age := (at - born) / hour
		score := int64(300+luck%700) * 10_000 / (24 + age)
		score += int64(mix64(luck+uint64(at)) % uint64(score/20+1)) // this hour's
		places = append(places, place{channel: int32(index), number: int32(number), score: score, key: v.key})
	}
	return places
}

// hasChart reports whether a chart exists. Small regions have no chart of films. Charts of
// music, of games and of all categories exist everywhere.
func (w world) hasChart(region, category int) bool {
	if category < 0 {
		return true
	}
	if category >= charted {
		return false
	}
	return categories[category].id != "1" || large[regionCodes[region]] || w.hash(ofChart, uint64(region), 1<<32)%3 != 0
}

// large holds the regions with all charts.
var large = map[string]bool{
	"AR": true, "AU": true, "BR": true, "CA": true, "DE": true, "EG": true, "ES": true, "FR": true, "GB": true, "ID": true,
	"IN": true, "IT": true, "JP": true, "KR": true, "MX": true, "RU": true, "SA": true, "TH": true, "TR": true, "US": true,
}
