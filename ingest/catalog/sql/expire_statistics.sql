-- Deletes some statistics that were last fetched before a time. Args: the time.
DELETE FROM statistics WHERE video IN (SELECT video FROM statistics WHERE fetched_at < ?1 LIMIT 500)
