-- video_row returns the row of a video. Args: id.
SELECT id FROM videos WHERE video_id = ?1;

-- video_find returns the row of a video, whether it is brief, and whether it equals the
-- arguments. Args: those of video_add without the time.
SELECT id, brief, title = ?2 AND description = ?3 AND channel_title = ?4 AND tags = ?5 AND channel_id = ?6
	AND published_at = ?7 AND duration IS ?8 AND category = ?9 AND live = ?10 AND language = ?11 AND thumbnail = ?12
	AND brief = ?13
FROM videos WHERE video_id = ?1;

-- video_add adds a video. Args: the columns as listed.
INSERT INTO videos (video_id, title, description, channel_title, tags, channel_id, published_at,
	duration, category, live, language, thumbnail, brief, fetched_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14);

-- video_save changes a video. Args: those of video_add.
UPDATE videos SET title = ?2, description = ?3, channel_title = ?4, tags = ?5, channel_id = ?6, published_at = ?7,
	duration = ?8, category = ?9, live = ?10, language = ?11, thumbnail = ?12, brief = ?13, fetched_at = ?14
WHERE video_id = ?1;

-- video_touch records that a video was fetched again unchanged. Args: row, time.
UPDATE videos SET fetched_at = ?2 WHERE id = ?1;

-- video_remove deletes videos with everything that refers to them. Args: rows as JSON.
DELETE FROM videos WHERE id IN (SELECT value FROM json_each(?1));

-- statistics_save saves the statistics of a video. Args: row, time, views, likes,
-- comments.
INSERT INTO statistics (video, fetched_at, views, likes, comments) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (video) DO UPDATE SET fetched_at = excluded.fetched_at, views = excluded.views,
	likes = excluded.likes, comments = excluded.comments;

-- sighting_save records that a video was fetched for a region. Args: region, row, time.
INSERT INTO sightings (region, video, seen_at) VALUES (?1, ?2, ?3)
ON CONFLICT (region, video) DO UPDATE SET seen_at = excluded.seen_at;

-- channel_save saves a channel. Args: the columns as listed.
INSERT INTO channels (channel_id, fetched_at, published_at, title, handle, country, uploads, description)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (channel_id) DO UPDATE SET fetched_at = excluded.fetched_at, published_at = excluded.published_at,
	title = excluded.title, handle = excluded.handle, country = excluded.country, uploads = excluded.uploads,
	description = excluded.description;

-- channel_remove deletes channels. Args: ids as JSON.
DELETE FROM channels WHERE channel_id IN (SELECT value FROM json_each(?1));
