-- ages_videos returns the videos that were last fetched before a time. Args: time, limit.
SELECT video_id, fetched_at, brief FROM headroom_catalog.videos WHERE fetched_at < $1::bigint ORDER BY fetched_at, id LIMIT $2::bigint;

-- ages_statistics returns the videos whose numbers were last fetched before a time. Args: time,
-- limit.
SELECT * FROM (
	SELECT v.video_id, 0::bigint, false FROM headroom_catalog.videos v
	WHERE NOT EXISTS (SELECT 1 FROM headroom_catalog.statistics WHERE video = v.id) ORDER BY v.id LIMIT $2::bigint
) AS never
UNION ALL
SELECT * FROM (
	SELECT v.video_id, s.fetched_at, false FROM headroom_catalog.statistics s JOIN headroom_catalog.videos v ON v.id = s.video
	WHERE s.fetched_at < $1::bigint ORDER BY s.fetched_at, s.video LIMIT $2::bigint
) AS before
LIMIT $2::bigint;

-- ages_channels returns the channels that were last fetched before a time. Args: time, limit.
SELECT channel_id, fetched_at, false FROM headroom_catalog.channels WHERE fetched_at < $1::bigint ORDER BY fetched_at, channel_id LIMIT $2::bigint;

-- expire_charts deletes some charts that were fetched before a time. Args: time.
DELETE FROM headroom_catalog.charts WHERE id IN (SELECT id FROM headroom_catalog.charts WHERE fetched_at < $1::bigint ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED);

-- expire_statistics deletes some statistics that were last fetched before a time.
-- Args: time.
DELETE FROM headroom_catalog.statistics WHERE video IN (SELECT video FROM headroom_catalog.statistics WHERE fetched_at < $1::bigint LIMIT 500 FOR UPDATE SKIP LOCKED);

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
