-- ages_videos returns the videos that were last fetched before a time. Args: time, limit or
-- NULL.
SELECT video_id, fetched_at, brief FROM headroom_catalog.videos WHERE fetched_at < $1::bigint ORDER BY fetched_at, id LIMIT $2::bigint;

-- ages_statistics returns the videos whose numbers were last fetched before a time. Args: time,
-- limit or NULL.
(SELECT v.video_id, 0::bigint, false FROM headroom_catalog.videos v
	WHERE NOT EXISTS (SELECT 1 FROM headroom_catalog.statistics WHERE video = v.id) ORDER BY v.id LIMIT $2::bigint)
UNION ALL
(SELECT v.video_id, s.fetched_at, false FROM headroom_catalog.statistics s JOIN headroom_catalog.videos v ON v.id = s.video
	WHERE s.fetched_at < $1::bigint ORDER BY s.fetched_at, s.video LIMIT $2::bigint)
LIMIT $2::bigint;

-- ages_channels returns the channels that were last fetched before a time. Args: time, limit or
-- NULL.
SELECT channel_id, fetched_at, false FROM headroom_catalog.channels WHERE fetched_at < $1::bigint ORDER BY fetched_at, channel_id LIMIT $2::bigint;

-- expire_charts deletes some charts that were fetched before a time. Args: time.
DELETE FROM headroom_catalog.charts WHERE id IN (SELECT id FROM headroom_catalog.charts WHERE fetched_at < $1::bigint ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED);

-- expire_sightings deletes some sightings before a time. Args: time.
DELETE FROM headroom_catalog.sightings s USING (SELECT region, video FROM headroom_catalog.sightings WHERE seen_at < $1::bigint LIMIT 5000 FOR UPDATE SKIP LOCKED) AS old
WHERE s.region = old.region AND s.video = old.video;

-- expire_statistics deletes some statistics that were last fetched before a time.
-- Args: time.
DELETE FROM headroom_catalog.statistics WHERE video IN (SELECT video FROM headroom_catalog.statistics WHERE fetched_at < $1::bigint LIMIT 500 FOR UPDATE SKIP LOCKED);

-- expire_videos deletes some videos that were last fetched before a time, with everything that
-- refers to them. Args: time.
DELETE FROM headroom_catalog.videos WHERE id IN (SELECT id FROM headroom_catalog.videos WHERE fetched_at < $1::bigint ORDER BY video_id LIMIT 500 FOR UPDATE SKIP LOCKED);

-- expire_channels deletes some channels that were last fetched before a time. Args: time.
DELETE FROM headroom_catalog.channels WHERE channel_id IN (SELECT channel_id FROM headroom_catalog.channels WHERE fetched_at < $1::bigint LIMIT 500 FOR UPDATE SKIP LOCKED);

-- expire_runs deletes the runs that ended before a time. Args: time.
DELETE FROM headroom_catalog.runs WHERE ended_at > 0 AND ended_at < $1::bigint;

-- rebase_videos sets times in the future to now. Args: time.
UPDATE headroom_catalog.videos SET fetched_at = $1::bigint WHERE fetched_at > $1::bigint;

-- rebase_statistics sets times in the future to now. Args: time.
UPDATE headroom_catalog.statistics SET fetched_at = $1::bigint WHERE fetched_at > $1::bigint;

-- rebase_channels sets times in the future to now. Args: time.
UPDATE headroom_catalog.channels SET fetched_at = $1::bigint WHERE fetched_at > $1::bigint;

-- rebase_charts sets times in the future to now. Args: time.
UPDATE headroom_catalog.charts SET fetched_at = $1::bigint WHERE fetched_at > $1::bigint;

-- rebase_sightings sets times in the future to now. Args: time.
UPDATE headroom_catalog.sightings SET seen_at = $1::bigint WHERE seen_at > $1::bigint;

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
