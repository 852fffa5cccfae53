-- expire_sightings deletes some sightings before a time. Args: time.
DELETE FROM headroom_catalog.sightings s USING (SELECT region, video FROM headroom_catalog.sightings WHERE seen_at < $1::bigint LIMIT 5000 FOR UPDATE SKIP LOCKED) AS old
WHERE s.region = old.region AND s.video = old.video;

-- videos_aged returns some videos that were last fetched before a time. It locks them. Args: time.
SELECT video_id FROM headroom_catalog.videos WHERE fetched_at < $1::bigint ORDER BY video_id LIMIT 500 FOR UPDATE SKIP LOCKED;

-- stale_words returns the texts of some videos whose words are missing or of another version.
-- Args: version, row to begin after.
SELECT v.id, v.video_id, v.title, v.channel_title, v.tags, v.description, v.digest FROM headroom_catalog.videos v
WHERE v.id > $2::bigint AND NOT EXISTS (SELECT 1 FROM headroom_catalog.video_words w WHERE w.video = v.id AND w.version = $1::text)
ORDER BY v.id LIMIT 500 FOR SHARE OF v SKIP LOCKED;

-- texts returns the texts of some videos. Args: row to begin after.
SELECT v.id, v.video_id, v.title, v.channel_title, v.tags, v.description, v.digest FROM headroom_catalog.videos v
WHERE v.id > $1::bigint ORDER BY v.id LIMIT 500;

-- words_differ counts the videos whose words are not these, if the videos are still the same.
-- Args: ids, digests, words, words of videos that have too many for positions.
SELECT count(*) FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[]) AS n (video_id, digest, words, overlong)
JOIN headroom_catalog.videos v ON v.video_id = n.video_id AND v.digest = n.digest
LEFT JOIN headroom_catalog.video_words w ON w.video = v.id
WHERE w.words IS DISTINCT FROM n.words::tsvector OR w.overlong IS DISTINCT FROM n.overlong;
