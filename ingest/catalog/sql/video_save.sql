-- Changes a video. Args: those of video_add.
UPDATE videos SET title = ?2, description = ?3, channel_title = ?4, tags = ?5, channel_id = ?6, published_at = ?7,
	duration = ?8, category = ?9, live = ?10, language = ?11, thumbnail = ?12, brief = ?13, fetched_at = ?14
WHERE video_id = ?1
