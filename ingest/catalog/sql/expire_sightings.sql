-- Deletes the sightings that were last seen before a time. Args: the time.
DELETE FROM sightings WHERE seen_at < ?1
