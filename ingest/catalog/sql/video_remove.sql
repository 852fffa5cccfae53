-- Deletes a video, and by triggers and references all there is of it. Args: its id.
DELETE FROM videos WHERE video_id = ?1
