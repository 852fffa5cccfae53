-- Finds a video, and says whether it is in every way what it is asked to be.
-- Args: the columns of video_add, without the time.
SELECT id, brief, title = ?2 AND description = ?3 AND channel_title = ?4 AND tags = ?5 AND channel_id = ?6
	AND published_at = ?7 AND duration IS ?8 AND category = ?9 AND live = ?10 AND language = ?11 AND thumbnail = ?12
	AND brief = ?13
FROM videos WHERE video_id = ?1
