package youtubesim

// A world is all channels and videos. It stores nothing: each fact is computed from the
// seed, the object and the time.
type world struct {
	seed  uint64
	shift uint64 // of the ids
}

func newWorld(seed uint64) world {
	w := world{seed: mix64(seed + 1)}
	w.shift = w.hash(ofIDs, 0, 0)
	return w
}

// The purposes of hashes, one for each fact.
const (
	ofIDs = iota + 1
	ofVideoID
	ofChannelID
	ofChannel
	ofVideo
	ofChart
	ofToken
	ofQuery
	ofProject
)

func (w world) hash(kind, a, b uint64) uint64 {
	return mix64(mix64(mix64(w.seed+kind*factor1)+a) + b*factor2)
}

// hashText hashes a text: FNV-1a, then mixed.
func (w world) hashText(kind uint64, s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return w.hash(kind, h, 0)
}

// Channels are in groups, one for each region and category. Charts and searches use the
// group of their region and that of the world. The size of a group is a prime above the
// length of a chart, so that a chart that walks through a group in steps meets no channel
// twice.
const (
	groupSize = 509
	channels  = (len(regionCodes) + 1) * len(categories) * groupSize
	worldwide = len(regionCodes) // the region of channels that are visible everywhere
)

const (
	hour  = 60 * 60
	day   = 24 * hour
	year  = 365 * day
	begun = 1325376000 // 2012-01-01; no channel is older
)

// channel holds the facts of a channel that never change.
type channel struct {
	world    world
	index    int
	region   int
	category int
	language *language
	topic    int // within the category
	key      uint64
	started  int64 // when it uploaded its first video
	every    int64 // the time span for one video
}

func (w world) channel(index int) channel {
	group := index / groupSize
	c := channel{
		world: w, index: index,
		region: group / len(categories), category: group % len(categories),
		key: w.hash(ofChannel, uint64(index), 0),
	}
	c.topic = index % groupSize % topicsEach
	c.language = languageOf(c.region)
	if c.key>>32%8 == 0 {
		c.language = &languages[c.key>>40%uint64(len(languages))] // people move
	}
	c.started = begun + int64(c.key%uint64(12*year))
	c.every = 12*hour + int64(c.key>>16%uint64(108*hour))
	return c
}

// group returns the first channel of a region and category.
func group(region, category int) int { return (region*len(categories) + category) * groupSize }

// roll returns the random number of a fact of a channel.
func (c *channel) roll(fact uint64) uint64 { return mix64(c.key + fact*factor1) }

// publishedAt returns when the number-th video was uploaded: in the first three quarters of
// its span, so that videos stay in order.
func (c *channel) publishedAt(number int) int64 {
	jitter := mix64(c.key+uint64(number)*factor2) % uint64(c.every*3/4)
	return c.started + int64(number)*c.every + int64(jitter)
}

// uploads returns the number of videos by a time, with deleted ones.
func (c *channel) uploads(at int64) int {
	if at < c.started {
		return 0
	}
	number := int((at - c.started) / c.every)
	if number >= 1<<numberBits {
		number = 1<<numberBits - 1
	}
	if c.publishedAt(number) <= at {
		number++
	}
	return number
}

// existed reports whether the channel existed at a time. It starts a month before its first
// video.
func (c *channel) existed(at int64) bool { return at >= c.createdAt() }

func (c *channel) createdAt() int64 { return c.started - 30*day }

// video holds the facts of a video that never change.
type video struct {
	channel   *channel
	number    int
	key       uint64
	published int64
}

func (c *channel) video(number int) video {
	return video{
		channel: c, number: number, published: c.publishedAt(number),
		key: c.world.hash(ofVideo, uint64(c.index), uint64(number)),
	}
}

// roll returns the random number of a fact of a video.
func (v *video) roll(fact uint64) uint64 { return mix64(v.key + fact*factor1) }

func (v *video) id() string { return v.channel.world.videoID(v.channel.index, v.number) }

// The random facts of a video. The numbers are arbitrary.
const (
	factVanish uint64 = iota + 1
	factVanishAt
	factKind
	factStart
	factLength
	factViews
	factRatio
	factLikes
	factComments
	factTags
	factRestriction
	factTitle
	factDescription
	factStatus
	factCaption
	factLocation
)

// there reports whether the video is visible. One in 40 is deleted or made private between an
// hour and 60 days after it was published.
func (v *video) there(at int64) bool {
	return at >= v.published && (v.roll(factVanish)%40 != 0 || at < v.published+hour+int64(v.roll(factVanishAt)%(60*day)))
}

// The kinds of videos.
const (
	plain    = iota
	premiere // shown at a time announced before; no duration until then
	live     // a stream; its duration is P0D until it has ended
)

func (v *video) kind() int {
	switch v.roll(factKind) % 100 {
	case 0, 1:
		return premiere
	case 2, 3:
		return live
	default:
		return plain
	}
}

// starts returns when a premiere or stream starts, hours to days after it was announced.
func (v *video) starts() int64 {
	return (v.published + hour + int64(v.roll(factStart)%(6*day))) / 900 * 900
}

// ends returns when it ends. Some streams never end.
func (v *video) ends() int64 {
	switch {
	case v.kind() == live && v.roll(factStart)>>32%6 == 0:
		return 1 << 40
	case v.kind() == live:
		return v.starts() + v.length()
	default:
		return v.starts() + v.length()
	}
}

// broadcast returns the state in snippets: none, upcoming or live.
func (v *video) broadcast(at int64) string {
	switch {
	case v.kind() == plain || at >= v.ends():
		return "none"
	case at < v.starts():
		return "upcoming"
	default:
		return "live"
	}
}

// length returns the duration in seconds: of shorts, songs, films and streams.
func (v *video) length() int64 {
	r := v.roll(factLength)
	if v.kind() == live {
		return int64(30*60 + r>>8%(8*hour))
	}
	switch r % 10 {
	case 0, 1, 2:
		return int64(12 + r>>8%48)
	case 3, 4, 5, 6:
		return int64(120 + r>>8%300)
	case 7, 8:
		return int64(600 + r>>8%2400)
	default:
		return int64(hour + r>>8%(2*hour))
	}
}
