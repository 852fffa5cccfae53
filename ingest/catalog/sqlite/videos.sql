-- videos_there returns which videos there are. Args: ids.
SELECT video_id FROM videos WHERE video_id IN (SELECT value FROM json_each(?1));

-- video_known returns whether a video is brief, and whether it equals the arguments. Args: the
-- columns of videos_save without the time.
SELECT brief, title = ?2 AND description = ?3 AND channel_title = ?4 AND tags = ?5 AND channel_id = ?6
	AND published_at = ?7 AND duration IS ?8 AND category = ?9 AND live = ?10 AND language = ?11 AND thumbnail = ?12
	AND brief = ?13
FROM videos WHERE video_id = ?1;

-- videos_save adds or changes a video. Args: time, then the columns as listed.
INSERT INTO videos (fetched_at, video_id, title, description, channel_title, tags, channel_id, published_at,
	duration, category, live, language, thumbnail, brief)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT (video_id) DO UPDATE SET fetched_at = excluded.fetched_at, title = excluded.title, description = excluded.description,
	channel_title = excluded.channel_title, tags = excluded.tags, channel_id = excluded.channel_id,
	published_at = excluded.published_at, duration = excluded.duration, category = excluded.category, live = excluded.live,
	language = excluded.language, thumbnail = excluded.thumbnail, brief = excluded.brief;

-- statistics_save saves the statistics of a video. Args: time, id, views, likes, comments.
INSERT INTO statistics (video, fetched_at, views, likes, comments)
SELECT id, ?1, ?3, ?4, ?5 FROM videos WHERE video_id = ?2
ON CONFLICT (video) DO UPDATE SET fetched_at = excluded.fetched_at, views = excluded.views,
	likes = excluded.likes, comments = excluded.comments;

-- channels_save saves a channel. Args: the columns as listed.
INSERT INTO channels (fetched_at, channel_id, published_at, title, handle, country, uploads, description)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (channel_id) DO UPDATE SET fetched_at = excluded.fetched_at, published_at = excluded.published_at,
	title = excluded.title, handle = excluded.handle, country = excluded.country, uploads = excluded.uploads,
	description = excluded.description;

-- search returns the best of the videos that have the words, the best first: the row, how many
-- were ranked, and the columns of video_find. Title, description, channel and tags have weights.
-- Args: query, how many to rank, limit, region or '', time since which they were published, rows
-- to leave out.
WITH ranked AS MATERIALIZED (
	SELECT rowid AS id, bm25(search, 10, 1, 4, 3) AS score FROM search WHERE search MATCH ?1 ORDER BY rowid DESC LIMIT ?2
), hit AS (
	SELECT id, score FROM ranked
	WHERE (?4 = '' OR EXISTS (SELECT 1 FROM sightings WHERE region = ?4 AND video = ranked.id))
		AND (?5 = 0 OR (SELECT published_at FROM videos WHERE videos.id = ranked.id) >= ?5)
		AND id NOT IN (SELECT value FROM json_each(?6))
	ORDER BY score, id LIMIT ?3
)
SELECT hit.id, (SELECT count(*) FROM ranked), v.video_id, v.channel_id, v.channel_title, v.title, v.description, v.tags, v.category,
	v.live, v.language, v.thumbnail, coalesce(v.duration, 0), v.published_at, v.brief, v.fetched_at,
	coalesce(s.fetched_at, 0), s.views, s.likes, s.comments
FROM hit JOIN videos v ON v.id = hit.id LEFT JOIN statistics s ON s.video = v.id ORDER BY hit.score, hit.id;

-- search_cut returns a row if more than some videos have the words. Args: query, number.
SELECT 1 FROM search WHERE search MATCH ?1 LIMIT 1 OFFSET ?2;

-- columns_find returns the names of the columns of a table. Args: table.
SELECT name FROM pragma_table_info(?1);
