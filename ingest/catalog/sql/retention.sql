-- videos_aged returns the rows of some videos that were last fetched before a time.
-- Args: time.
SELECT id FROM videos WHERE fetched_at < ?1 LIMIT 500;

-- expire_charts deletes some charts that were fetched before a time. Args: time.
DELETE FROM charts WHERE id IN (SELECT id FROM charts WHERE fetched_at < ?1 LIMIT 500);

-- expire_sightings deletes the sightings before a time. Args: time.
DELETE FROM sightings WHERE seen_at < ?1;

-- expire_statistics deletes some statistics that were last fetched before a time.
-- Args: time.
DELETE FROM statistics WHERE video IN (SELECT video FROM statistics WHERE fetched_at < ?1 LIMIT 500);

-- expire_channels deletes some channels that were last fetched before a time. Args: time.
DELETE FROM channels WHERE channel_id IN (SELECT channel_id FROM channels WHERE fetched_at < ?1 LIMIT 500);

-- expire_runs deletes the runs that ended before a time. Args: time.
DELETE FROM runs WHERE ended_at > 0 AND ended_at < ?1;
