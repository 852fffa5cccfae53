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

-- search returns the rows of videos that match, the best first, with the columns of video_find.
-- A whole word ranks higher than longer words that begin with it. Args: query, query for whole
-- words, most rows to rank, limit, region or '', time since which they were published, rows to
-- leave out, patterns of phrases for videos that have too many words for positions.
WITH found AS MATERIALIZED (
	SELECT w.video, w.words FROM headroom_catalog.video_words w
	WHERE w.words @@ $1::tsquery
		AND (w.overlong IS NULL OR w.overlong LIKE ALL($8::text[]))
		AND ($5::text = '' OR EXISTS (SELECT 1 FROM headroom_catalog.sightings s WHERE s.region = $5::text AND s.video = w.video))
		AND ($6::bigint = 0 OR (SELECT v.published_at FROM headroom_catalog.videos v WHERE v.id = w.video) >= $6::bigint)
		AND w.video <> ALL($7::bigint[])
	LIMIT $3::bigint
), hit AS (
	SELECT video, ts_rank('{0.1, 0.3, 0.4, 1}', words, $2::tsquery) AS whole, CASE WHEN $1::tsquery = $2::tsquery THEN 0 ELSE ts_rank('{0.1, 0.3, 0.4, 1}', words, $1::tsquery) END AS part
	FROM found ORDER BY whole DESC, part DESC, video LIMIT $4::bigint
)
SELECT v.id, v.video_id, v.channel_id, v.channel_title, v.title, v.description, v.tags, v.category, v.live,
	v.language, v.thumbnail, coalesce(v.duration, 0), v.published_at, v.brief, v.fetched_at,
	coalesce(s.fetched_at, 0), s.views, s.likes, s.comments
FROM hit JOIN headroom_catalog.videos v ON v.id = hit.video LEFT JOIN headroom_catalog.statistics s ON s.video = v.id
ORDER BY hit.whole DESC, hit.part DESC, hit.video;
