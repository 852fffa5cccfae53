-- video_find returns a video. Args: id.
SELECT v.video_id, v.channel_id, v.channel_title, v.title, v.description, v.tags, v.category, v.live,
	v.language, v.thumbnail, coalesce(v.duration, 0), v.published_at, v.brief, v.fetched_at,
	coalesce(s.fetched_at, 0), s.views, s.likes, s.comments
FROM headroom_catalog.videos v LEFT JOIN headroom_catalog.statistics s ON s.video = v.id WHERE v.video_id = $1::text;

-- channel_find returns a channel. Args: id.
SELECT channel_id, title, description, handle, country, uploads, published_at, fetched_at
FROM headroom_catalog.channels WHERE channel_id = $1::text;

-- chart_find returns the complete chart, with a row for each entry: its time, whether there is
-- an entry, its rank, and the columns of video_find. Args: region, category.
SELECT c.fetched_at, v.id IS NOT NULL, coalesce(e.rank, 0), coalesce(v.video_id, ''), coalesce(v.channel_id, ''), coalesce(v.channel_title, ''),
	coalesce(v.title, ''), coalesce(v.description, ''), coalesce(v.tags, '[]'), coalesce(v.category, ''), coalesce(v.live, ''),
	coalesce(v.language, ''), coalesce(v.thumbnail, ''), coalesce(v.duration, 0), coalesce(v.published_at, 0), coalesce(v.brief, false),
	coalesce(v.fetched_at, 0), coalesce(s.fetched_at, 0), s.views, s.likes, s.comments
FROM headroom_catalog.charts c LEFT JOIN headroom_catalog.chart_entries e ON e.chart = c.id
	LEFT JOIN headroom_catalog.videos v ON v.id = e.video LEFT JOIN headroom_catalog.statistics s ON s.video = v.id
WHERE c.region = $1::text AND c.category = $2::text AND c.complete ORDER BY e.rank;
