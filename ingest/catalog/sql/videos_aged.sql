-- Finds some videos that were last fetched before a time. Args: the time.
SELECT id FROM videos WHERE fetched_at < ?1 LIMIT 500
