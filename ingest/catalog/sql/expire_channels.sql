-- Deletes some channels that were last fetched before a time. Args: the time.
DELETE FROM channels WHERE channel_id IN (SELECT channel_id FROM channels WHERE fetched_at < ?1 LIMIT 500)
