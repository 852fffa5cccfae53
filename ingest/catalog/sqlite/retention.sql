-- videos_aged returns some videos that were last fetched before a time. Args: time.
SELECT video_id FROM videos WHERE fetched_at < ?1 LIMIT 500;

-- expire_sightings deletes the sightings before a time. Args: time.
DELETE FROM sightings WHERE seen_at < ?1;
