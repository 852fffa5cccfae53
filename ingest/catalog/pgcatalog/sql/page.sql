-- videos_lock returns what a page needs to know of videos, and locks them in the order in
-- which every page does. Args: ids.
SELECT video_id, brief, digest FROM headroom_catalog.videos WHERE video_id = ANY($1::text[]) ORDER BY video_id FOR NO KEY UPDATE;

-- videos_save adds or changes videos. If another process adds one at the same moment, a brief
-- video still does not replace a full one. Args: time, then an array for each column as listed.
INSERT INTO headroom_catalog.videos AS v (fetched_at, video_id, title, description, channel_title, tags, channel_id, published_at,
	duration, category, live, language, thumbnail, brief, digest)
SELECT $1::bigint, n.* FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
	$9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[], $14::boolean[], $15::bytea[]) AS n (video_id)
ORDER BY n.video_id COLLATE "C"
ON CONFLICT (video_id) DO UPDATE SET fetched_at = excluded.fetched_at, title = excluded.title, description = excluded.description,
	channel_title = excluded.channel_title, tags = excluded.tags, channel_id = excluded.channel_id,
	published_at = excluded.published_at, duration = excluded.duration, category = excluded.category, live = excluded.live,
	language = excluded.language, thumbnail = excluded.thumbnail, brief = excluded.brief, digest = excluded.digest
WHERE v.brief OR NOT excluded.brief;

-- words_save saves the words of videos that videos_save has saved. Args: version, ids, digests,
-- words, words of videos that have too many for positions.
INSERT INTO headroom_catalog.video_words (video, version, words, overlong)
SELECT v.id, $1::text, n.words::tsvector, n.overlong
FROM unnest($2::text[], $3::bytea[], $4::text[], $5::text[]) AS n (video_id, digest, words, overlong)
JOIN headroom_catalog.videos v ON v.video_id = n.video_id AND v.digest = n.digest
ORDER BY v.id
ON CONFLICT (video) DO UPDATE SET version = excluded.version, words = excluded.words, overlong = excluded.overlong;

-- statistics_save saves the statistics of videos. Args: time, ids, views, likes, comments.
INSERT INTO headroom_catalog.statistics (video, fetched_at, views, likes, comments)
SELECT v.id, $1::bigint, n.views, n.likes, n.comments
FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) AS n (video_id, views, likes, comments)
JOIN headroom_catalog.videos v ON v.video_id = n.video_id
ORDER BY v.id
ON CONFLICT (video) DO UPDATE SET fetched_at = excluded.fetched_at, views = excluded.views,
	likes = excluded.likes, comments = excluded.comments;

-- channels_save saves channels. Args: time, then an array for each column as listed.
INSERT INTO headroom_catalog.channels (fetched_at, channel_id, published_at, title, handle, country, uploads, description)
SELECT $1::bigint, n.* FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[]) AS n (channel_id)
ORDER BY n.channel_id COLLATE "C"
ON CONFLICT (channel_id) DO UPDATE SET fetched_at = excluded.fetched_at, published_at = excluded.published_at,
	title = excluded.title, handle = excluded.handle, country = excluded.country, uploads = excluded.uploads,
	description = excluded.description;
