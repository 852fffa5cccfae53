-- channels_lock returns which channels there are. Args: ids.
SELECT channel_id FROM headroom_catalog.channels WHERE channel_id = ANY($1::text[]) ORDER BY channel_id FOR UPDATE;

-- videos_touch records that videos were fetched again unchanged. Args: ids, time.
UPDATE headroom_catalog.videos SET fetched_at = $2::bigint WHERE video_id = ANY($1::text[]);

-- videos_remove deletes videos with everything that refers to them. Args: ids.
DELETE FROM headroom_catalog.videos WHERE video_id = ANY($1::text[]);

-- sightings_save records that videos were fetched for a region. Args: region, ids, time.
INSERT INTO headroom_catalog.sightings (region, video, seen_at)
SELECT $1::text, id, $3::bigint FROM headroom_catalog.videos WHERE video_id = ANY($2::text[]) ORDER BY id
ON CONFLICT (region, video) DO UPDATE SET seen_at = excluded.seen_at;

-- channels_remove deletes channels. Args: ids.
DELETE FROM headroom_catalog.channels WHERE channel_id = ANY($1::text[]);
