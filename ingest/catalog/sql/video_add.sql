-- Adds a video. Args: its columns as they are listed.
INSERT INTO videos (video_id, title, description, channel_title, tags, channel_id, published_at,
	duration, category, live, language, thumbnail, brief, fetched_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
