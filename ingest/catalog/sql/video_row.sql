-- Finds the row of a video. Args: its id.
SELECT id FROM videos WHERE video_id = ?1
