-- Deletes some charts that were last fetched before a time. Args: the time.
DELETE FROM charts WHERE id IN (SELECT id FROM charts WHERE fetched_at < ?1 LIMIT 500)
