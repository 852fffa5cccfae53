-- Saves the numbers of a video. Args: its row, the time, views, likes, comments.
INSERT INTO statistics (video, fetched_at, views, likes, comments) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (video) DO UPDATE SET fetched_at = excluded.fetched_at, views = excluded.views,
	likes = excluded.likes, comments = excluded.comments
