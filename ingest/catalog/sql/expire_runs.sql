-- Deletes runs that ended before a time. Args: the time.
DELETE FROM runs WHERE ended_at > 0 AND ended_at < ?1
