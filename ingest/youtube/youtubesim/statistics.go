package youtubesim

// statistics are the counts of a video at a time. They only grow, every minute.
type statistics struct {
	views, likes, comments uint64
	hidesLikes, noComments bool
}

// powers are the final views of a video, by its luck: mostly a few thousand, sometimes more
// than fit in 32 bits.
var powers = [...]uint64{900, 4_000, 9_000, 30_000, 70_000, 200_000, 600_000, 2_000_000, 8_000_000, 30_000_000, 120_000_000, 900_000_000, 8_000_000_000}

func (v *video) statistics(at int64) statistics {
	age := max(at/60-v.published/60, 0) // in minutes
	r := v.roll(factViews)
	luck := min(r%13, r>>8%17) // the best luck is rare
	most := powers[luck] * (50 + r>>16%50) / 100
	half := 60 + r>>24%(20*24*60) // minutes until it has half of them

	ratio := v.roll(factRatio)
	s := statistics{
		views:      most * uint64(age) / (uint64(age) + half),
		hidesLikes: v.roll(factLikes)%25 == 0,
		noComments: v.roll(factComments)%30 == 0,
	}
	s.likes = s.views * (8 + ratio%60) / 1000
	s.comments = s.views * (1 + ratio>>8%40) / 10_000
	return s
}

// channelStatistics are the counts of a channel at a time.
type channelStatistics struct {
	views, subscribers, videos uint64
	hidesSubscribers           bool
}

func (c *channel) statistics(at int64) channelStatistics {
	r := c.roll(factViews)
	videos := uint64(c.uploads(at))
	subscribers := videos * (3 + r%4000)
	for scale := uint64(1); ; scale *= 10 { // rounded down to three figures, as shown in public
		if subscribers/scale < 1000 {
			subscribers = subscribers / scale * scale
			break
		}
	}
	return channelStatistics{
		views: videos * (200 + r>>16%900_000), subscribers: subscribers, videos: videos,
		hidesSubscribers: r>>40%30 == 0,
	}
}
