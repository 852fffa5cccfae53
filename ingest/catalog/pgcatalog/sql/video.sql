-- search_end returns the row behind the last video.
SELECT coalesce(max(video), 0) + 1 FROM headroom_catalog.video_words;

-- search_rows returns the rows of videos that match, the last first. The index finds them in no
-- order, and reading all that have a common word takes long, so each statement looks at a part
-- of the rows. OFFSET 0 keeps the server from reading them one by one from the end, which takes
-- long if few match. Args: query, patterns of phrases for videos that have too many words for
-- positions, first row to look at, row behind the last one, most rows to return.
SELECT video FROM (
	SELECT w.video FROM headroom_catalog.video_words w
	WHERE w.words @@ $1::tsquery AND (w.overlong IS NULL OR w.overlong LIKE ALL($2::text[])) AND w.video >= $3::bigint AND w.video < $4::bigint
	OFFSET 0
) AS matches
ORDER BY video DESC LIMIT $5::bigint;

-- search returns the best of the rows that match, the best first, with the columns of video_find.
-- A whole word ranks higher than longer words that begin with it. Args: rows, query, query for
-- whole words, limit, region or '', time since which they were published, rows to leave out.
WITH hit AS (
	SELECT w.video, ts_rank('{0.1, 0.3, 0.4, 1}', w.words, $3::tsquery) AS whole,
		CASE WHEN $2::tsquery = $3::tsquery THEN 0 ELSE ts_rank('{0.1, 0.3, 0.4, 1}', w.words, $2::tsquery) END AS part
	FROM unnest($1::bigint[]) AS f (video) JOIN headroom_catalog.video_words w USING (video)
	WHERE ($5::text = '' OR EXISTS (SELECT 1 FROM headroom_catalog.sightings s WHERE s.region = $5::text AND s.video = f.video))
		AND ($6::bigint = 0 OR (SELECT v.published_at FROM headroom_catalog.videos v WHERE v.id = f.video) >= $6::bigint)
		AND f.video <> ALL($7::bigint[])
	ORDER BY whole DESC, part DESC, video LIMIT $4::bigint
)
SELECT v.id, v.video_id, v.channel_id, v.channel_title, v.title, v.description, v.tags, v.category, v.live,
	v.language, v.thumbnail, coalesce(v.duration, 0), v.published_at, v.brief, v.fetched_at,
	coalesce(s.fetched_at, 0), s.views, s.likes, s.comments
FROM hit JOIN headroom_catalog.videos v ON v.id = hit.video LEFT JOIN headroom_catalog.statistics s ON s.video = v.id
ORDER BY hit.whole DESC, hit.part DESC, hit.video;
